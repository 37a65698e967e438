"""A file on a disk that HDF5 can write and that never shows HDF5 an error.

HDF5 may crash the process when a write fails. So a failed write is noted here, later ones are dropped, and the first
error is raised when HDF5 has closed its side.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from . import files
from .image import MAGIC, TRAILER

_BLOCK = 1 << 20


class DiskFile(io.RawIOBase):
    """A file object for HDF5, all of whose changes go through `files`."""

    def __init__(self, path: Path) -> None:
        self._handle = files.create(path)
        self._place, self._size = 0, 0
        self._error: BaseException | None = None

    @contextmanager
    def hdf5(self) -> Iterator[h5py.File]:
        """Open the file as HDF5; raise the first error of the disk at the end."""
        try:
            with h5py.File(self, "w", libver="earliest") as file:
                yield file
        except Exception as error:
            raise self._error or error from error
        if self._error is not None:
            raise self._error

    def seal(self) -> None:
        """Append the trailer over all that was written."""
        digest = hashlib.sha256()
        for offset in range(0, self._size, _BLOCK):
            digest.update(os.pread(self._handle, min(_BLOCK, self._size - offset), offset))
        files.write_all(self._handle, TRAILER.pack(MAGIC, self._size, digest.digest()), self._size)

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        files.sync(self._handle)

    def close(self) -> None:
        """Close the file; HDF5 closes only its own side."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            files.close(handle)
        super().close()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place in the file."""
        self._place = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Read at the place; what was never written is zero."""
        view = memoryview(buffer).cast("B")
        data = os.pread(self._handle, len(view), self._place)
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self._place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Write at the place, unless a write failed before."""
        view = memoryview(data).cast("B")
        if self._error is None:
            try:
                files.write_all(self._handle, view, self._place)
            except BaseException as error:  # raised by hdf5(), outside HDF5
                self._error = error
        self._place += len(view)
        self._size = max(self._size, self._place)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self._size = self._place if size is None else size
        if self._error is None:
            try:
                os.ftruncate(self._handle, self._size)
            except OSError as error:
                self._error = OSError(error.errno or errno.EIO, error.strerror)
        return self._size
