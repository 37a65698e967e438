"""New arrays of kernels are those of NumPy."""

import numpy as np
import pytest

from fastbm.kernels.arrays import empty, zeros
from fastbm.kernels.jit import kernel


@kernel
def make(n, m, like):
    filled = empty((n, m, 4), like.dtype)
    filled[:] = 3
    return empty(n, np.int64), zeros((np.uint8(n), m), np.uint16), zeros(16, np.bool_), filled


@pytest.mark.parametrize("n", [0, 1, 5])
def test_shapes_kinds_and_zeros(n):
    like = np.zeros(1, np.float32)
    expected = np.empty(n, np.int64), np.zeros((n, 7), np.uint16), np.zeros(16, bool), np.full((n, 7, 4), 3, np.float32)
    for made, array in zip(make(n, 7, like), expected, strict=True):
        assert (made.shape, made.dtype) == (array.shape, array.dtype)
        assert made.strides == array.strides or not n
        assert made.flags.writeable and made.flags.aligned and (array.dtype == np.int64 or (made == array).all())


def test_more_than_there_is():
    with pytest.raises(MemoryError):
        make(1 << 45, 1, np.zeros(1, np.float32))
