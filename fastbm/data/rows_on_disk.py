"""Packed rows in a temporary file that has no name: written once, in order, then read from anywhere.

A file takes the place of memory for data that are larger; the operating system keeps in memory what there is room for.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import weakref

import numpy as np

from .._base.checks import StorageError
from .rows import Held


class Spool:
    """A table in a temporary file, that grows.

    Parameters
    ----------
    n_bytes : int
        Of one row.
    """

    def __init__(self, n_bytes: int) -> None:
        self._file = tempfile.TemporaryFile(prefix="fastbm-")  # noqa: SIM115 (it lives as long as the table)
        weakref.finalize(self, self._file.close)
        self._n_bytes, self._n_rows, self._hash = n_bytes, 0, hashlib.sha256()

    def append(self, packed: np.ndarray) -> None:
        """Add rows at the end."""
        data = np.ascontiguousarray(packed).data
        self._hash.update(data)
        try:
            self._file.write(data)
        except OSError as error:
            self._raise(error, len(data))
        self._n_rows += len(packed)

    def close(self) -> None:
        """Hand what is buffered to the operating system: there are no more rows."""
        try:
            self._file.flush()
        except OSError as error:
            self._raise(error, 0)

    def _raise(self, error: OSError, needed: int) -> None:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise error
        done = self._n_rows * self._n_bytes
        raise StorageError(
            f"no space left in {tempfile.gettempdir()} for the packed rows of data (needed {needed / 1e6:.1f} MB more "
            f"after {done / 1e6:.1f} MB). Free space there, or name another folder by the environment variable TMPDIR."
        ) from None

    def __len__(self) -> int:
        return self._n_rows

    def __reduce__(self) -> tuple[type[Held], tuple[np.ndarray]]:
        """Return what another process gets, where this file is not: the rows in memory."""
        return Held, (self.part(0, len(self)),)

    def part(self, first: int, last: int) -> np.ndarray:
        """Return rows from `first` to before `last`."""
        n_rows = max(last - first, 0)
        found = np.empty((n_rows, self._n_bytes), np.uint8)
        self._read(found, first)
        return found

    def at(self, indices: np.ndarray) -> np.ndarray:
        """Return rows by their numbers."""
        found = np.empty((len(indices), self._n_bytes), np.uint8)
        for row, index in zip(found, np.asarray(indices).tolist(), strict=True):
            self._read(row, index)
        return found

    def _read(self, into: np.ndarray, first: int) -> None:
        """Fill `into`, from the beginning of a row on; system calls may return less than was asked for."""
        view, place = into.reshape(-1).data, first * self._n_bytes
        while len(view):
            n_read = os.preadv(self._file.fileno(), [view], place)
            if not n_read:
                raise StorageError("the temporary file with the rows of data ended early; was it truncated?")
            view, place = view[n_read:], place + n_read

    def digest(self) -> str:
        """Return the sha256 of all bytes, in hex."""
        return self._hash.hexdigest()
