"""The chunks of a dataset, as HDF5 lays them out, made of rows without HDF5."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from .checksum import SIZE, fletcher32
from .schema import Stream, chunk_shape

Write = Callable[[int, bytearray], None]


def corners(stream: Stream, n_rows: int) -> Iterator[tuple[int, ...]]:
    """The first index of every chunk that holds any of `n_rows` rows, in the order in which rows fill them."""
    size = chunk_shape(stream)
    yield from itertools.product(*(range(0, n, step) for n, step in zip((n_rows, *stream.shape), size, strict=True)))


def chunk_bytes(stream: Stream) -> int:
    """Bytes of one chunk in the file, with its checksum."""
    return math.prod(chunk_shape(stream)) * stream.item_bytes + SIZE


class Chunks:
    """Cuts the bytes of rows, as they come, into chunks with their checksums.

    Holds the rows of one chunk, or one row where that is larger.

    Parameters
    ----------
    stream : Stream
        Of numbers; stored without compression.
    places : iterable of int
        Where each chunk belongs, in the order of `corners`.
    write : function
        Called with a place and the bytes that belong there, which are overwritten after.
    """

    def __init__(self, stream: Stream, places: Iterable[int], write: Write) -> None:
        self._places, self._write = iter(places), write
        size, item = chunk_shape(stream), stream.item_bytes
        self._chunk = bytearray(chunk_bytes(stream))
        self._split = size[1:] != stream.shape
        self._unit = bytearray(size[0] * stream.row_bytes) if self._split else self._chunk
        self._n_bytes, self._filled = size[0] * stream.row_bytes, 0
        self._rows = np.frombuffer(self._unit, np.uint8)[: self._n_bytes].reshape(size[0], *stream.shape, item)
        self._cell = np.frombuffer(self._chunk, np.uint8)[:-SIZE].reshape(*size, item)

    def feed(self, data: memoryview) -> None:
        """Take the bytes of some more rows; they may end within a row."""
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
