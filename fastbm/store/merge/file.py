"""The file that a merge writes: laid out by HDF5, filled with chunks past it, and hashed as it is written.

HDF5 must never meet a disk error: it crashes when a write fails. So a failed write is noted here, later ones are
dropped, and the first error is raised when HDF5 has closed its side.

Large chunks do not go through HDF5: it is handed a blank in place of each, and where it puts that is a hole, which is
filled when HDF5 is done. Chunks are made of rows as HDF5 lays them out, with the checksum that its filter "fletcher32"
puts behind each. The file is read back from its start to its end and hashed.
"""

from __future__ import annotations

import errno
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..._base.checks import StorageError
from ..._base.streams import Stream
from ...kernels.checksum import MODULUS, sum_words
from .. import disk
from ..image import Placed, table_and_trailer
from ..schema import chunk_shape
from ..seal import BlockHash

SIZE = 4  # bytes
_BLOCK = 1 << 20
_LEAST = 4 << 20  # bytes for which it pays to wake the other thread
Write = Callable[[int, bytearray], None]


class DiskFile(Placed):
    """A file object for HDF5, all of whose changes go through `fastbm.store.disk`.

    Attributes
    ----------
    holes : list of int
        Places at which HDF5 has put the blank, in the order in which it did.
    """

    _handle = -1  # where the file cannot be made, Python closes it all the same

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._handle = disk.create(path)
        self._error: BaseException | None = None
        self._blank = np.zeros(0, np.uint8)
        self.holes: list[int] = []

    @property
    def handle(self) -> int:
        """Descriptor of the file."""
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
        """Return the bytes that hold the place of a chunk of `n_bytes` bytes."""
        if len(self._blank) < n_bytes:
            self._blank = np.zeros(n_bytes, np.uint8)
        return self._blank.data[:n_bytes]

    def fill(self, place: int, data: bytearray) -> None:
        """Write a chunk where HDF5 has put a blank for it."""
        disk.write_all(self._handle, memoryview(data), place)

    def seal(self, blocks: BlockHash) -> None:
        """Append the checksums of all that was written, and the trailer."""
        disk.write_all(self._handle, table_and_trailer(self.size, blocks), self.size)

    def sync(self) -> None:
        """Return when the bytes are on the disk."""
        disk.sync(self._handle)

    def close(self) -> None:
        """Close the file; HDF5 closes only its own side."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            disk.close(handle)
        super().close()

    def readinto(self, buffer: Any) -> int:
        """Read at the position; what was never written is zero."""
        view = memoryview(buffer).cast("B")
        data = os.pread(self._handle, len(view), self.place)
        view[: len(data)] = data
        view[len(data) :] = bytes(len(view) - len(data))
        self.place += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        """Write at the position, unless a write failed before, or it is a blank."""
        view = memoryview(data).cast("B")
        if self._is_blank(view):
            self.holes.append(self.place)
        elif self._error is None:
            try:
                disk.write_all(self._handle, view, self.place)
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
        """Return whether HDF5 hands on the very bytes that it was given as a blank."""
        if not len(view) or not len(self._blank):
            return False
        return _address(np.frombuffer(view, np.uint8)) == _address(self._blank)


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def fletcher32(data: bytearray | memoryview) -> bytes:
    """Return the checksum of some bytes that HDF5 keeps behind them in a file.

    A word whose bytes are exchanged is 256 times itself modulo 65535, and so are the sums of such words.
    """
    if len(data) % 2:
        data = bytearray(data) + b"\0"
    sums = np.zeros(2, np.uint64)
    sum_words(np.frombuffer(data, np.uint16), sums)
    factor = 256 if sys.byteorder == "little" else 1
    once, twice = ((int(one) * factor - 1) % MODULUS + 1 if one else 0 for one in sums)
    return (twice << 16 | once).to_bytes(SIZE, "little")


class Follower:
    """The hash of a file, computed in a thread of its own behind the writer that fills the file's holes.

    Each chunk that fills a hole is compared with its checksum, and that with the one that was meant.

    Parameters
    ----------
    handle : int
        The file, all of it written but the holes.
    size : int
        Its length.
    holes : iterable of (int, int)
        Place and length of each.
    """

    def __init__(self, handle: int, size: int, holes: Iterable[tuple[int, int]]) -> None:
        self._handle, self._size = handle, size
        self._holes = sorted(holes)
        self._meant: dict[int, bytes] = {}  # checksums by the places of chunks
        self._n_filled = self._n_checked = 0  # of the holes, from the first on
        self._asked = 0  # bytes that the thread is to hash, or has
        self._blocks = BlockHash()
        self._buffer = memoryview(bytearray(max([min(size, _BLOCK), *(size for _, size in self._holes)])))
        self._thread = ThreadPoolExecutor(1, "fastbm-merge")
        self._parts: list[Future[None]] = []

    def filled(self, place: int, checksum: bytes) -> None:
        """Record that a hole is filled with a chunk."""
        self._meant[place] = checksum
        while self._n_filled < len(self._holes) and self._holes[self._n_filled][0] in self._meant:
            self._n_filled += 1
        if self._n_filled < len(self._holes) and self._holes[self._n_filled][0] - self._asked >= _LEAST:
            self._follow(self._holes[self._n_filled][0])

    def end(self) -> BlockHash:
        """Return the hash of the whole file, once no hole is left in it."""
        if self._n_filled < len(self._holes):
            raise StorageError(f"{len(self._holes) - self._n_filled} chunks of the merged file were not filled.")
        if self._asked:
            self._follow(self._size)
        else:  # too little was filled to wake the other thread
            self._hash(0, self._size)
        while self._parts:
            self._parts.pop(0).result()
        return self._blocks

    def close(self) -> None:
        """Wait for the thread; what it has not begun is dropped."""
        self._thread.shutdown(cancel_futures=True)

    def _follow(self, end: int) -> None:
        while self._parts and self._parts[0].done():
            self._parts.pop(0).result()
        self._parts.append(self._thread.submit(self._hash, self._asked, end))
        self._asked = end

    def _hash(self, start: int, end: int) -> None:
        while start < end:
            hole, size = self._holes[self._n_checked] if self._n_checked < len(self._holes) else (end, 0)
            if hole == start and size:
                chunk = self._read(start, size)
                if not chunk[-SIZE:] == self._meant.pop(start) == fletcher32(chunk[:-SIZE]):
                    raise StorageError(f"the chunk at byte {start} of the merged file differs from the parts.")
                self._n_checked += 1
            else:
                size = min(len(self._buffer), hole - start, end - start)
                chunk = self._read(start, size)
            self._blocks.update(chunk)
            start += size

    def _read(self, start: int, size: int) -> memoryview:
        view = self._buffer[:size]
        n_read = 0
        while n_read < size:
            some = os.preadv(self._handle, [view[n_read:]], start + n_read)
            if not some:
                raise StorageError(f"the merged file ends at byte {start + n_read}; it was cut while it was written.")
            n_read += some
        return view


def corners(stream: Stream, n_rows: int) -> Iterator[tuple[int, ...]]:
    """Return the first index of every chunk that holds any of `n_rows` rows, in the order in which rows fill them."""
    size = chunk_shape(stream, n_rows)
    yield from itertools.product(*(range(0, n, step) for n, step in zip((n_rows, *stream.shape), size, strict=True)))


def chunk_bytes(stream: Stream, n_rows: int) -> int:
    """Return the number of bytes of one chunk of `n_rows` rows in the file, with its checksum."""
    return math.prod(chunk_shape(stream, n_rows)) * stream.item_bytes + SIZE


class Chunks:
    """Rows cut into chunks with their checksums, as their bytes come.

    Holds the rows of one chunk, or one row where that is larger.

    Parameters
    ----------
    stream : Stream
        Of numbers; stored without compression.
    n_rows : int
        All rows that come.
    places : iterable of int
        Where each chunk belongs, in the order of `corners`.
    write : function
        Called with a place and the bytes that belong there, which are overwritten after.
    """

    def __init__(self, stream: Stream, n_rows: int, places: Iterable[int], write: Write) -> None:
        self._places, self._write = iter(places), write
        size, item = chunk_shape(stream, n_rows), stream.item_bytes
        self._chunk = bytearray(chunk_bytes(stream, n_rows))
        self._split = size[1:] != stream.shape
        self._unit = bytearray(size[0] * stream.row_bytes) if self._split else self._chunk
        self._n_bytes, self._filled = size[0] * stream.row_bytes, 0
        self._rows = np.frombuffer(self._unit, np.uint8)[: self._n_bytes].reshape(size[0], *stream.shape, item)
        self._cell = np.frombuffer(self._chunk, np.uint8)[:-SIZE].reshape(*size, item)

    def feed(self, data: memoryview) -> None:
        """Add the bytes of some more rows; they may end within a row."""
        while data:
            taken = min(len(data), self._n_bytes - self._filled)
            self._unit[self._filled : self._filled + taken] = data[:taken]
            self._filled += taken
            data = data[taken:]
            if self._filled == self._n_bytes:
                self._put_out()

    def end(self) -> None:
        """Write what is left; what HDF5 keeps behind the last row is zero."""
        if self._filled:
            self._unit[self._filled : self._n_bytes] = bytes(self._n_bytes - self._filled)
            self._put_out()

    def _put_out(self) -> None:
        self._filled = 0
        if not self._split:
            return self._put_out_chunk()
        size = self._cell.shape[:-1]
        for corner in itertools.product(
            *(range(0, n, c) for n, c in zip(self._rows.shape[1:-1], size[1:], strict=True))
        ):
            piece = self._rows[:, *(slice(first, first + c) for first, c in zip(corner, size[1:], strict=True))]
            self._cell[...] = 0
            self._cell[tuple(slice(n) for n in piece.shape)] = piece
            self._put_out_chunk()

    def _put_out_chunk(self) -> None:
        self._chunk[-SIZE:] = fletcher32(memoryview(self._chunk)[:-SIZE])
        self._write(next(self._places), self._chunk)
