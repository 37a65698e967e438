"""One pass through the segments of a run: every byte checked, the bytes of rows handed on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import numpy as np

from .chain import damage
from .image import Damaged, check_hash, hasher_of, open_image
from .names import Names
from .schema import Stream
from .segment import Header

PIECE = 4 << 20  # bytes that are read at a time
T = TypeVar("T")
Rows = list[tuple[str, memoryview]]


def kept_rows(headers: Sequence[Header], n_base: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """How many rows of each stream count, of a merged file that segments go on from and of each segment.

    Rows that a later segment puts others in the place of do not.
    """
    limit = headers[-1].index.sum(axis=1)
    kept: list[np.ndarray] = []
    for header in reversed(headers):
        first, count = header.index.T
        kept.append(np.clip(np.minimum(first + count, limit) - first, 0, None))
        limit = np.minimum(limit, first)
    return np.minimum(n_base, limit), kept[::-1]


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield what `items` does, which is made in another thread while the item before it is used."""
    with ThreadPoolExecutor(1, "fastbm-read") as thread:
        item = thread.submit(next, items, None)
        while (found := item.result()) is not None:
            item = thread.submit(next, items, None)
            yield found


def row_bytes(
    names: Names, headers: Sequence[Header], kept: Iterable[np.ndarray], columns: dict[str, tuple[int, Stream]]
) -> Iterator[Rows]:
    """Yield the bytes of rows of some streams, a piece of a segment at a time; good while the next piece is read.

    Parameters
    ----------
    names : Names
    headers : sequence of Header
        Of the segments; each file's hash is compared with its header's.
    kept : iterable of arrays
        How many rows of each stream are wanted, for each segment.
    columns : dict
        The streams that are wanted, with their columns of the index.

    Raises
    ------
    Damaged
        If a segment is not what was written. Bytes of it may have been handed on by then.
    """
    longest = max((os.stat(names.segment(header.segment)).st_size for header in headers), default=0)
    buffers = [memoryview(bytearray(min(PIECE, longest))) for _ in range(2)]
    turn = 0
    for header, counts in zip(headers, kept, strict=True):
        try:
            wanted = _places(names, header, {n: (int(counts[c]), s) for n, (c, s) in columns.items() if counts[c]})
            for start, piece in _pieces(names, header, buffers, turn):
                turn += 1
                yield [(name, piece[low - start : high - start]) for name, low, high in _within(wanted, start, piece)]
        except Damaged as error:
            raise Damaged(damage(names, header.segment, error)) from None


def _places(names: Names, header: Header, wanted: dict[str, tuple[int, Stream]]) -> list[tuple[str, int, int]]:
    """Where in the file of a segment the rows of streams begin and end."""
    found = []
    if wanted:
        try:
            with open_image(names.segment(header.segment)) as file:
                for name, (n_rows, stream) in wanted.items():
                    place, size = file[name].id.get_offset(), n_rows * stream.row_bytes
                    if place is None or file[name].dtype != stream.numpy_dtype or file[name].shape[0] < n_rows:
                        raise Damaged(f"{name} is not laid out as rows of a segment are")
                    found.append((name, place, place + size))
        except (OSError, KeyError, RuntimeError) as error:
            with suppress(OSError):
                check_hash(names.segment(header.segment), header.sha256)  # which tells more
            raise Damaged(f"HDF5 cannot read it ({error})") from error
    return sorted(found, key=lambda one: one[1])


def _pieces(names: Names, header: Header, buffers: list[memoryview], turn: int) -> Iterator[tuple[int, memoryview]]:
    """Read a segment's image from start to end, and compare its hash."""
    with open(names.segment(header.segment), "rb", buffering=0) as file:
        (size, hasher), start = hasher_of(file), 0
        while start < size:
            view = buffers[turn % 2][: size - start]
            n_read = file.readinto(view)
            if not n_read:
                raise Damaged("it was cut while it was read")
            hasher.update(view[:n_read])
            turn += 1
            yield start, view[:n_read]
            start += n_read
    if hasher.digest().hex() != header.sha256:
        raise Damaged("sha256 differs")


def _within(wanted: list[tuple[str, int, int]], start: int, piece: memoryview) -> Iterator[tuple[str, int, int]]:
    """The parts of the wanted places that lie in a piece of the file."""
    end = start + len(piece)
    for name, low, high in wanted:
        if low < end and high > start:
            yield name, max(low, start), min(high, end)
