"""The file that HDF5 writes a merge to.

HDF5 must never meet a disk error: it crashes when a write fails. So a failed write is noted here, later ones are
dropped, and the first error is raised when HDF5 has closed its side.

Large chunks do not go through HDF5: it is handed a blank in place of each, and where it puts that is a hole, which is
filled when HDF5 is done.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from . import files
from .image import trailer
from .placed import Placed


class DiskFile(Placed):
    """A file object for HDF5, all of whose changes go through `files`.

    Attributes
    ----------
    holes : list of int
        Places at which HDF5 has put the blank, in the order in which it did.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._handle = files.create(path)
        self._error: BaseException | None = None
        self._blank = np.zeros(0, np.uint8)
        self.holes: list[int] = []

    @property
    def handle(self) -> int:
        """The descriptor of the file."""
        return self._handle

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

    def blank(self, n_bytes: int) -> memoryview:
        """Return what stands for a chunk of so many bytes."""
        if len(self._blank) < n_bytes:
            self._blank = np.zeros(n_bytes, np.uint8)
        return self._blank.data[:n_bytes]

    def fill(self, place: int, data: bytearray) -> None:
        """Write a chunk where HDF5 has put its blank."""
        files.write_all(self._handle, memoryview(data), place)

    def seal(self, digest: bytes) -> None:
        """Append the trailer, with the hash of all that was written."""
        files.write_all(self._handle, trailer(self.size, digest), self.size)

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        files.sync(self._handle)

    def close(self) -> None:
        """Close the file; HDF5 closes only its own side."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            files.close(handle)
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read at the place; what was never written is zero."""
        view = memoryview(buffer).cast("B")
        data = os.pread(self._handle, len(view), self.place)
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self.place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Write at the place, unless a write failed before, or it is a blank."""
        view = memoryview(data).cast("B")
        if self._is_blank(view):
            self.holes.append(self.place)
        elif self._error is None:
            try:
                files.write_all(self._handle, view, self.place)
            except BaseException as error:  # raised by hdf5(), outside HDF5
                self._error = error
        return self.passed(len(view))

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        super().truncate(size)
        if self._error is None:
            try:
                os.ftruncate(self._handle, self.size)
            except OSError as error:
                self._error = OSError(error.errno or errno.EIO, error.strerror)
        return self.size

    def _is_blank(self, view: memoryview) -> bool:
        """Whether HDF5 hands on the very bytes that it was given as a blank."""
        if not len(view) or not len(self._blank):
            return False
        return _address(np.frombuffer(view, np.uint8)) == _address(self._blank)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
