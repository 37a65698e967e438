"""Couplings of every kind against the plain matrix they stand for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse

from fastbm.machine import couplings
from tests.twins import reference

SIZES = {"dense": None, "restricted": (4, 3), "deep": (3, 2, 1, 2), "sparse": None}


def make(kind: str, seed: int = 1) -> tuple[couplings.Couplings, np.ndarray]:
    """Couplings and the matrix they stand for."""
    generator = np.random.default_rng(seed)
    if kind == "dense":
        upper = np.triu(generator.normal(size=(6, 6)), 1)
        return couplings.check(upper + upper.T), upper + upper.T
    if kind == "sparse":
        upper = np.triu(np.where(generator.random((6, 6)) < 0.5, generator.normal(size=(6, 6)), 0.0), 1)
        return couplings.check(scipy.sparse.csc_matrix(upper + upper.T)), upper + upper.T
    sizes = SIZES[kind]
    blocks = [generator.normal(size=size) for size in itertools.pairwise(sizes)]
    return couplings.check(blocks), reference.join_blocks(blocks)


@pytest.mark.parametrize("kind", SIZES)
def test_matrix_is_the_whole_of_it(kind):
    made, matrix = make(kind)
    assert np.array_equal(made.matrix(), matrix)
    assert made.n_units == len(matrix) == sum(made.sizes)
    assert made.kind == ("layered" if SIZES[kind] else kind)


@pytest.mark.parametrize("kind", SIZES)
def test_field_is_the_product_with_the_matrix(kind):
    made, matrix = make(kind)
    values = np.random.default_rng(2).normal(size=(5, len(matrix)))
    np.testing.assert_allclose(made.field(values), values @ matrix, atol=1e-14)
    integers = np.random.default_rng(2).integers(0, 2, (5, len(matrix)))
    np.testing.assert_allclose(made.field(integers), integers @ matrix, atol=1e-14)
    assert made.field(values[:0]).shape == (0, len(matrix))


@pytest.mark.parametrize("kind", SIZES)
def test_pair_sums_have_the_shape_of_the_arrays(kind):
    made, matrix = make(kind)
    values = np.random.default_rng(3).normal(size=(50, len(matrix)))
    sums = made.pair_sums(values)
    assert [array.shape for array in sums] == [array.shape for array in made.arrays]
    np.testing.assert_allclose(whole(made, sums), np.where(matrix != 0, values.T @ values, 0.0), atol=1e-12)


def whole(made: couplings.Couplings, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """Arrays in the shape of the couplings' own as a full matrix, 0 where nothing is coupled."""
    if made.kind == "layered":
        return reference.join_blocks(arrays)
    if made.kind == "dense":
        return arrays[0] * (1 - np.eye(made.n_units))
    full = np.zeros((made.n_units, made.n_units))
    for (i, j), value in zip(made.edges.tolist(), arrays[0], strict=True):
        full[i, j] = full[j, i] = value
    return full


@pytest.mark.parametrize("kind", SIZES)
def test_pairs_are_picked_out_of_a_full_matrix(kind):
    made, matrix = make(kind)
    full = np.random.default_rng(4).normal(size=matrix.shape)
    full += full.T
    picked = made.pick(full)
    assert [array.shape for array in picked] == [array.shape for array in made.arrays]
    assert np.array_equal(whole(made, picked), np.where(matrix != 0, full, 0.0))


@pytest.mark.parametrize("kind", SIZES)
def test_vectors_hold_each_pair_once(kind):
    made, matrix = make(kind)
    vector = made.to_vector(made.arrays)
    assert len(vector) == np.count_nonzero(np.triu(matrix))
    assert np.array_equal(whole(made, made.from_vector(vector)), matrix)


@pytest.mark.parametrize("units", [[0, 2, 5], [3], [5, 0], [], [1, 1]])
@pytest.mark.parametrize("kind", SIZES)
def test_columns_and_fields_of_some_units(kind, units):
    made, matrix = make(kind)
    chosen = np.array(units, int)
    assert np.array_equal(made.columns(chosen), matrix[:, chosen])
    values = np.random.default_rng(5).normal(size=(4, len(matrix)))
    np.testing.assert_allclose(made.field_at(values, chosen), values @ matrix[:, chosen], atol=1e-14)


@pytest.mark.parametrize("kind", SIZES)
def test_csr_holds_the_whole_matrix_without_zeros(kind):
    made, _ = make(kind)
    made = made.with_arrays([np.where(array > 1.0, 0.0, array) for array in made.arrays])
    matrix = made.matrix()
    indptr, indices, values = made.csr()
    assert (indptr.dtype, indices.dtype, values.dtype) == (np.int64, np.int32, np.float64)
    assert np.all(values)
    for i, row in enumerate(matrix):
        entries = slice(indptr[i], indptr[i + 1])
        assert indices[entries].tolist() == np.flatnonzero(row).tolist()
        assert np.array_equal(values[entries], row[row != 0])
    for array, again in zip((indptr, indices, values), made.csr(), strict=True):
        assert array is again
        assert array.flags.c_contiguous
        assert not array.flags.writeable


@pytest.mark.parametrize("kind", SIZES)
def test_csr_of_nothing(kind):
    made, matrix = make(kind)
    nothing = made.scaled(0.0).csr()
    assert [array.tolist() for array in nothing] == [[0] * (len(matrix) + 1), [], []]
    assert [len(array) for array in made.restrict(np.array([], int)).csr()] == [1, 0, 0]


@pytest.mark.parametrize("kind", SIZES)
def test_absolute_sums_are_those_of_the_rows(kind):
    made, matrix = make(kind)
    np.testing.assert_allclose(made.absolute_sums(), np.abs(matrix).sum(axis=1), atol=1e-14)


@pytest.mark.parametrize("kind", SIZES)
def test_scaled_and_replaced_couplings_keep_their_kind(kind):
    made, matrix = make(kind)
    scaled = made.scaled(-2.5)
    assert type(scaled) is type(made)
    np.testing.assert_allclose(scaled.matrix(), -2.5 * matrix)
    replaced = made.with_arrays([array + 1 for array in made.arrays])
    assert replaced.sizes == made.sizes
    for one, other in zip(replaced.arrays, made.arrays, strict=True):
        assert np.array_equal(one, other + 1)


@pytest.mark.parametrize("units", [[0, 2, 5], [1], [0, 1, 2, 3, 4, 5], [4, 5], []])
@pytest.mark.parametrize("kind", SIZES)
def test_restricted_couplings_are_a_part_of_the_matrix(kind, units):
    made, matrix = make(kind)
    part = made.restrict(np.array(units, int))
    assert part.n_units == len(units)
    assert np.array_equal(part.matrix(), matrix[np.ix_(units, units)])
    values = np.ones((2, len(units)))
    np.testing.assert_allclose(part.field(values), values @ matrix[np.ix_(units, units)], atol=1e-14)


@pytest.mark.parametrize("kind", SIZES)
def test_arrays_are_frozen_contiguous_doubles(kind):
    made, _ = make(kind)
    for array in (*made.arrays, made.matrix(), *made.scaled(2.0).arrays):
        assert array.dtype == np.float64
        assert array.flags.c_contiguous
        assert not array.flags.writeable


def test_what_the_user_passed_is_not_shared():
    block = np.ones((2, 2))
    made = couplings.check([block])
    block[0, 0] = 7
    assert made.arrays[0][0, 0] == 1


def test_fortran_order_and_integers_are_taken():
    matrix = np.asfortranarray([[0, 2], [2, 0]])
    assert couplings.check(matrix).matrix().tolist() == [[0.0, 2.0], [2.0, 0.0]]


def test_a_nested_list_is_a_matrix_and_a_list_of_matrices_is_layered():
    assert isinstance(couplings.check([[0.0, 1.0], [1.0, 0.0]]), couplings.Dense)
    assert isinstance(couplings.check([[[0.0, 1.0], [1.0, 0.0]]]), couplings.Layered)
    assert isinstance(couplings.check((np.ones((2, 3)), np.ones((3, 1)))), couplings.Layered)


def test_checked_couplings_pass_unchanged():
    made, _ = make("deep")
    assert couplings.check(made) is made


def test_rounding_is_averaged_away_and_asymmetry_is_not():
    matrix = np.array([[0.0, 1.0], [1.0 + 4e-16, 0.0]])
    found = couplings.check(matrix).matrix()
    assert found[0, 1] == found[1, 0]
    with pytest.raises(ValueError, match=r"symmetric.*1e-11 at \(0, 1\)"):
        couplings.check([[0.0, 1.0], [1.0 + 1e-11, 0.0]])


def test_symmetric_couplings_keep_their_bits():
    values = np.array([1e-308, 5e-324, 0.1, 1e300])
    for value in values:
        assert couplings.check([[0.0, value], [value, 0.0]]).matrix()[0, 1] == value


@pytest.mark.filterwarnings("ignore:overflow")
def test_largest_double_does_not_overflow():
    most = np.finfo(float).max
    try:
        found = couplings.check([[0.0, most], [most, 0.0]]).matrix()
    except ValueError as error:
        assert "weights" in str(error)
    else:
        assert np.isfinite(found).all()
