"""Arrays at whole cache lines, as those that lie across two are loaded at half the speed; and arrays near one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LINE, WORD = 64, 16  # bytes: NumPy's own arrays start at a word
HUGE = 1 << 21  # bytes of a huge page
FAR = 400  # powers of two from 1 beyond which numbers are taken near 1 before they are squared


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of zeros that starts at a cache line, or lies within one."""
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    if size <= WORD:
        return np.zeros(shape, kind)
    memory = np.zeros(size + LINE, np.uint8)
    return np.ndarray(shape, kind, memory, -memory.__array_interface__["data"][0] % LINE)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of no values yet that starts at a cache line, and a large one at a huge page.

    NumPy asks for huge pages where arrays are large; what lies before the first of them would come in small ones. The
    array's base cannot be written to, so that nobody can once the array itself is told so.
    """
    kind = np.dtype(dtype)
    size = math.prod(shape) * kind.itemsize
    start = HUGE if size >= 2 * HUGE else LINE
    memory = np.empty(size + start, np.uint8)
    array = np.ndarray(shape, kind, memory, -memory.__array_interface__["data"][0] % start)
    memory.flags.writeable = False
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
