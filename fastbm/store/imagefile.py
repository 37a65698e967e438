"""A file in memory that HDF5 writes, whose large arrays never pass through HDF5.

HDF5 is asked where a dataset will lie, and the array's own memory takes that place: an image of rows costs no copy of
them. All else, a few kilobytes of structure, is kept as HDF5 wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import h5py
import numpy as np

from .placed import Placed

SMALL = 64 << 10  # bytes below which a copy is cheaper than a piece of its own


class ImageFile(Placed):
    """A file object for HDF5 that keeps what is written as pieces, in order.

    Memory is that of the pieces: arrays of at least `SMALL` bytes are kept by reference, everything else twice.
    """

    def __init__(self) -> None:
        super().__init__()
        self._writes: list[tuple[int, bytes]] = []
        self._placed: list[tuple[int, memoryview]] = []

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
        for offset, data in sorted([*self._placed, (self.size, memoryview(b""))], key=lambda placed: placed[0]):
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

    def readinto(self, buffer: Any) -> int:
        """Read at the place what HDF5 itself has written; it never asks for an array that was put."""
        view = memoryview(buffer).cast("B")
        view[:] = self._between(self.place, self.place + len(view))
        self.place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Keep a copy: HDF5 uses its buffers again."""
        copy = bytes(data)
        self._writes.append((self.place, copy))
        return self.passed(len(copy))
