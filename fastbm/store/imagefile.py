"""A file in memory that HDF5 writes, whose large arrays never pass through HDF5.

HDF5 is asked where a dataset will lie, and the array's own memory takes that place: an image of rows costs no copy of
them. All else, a few kilobytes of structure, is kept as HDF5 wrote it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np

SMALL = 64 << 10  # bytes below which a copy is cheaper than a piece of its own


class ImageFile(io.RawIOBase):
    """A file object for HDF5 that keeps what is written as pieces, in order.

    Memory is that of the pieces: arrays of at least `SMALL` bytes are kept by reference, everything else twice.
    """

    def __init__(self) -> None:
        self._writes: list[tuple[int, bytes]] = []
        self._placed: list[tuple[int, memoryview]] = []
        self._place, self._size = 0, 0

    def put(self, dataset: h5py.h5d.DatasetID, arrays: Iterable[np.ndarray]) -> None:
        """Let arrays, one after the other, be the contents of a dataset whose place in the file is allocated."""
        offset = dataset.get_offset()
        for array in arrays:
            if array.size:
                data = array.reshape(-1).view(np.uint8).data
                if len(data) < SMALL:
                    self._writes.append((offset, bytes(data)))
                else:
                    self._placed.append((offset, data))
                offset += len(data)

    def pieces(self) -> list[memoryview]:
        """Return the bytes of the whole file, in order; what was never written is zero."""
        found, end = [], 0
        for offset, data in sorted([*self._placed, (self._size, memoryview(b""))], key=lambda placed: placed[0]):
            if offset > end:
                found.append(memoryview(self._between(end, offset)))
            found.append(data)
            end = offset + len(data)
        return [piece for piece in found if piece]

    def _between(self, start: int, stop: int) -> bytearray:
        buffer = bytearray(stop - start)
        for offset, data in self._writes:
            low, high = max(offset, start), min(offset + len(data), stop)
            if low < high:
                buffer[low - start : high - start] = memoryview(data)[low - offset : high - offset]
        return buffer

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
        """Read at the place what HDF5 itself has written; it never asks for an array that was put."""
        view = memoryview(buffer).cast("B")
        view[:] = self._between(self._place, self._place + len(view))
        self._place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Keep a copy: HDF5 uses its buffers again."""
        copy = bytes(data)
        self._writes.append((self._place, copy))
        self._place += len(copy)
        self._size = max(self._size, self._place)
        return len(copy)

    def truncate(self, size: int | None = None) -> int:
        """Set the length of the file."""
        self._size = self._place if size is None else size
        return self._size
