"""New arrays of kernels, those at addresses, and copies of rows are those of NumPy."""

import numpy as np
import pytest

from fastbm.kernels.arrays import copy_row, empty, matrix_at, zeros
from fastbm.kernels.jit import borrowing, kernel


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


@kernel
def copy_column(to, row):
    copy_row(to[:, 1], row)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_])
def test_a_row_is_copied_to_where_others_lie_between(kind):
    to, row = np.zeros((5, 2), kind), np.array([3, 0, 1, 2, 5]).astype(kind)
    copy_column(to, row)
    assert to[:, 1].tolist() == row.tolist()
    assert not to[:, 0].any()


@kernel
def double_at(like, place, n, m):
    matrix = matrix_at(like, place, n, m)
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            matrix[i, j] *= 2
    return matrix.shape


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shape", [(3, 4), (1, 5), (0, 4)])
def test_a_matrix_at_an_address_is_the_one_there(shape, kind):
    made = np.arange(12).astype(kind)
    matrix = made[: shape[0] * shape[1]].reshape(shape)
    assert double_at(np.zeros(1, kind), matrix.ctypes.data, *shape) == shape
    assert made.tolist() == [k * (2 if k < matrix.size else 1) for k in range(12)]


@kernel
def look(cube, i, j, start, stop):
    rows, plane = cube[i, start:stop], cube[start:]
    below, above = min(i, j), max(i, j)
    total = cube.dtype.type(0)
    for k in range(start, stop):
        total += cube[i, np.uint8(below), above] if k else cube[below, i, j]
    for k in range(stop, start, -2):
        total += cube.dtype.type(k)
    cube[j, i, -1] = total
    return rows, plane, plane.size, cube[i][j:stop], total


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.int64])
@pytest.mark.parametrize(("i", "j"), [(0, 2), (2, 1), (1, 1)])
@pytest.mark.parametrize(("start", "stop"), [(0, 3), (1, 2), (-2, 9), (2, -1), (3, 1), (-9, -7)])
def test_elements_and_views_are_those_of_numpy(kind, i, j, start, stop):
    one = np.arange(60).astype(kind).reshape(3, 4, 5)
    other = one.copy()
    for found, expected in zip(look(one, i, j, start, stop), look.py_func(other, i, j, start, stop), strict=True):
        assert np.shape(found) == np.shape(expected) and np.array_equal(found, expected)
    assert np.array_equal(one, other)


@kernel
def extremes(a, b):
    return min(a, b), max(a, b)


@pytest.mark.parametrize("pair", [(1.0, 2.0), (2.0, 1.0), (0.0, -0.0), (np.nan, 1.0), (1.0, np.nan), (-3, 2), (2, -3)])
def test_extremes_of_two_numbers_are_those_of_python(pair):
    for kind in (np.float64, np.float32) if isinstance(pair[0], float) else (np.int64,):
        found, expected = extremes(*map(kind, pair)), (min(pair), max(pair))
        assert np.array(found, np.float64).tobytes() == np.array(expected, np.float64).tobytes()


@borrowing
def first_of(row):
    return np.asarray(row)[0]


@kernel
def numbers_from_one(n):
    made = np.ones(n)
    for k in range(1, n):
        made[k] = first_of(made) + k
    return np.asarray(made)


@kernel
def numbers_of_an_iterator(n):
    total, left = 0, iter(range(n))
    for k in left:
        total += k
    return total


def test_what_does_not_count_references_has_functions_of_its_own():
    """An array that was not counted and is released is memory used twice."""
    made = [numbers_from_one(5) for _ in range(100)]
    assert all(array.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0] for array in made)
    assert numbers_of_an_iterator(5) == 10
