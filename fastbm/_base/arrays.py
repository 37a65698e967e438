"""Arrays of whole cache lines, and arrays near one.

Vectors that lie across two lines are loaded at half the speed, and a line that two threads write to is sent to and fro.

Memory that is new to a process is cleared page by page before it is written to, which takes as long as to write samples
of small machines. That of large arrays is therefore kept for the next ones when they are no more, some of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LINE, WORD = 128, 16  # bytes: of two lines, which come together, and where NumPy's own arrays start
HUGE = 1 << 21  # bytes of a huge page
LARGE = 3 << 19  # bytes that are worth one
KEPT = 1 << 26  # bytes of memory that nothing lies in, at most
FAR = 400  # powers of two from 1 beyond which numbers are taken near 1 before they are squared


def _whole(size: int, of: int = LINE) -> int:
    return -(-size // of) * of


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of zeros that has its cache lines to itself, or lies within one."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size <= WORD:
        return np.zeros(shape, kind)
    memory = np.zeros(_whole(size) + LINE, np.uint8)
    return np.ndarray(shape, kind, memory, -memory.__array_interface__["data"][0] % LINE)


class _Kept:
    """Memory of large arrays that are no more, by its address, the latest last. Threads may take and give at once."""

    def __init__(self) -> None:
        self._parts: dict[int, np.ndarray] = {}

    def take(self, size: int) -> np.ndarray:
        """Return memory of so many bytes, or up to half as many more: the smallest that there is, else new."""
        for address, part in sorted(self._parts.items(), key=lambda one: one[1].nbytes):
            if size <= part.nbytes <= 1.5 * size and (found := self._parts.pop(address, None)) is not None:
                return found
        return np.empty(size, np.uint8)

    def give(self, part: np.ndarray) -> None:
        """Keep memory, unless it is too much alone; what has been kept for longest goes where all of it is."""
        if part.nbytes > KEPT:
            return
        self._parts[part.__array_interface__["data"][0]] = part
        for address in list(self._parts):
            if sum(one.nbytes for one in list(self._parts.values())) <= KEPT:
                break
            self._parts.pop(address, None)


class Lease:
    """What arrays in kept memory refer to: it gives the memory back when none of them is left."""

    def __init__(self, memory: np.ndarray, kept: _Kept) -> None:
        self._memory, self._give = memory, kept.give
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        self._give(self._memory)


_KEPT = _Kept()


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of no values yet that has its cache lines to itself, and a large one starts at a huge page.

    NumPy asks for huge pages where arrays are large; what lies before the first of them and behind the last would come
    in small ones, which take longer than to write to them. The array's base cannot be written to, so that nobody can
    once the array itself is told so.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size >= LARGE:
        room = _KEPT.take(max(_whole(size, HUGE), 2 * HUGE) + HUGE)
        start, memory = HUGE, np.asarray(Lease(room, _KEPT))
    else:
        start, memory = LINE, np.empty(_whole(size) + LINE, np.uint8)
    array = np.ndarray(shape, kind, memory, -memory.__array_interface__["data"][0] % start)
    memory.flags.writeable = False
    return array


def cleared(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return zeros that threads are to add to; where memory is new to the process they would wait for one another."""
    array = empty(shape, dtype)
    array.fill(0)
    return array


def copy(array: np.ndarray) -> np.ndarray:
    """Return a copy, in C order, that starts at a cache line."""
    copied = zeros(array.shape, array.dtype)
    copied[...] = array
    return copied


def near_one(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return values / 2^k, exactly, and k, so that their squares are numbers; k is 0 where they are anyhow."""
    exponent = math.frexp(float(np.abs(values).max(initial=0.0)))[1]
    if abs(exponent) <= FAR:
        return values, 0
    return np.ldexp(values, -exponent), exponent


def unlike_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first of all rows that are alike, (n_unlike,), and which of these each row is like, (m,).

    `rows` (m, n) are whole numbers from -128 to 127, of any type, and are sorted by their first column, then by the
    second, and so on. Strings of bytes are compared much faster than rows of numbers, by which NumPy would do the same.
    """
    if not rows.shape[1]:
        return np.zeros(min(1, len(rows)), np.int64), np.zeros(len(rows), np.int64)
    numbers = np.ascontiguousarray(rows.astype(np.int8)).view(np.uint8) ^ np.uint8(128)  # in the same order
    keys = numbers.view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return first, which.ravel()
