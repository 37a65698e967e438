"""Arrays at whole cache lines: a vector that lies across two lines is loaded and stored at half the speed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

LINE = 64  # bytes


def zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an array of zeros that starts at a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def copy(array: np.ndarray) -> np.ndarray:
    """Return a copy, in C order, that starts at a cache line."""
    copied = zeros(array.shape, array.dtype)
    copied[...] = array
    return copied
