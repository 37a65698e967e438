"""Sparse couplings: what is taken and what is refused, and machines of them against dense ones of the same matrix."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm.machine import couplings
from fastbm.machine.machine import BoltzmannMachine

FORMS = [
    scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.csc_array, scipy.sparse.coo_array,
    scipy.sparse.coo_matrix, scipy.sparse.lil_array, scipy.sparse.dok_array, scipy.sparse.dia_array,
    scipy.sparse.bsr_array,
]  # fmt: skip
FEW = settings(derandomize=True, max_examples=60, deadline=None)
MATRIX = np.array([[0, 2, 0, -1], [2, 0, 0, 0], [0, 0, 0, 0.5], [-1, 0, 0.5, 0]])


def entries(*given: tuple[int, int, float], n: int = 4) -> scipy.sparse.coo_array:
    i, j, values = zip(*given, strict=True)
    return scipy.sparse.coo_array((values, (i, j)), shape=(n, n))


@pytest.mark.parametrize("form", FORMS)
def test_every_format_of_scipy_is_taken(form):
    made = couplings.check(form(MATRIX))
    assert isinstance(made, couplings.Sparse)
    assert np.array_equal(made.matrix(), MATRIX)
    assert made.edges.tolist() == [[0, 1], [0, 3], [2, 3]]
    assert made.arrays[0].tolist() == [2, -1, 0.5]
    assert (made.edges.dtype, made.n_edges) == (np.int32, 3)
    assert not made.edges.flags.writeable


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.float32])
def test_every_number_type_is_taken(dtype):
    matrix = np.array([[0, 1], [1, 0]], dtype)
    assert couplings.check(scipy.sparse.csr_array(matrix)).arrays[0].tolist() == [1.0]


def test_explicit_zeros_are_dropped_and_duplicates_are_summed():
    matrix = entries((0, 1, 1.0), (1, 0, 1.5), (0, 1, 0.5), (2, 3, 0.0), (2, 2, 0.0), (3, 1, 2.0), (3, 1, -2.0))
    assert couplings.check(matrix).edges.tolist() == [[0, 1]]
    assert couplings.check(matrix).arrays[0].tolist() == [1.5]
    narrow = scipy.sparse.coo_array((np.full(4, 100, np.int8), ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert couplings.check(narrow).arrays[0].tolist() == [200.0]
    assert couplings.check([narrow]).arrays[0].tolist() == [[0.0, 200.0], [200.0, 0.0]]


def test_what_the_user_passed_is_neither_shared_nor_changed():
    matrix = scipy.sparse.csr_array(([1.0, 2.0, 1.0, 2.0], [1, 1, 0, 0], [0, 2, 4]), shape=(2, 2))
    made = couplings.check(matrix)
    assert matrix.nnz == 4
    matrix.data[:] = 7
    assert made.arrays[0].tolist() == [3.0]


def test_learning_without_couplings_finds_the_means(tmp_path):
    rows = np.random.default_rng(1).choice([0, 1], (60, 4), p=[0.3, 0.7])
    start = BoltzmannMachine(scipy.sparse.csr_array((4, 4)), units="binary")
    run = bm.fit(rows, init=start, method="exact", out=tmp_path / "fit.h5")
    means = rows.mean(axis=0)
    np.testing.assert_allclose(run.model.bias, np.log(means / (1 - means)), atol=1e-4)
    assert bm.fit(rows, init=start, method="pcd", epochs=2).model.couplings.n_edges == 0


@pytest.mark.parametrize("n", [1, 3])
def test_units_without_couplings_are_a_machine(n):
    model = BoltzmannMachine(scipy.sparse.csr_array((n, n)), np.full(n, 0.5), units="binary")
    assert model.couplings.n_edges == 0
    assert model.energy(np.ones(n)) == pytest.approx(-0.5 * n)
    assert bm.infer(model, "exact").log_z == pytest.approx(n * math.log1p(math.exp(0.5)))


def test_rounding_is_averaged_away():
    found = couplings.check(entries((0, 1, 1.0), (1, 0, 1.0 + 4e-16), (2, 3, 5e-324), (3, 2, 5e-324)))
    dense = couplings.check(entries((0, 1, 1.0), (1, 0, 1.0 + 4e-16), (2, 3, 5e-324), (3, 2, 5e-324)).toarray())
    assert np.array_equal(found.matrix(), dense.matrix())


REFUSED = {
    "one-sided": (entries((0, 1, 1.0)), ValueError, [
        "symmetric", "max |W - W.T| = 1 at (0, 1)", "It is triangular: pass W + W.T"]),
    "asymmetric": (entries((0, 1, 1.0), (1, 0, 1.0), (3, 1, 0.75), (1, 3, 0.5)), ValueError, [
        "symmetric", "0.25 at (1, 3)"]),
    "opposite signs, huge": (entries((0, 1, 1e308), (1, 0, -1e308)), ValueError, ["symmetric", "(0, 1)"]),
    "self-loops": (entries((2, 2, 3.0), (3, 3, 1.0), (0, 1, 1.0), (1, 0, 1.0)), ValueError, [
        "zero diagonal", "3 at (2, 2)", "2 such entries", "units 2, 3)", "bias"]),
    "many self-loops": (scipy.sparse.eye_array(9), ValueError, ["9 such entries", "units 0, 1, 2, 3, 4, ...)"]),
    "nan": (entries((0, 1, math.nan), (1, 0, math.nan)), ValueError, ["must be finite", "nan at (0, 1)", "2 such"]),
    "sum of duplicates": (entries((0, 2, 1e308), (0, 2, 1e308)), ValueError, ["must be finite", "inf at (0, 2)"]),
    "not square": (scipy.sparse.csr_array((2, 3)), ValueError, ["square", "(2, 3)", "list of blocks"]),
    "one-dimensional": (scipy.sparse.coo_array(np.ones(3)), ValueError, ["square", "(3,)"]),
    "empty": (scipy.sparse.csr_array((0, 0)), ValueError, ["at least one unit", "empty"]),
    "complex": (scipy.sparse.csr_array(1j * MATRIX), TypeError, ["real numbers", "complex128"]),
    "overflowing": (entries((0, 1, 1.7e308), (1, 0, 1.7e308)), ValueError, ["so large", "1.7e+308"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_matrices_are_refused(case):
    matrix, error, fragments = REFUSED[case]
    with pytest.raises(error) as caught:
        BoltzmannMachine(matrix)
    assert not [fragment for fragment in fragments if fragment not in str(caught.value)], str(caught.value)


def test_a_dense_matrix_of_many_units_is_refused_and_names_its_memory():
    n = couplings.DENSE_LIMIT + 1
    model = BoltzmannMachine(entries((0, 1, 1.0), (1, 0, 1.0), n=n))
    assert model.energy(np.ones(n)) == -1.0
    with pytest.raises(ValueError, match=r"16385 units are too many.*2\.15 GB.*16384.*scipy\.sparse"):
        model.couplings.matrix()
    with pytest.raises(ValueError, match=r"second moments of 16385 units.*moments=False"):
        bm.infer(model, "gibbs")


def test_weights_are_a_sparse_array_that_cannot_be_changed():
    model = BoltzmannMachine(scipy.sparse.csr_matrix(MATRIX))
    assert isinstance(model.weights, scipy.sparse.csr_array)
    assert np.array_equal(model.weights.toarray(), MATRIX)
    with pytest.raises(ValueError, match="read-only"):
        model.weights.data[0] = 9.0
    changed = model.weights
    changed.data = changed.data + 1
    assert np.array_equal(model.weights.toarray(), MATRIX)
    assert repr(model) == "<BoltzmannMachine: 4 spin units, 3 couplings>"


def test_weights_that_learning_brought_to_zero_stay_edges():
    made = couplings.check(scipy.sparse.csr_array(MATRIX)).with_arrays([np.array([1.0, 0.0, 2.0])])
    assert made.n_edges == 3
    assert made.pair_sums(np.ones((2, 4)))[0].tolist() == [2, 2, 2]
    assert made.csr()[1].tolist() == [1, 0, 3, 2]
    kept = made.restrict(np.array([0, 3]))
    assert (kept.edges.tolist(), kept.arrays[0].tolist()) == ([[0, 1]], [0.0])


@FEW
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(-3, 3)), max_size=30))
def test_pairs_in_any_order_add_up(triples):
    triples = [(i, j, w) for i, j, w in triples if i != j]
    expected = np.zeros((7, 7))
    for i, j, w in triples:
        expected[i, j] += w
        expected[j, i] += w
    i, j, w = np.array(triples, int).reshape(-1, 3).T
    made = couplings.Sparse.of_pairs(7, i, j, w)
    assert np.array_equal(made.matrix(), expected)
    assert made.edges.tolist() == np.argwhere(np.triu(expected)).tolist()
    assert np.all(made.arrays[0])


def test_a_million_units_cost_what_their_edges_cost():
    """Nothing here may be of the order of n^2 (8 TB), nor loop over units in Python."""
    n = 1_000_000
    i = np.arange(n)
    ring = scipy.sparse.coo_array((np.ones(2 * n), (np.r_[i, (i + 1) % n], np.r_[(i + 1) % n, i])), shape=(n, n))
    model = BoltzmannMachine(ring, np.full(n, 0.5))
    states = np.ones((3, n), np.int8)
    states[1, 7] = -1
    assert model.energy(states).tolist() == [-1.5 * n, -1.5 * n + 5, -1.5 * n]
    assert model.field(states)[1, 5:10].tolist() == [2.5, 2.5 - 2, 2.5, 2.5 - 2, 2.5]
    assert model.energy_delta(states, [6, 7])[:2].tolist() == [[5, 5], [1, -5]]
    assert [len(array) for array in model.couplings.csr()] == [n + 1, 2 * n, 2 * n]
    held = model.condition([0, 1], [1, -1])
    assert (held.n_units, held.couplings.n_edges, held.offset) == (n - 2, n - 3, 1.0)
    assert held.bias[[0, -1, 5]].tolist() == [-0.5, 1.5, 0.5]
    assert model.to_units("binary").energy((states[1] + 1) // 2) == pytest.approx(-1.5 * n + 5)


# A machine of sparse couplings is the machine of the same dense matrix


@st.composite
def machines(draw):
    """A sparse machine, the dense one of the same matrix, and a generator for states."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, density = draw(st.integers(1, 9)), draw(st.floats(0.0, 1.0))
    upper = np.triu(np.where(generator.random((n, n)) < density, generator.normal(size=(n, n)), 0.0), 1)
    about = {"units": draw(st.sampled_from(["spin", "binary"])), "n_hidden": draw(st.integers(0, n - 1)), "offset": 0.7}
    bias = generator.normal(size=n)
    form = draw(st.sampled_from(FORMS[:5]))
    sparse = BoltzmannMachine(form(upper + upper.T), bias, **about)
    return sparse, BoltzmannMachine(upper + upper.T, bias, **about), generator


def same(one: BoltzmannMachine, other: BoltzmannMachine) -> None:
    """Whether a sparse machine is a dense one, but for rounding."""
    assert one.couplings.kind == "sparse"
    np.testing.assert_allclose(one.couplings.matrix(), other.couplings.matrix(), atol=1e-13)
    np.testing.assert_allclose(one.bias, other.bias, atol=1e-13)
    assert one.offset == pytest.approx(other.offset, abs=1e-12)
    assert (one.units, one.n_hidden) == (other.units, other.n_hidden)


@FEW
@given(machines())
def test_energies_and_fields_are_those_of_the_dense_machine(pair):
    sparse, dense, generator = pair
    states = sparse.convention.values(generator.integers(0, 2, (2, 3, sparse.n_units)))
    units = generator.integers(-sparse.n_units, sparse.n_units, 4)
    np.testing.assert_allclose(sparse.energy(states), dense.energy(states), atol=1e-12)
    np.testing.assert_allclose(sparse.field(states), dense.field(states), atol=1e-12)
    np.testing.assert_allclose(sparse.energy_delta(states, units), dense.energy_delta(states, units), atol=1e-12)
    assert isinstance(sparse.energy(states[0, 0]), float)
    assert isinstance(sparse.energy_delta(states[0, 0], 0), float)


@FEW
@given(machines())
def test_conversion_and_conditioning_are_those_of_the_dense_machine(pair):
    sparse, dense, generator = pair
    for units in ("spin", "binary"):
        same(sparse.to_units(units), dense.to_units(units))
    k = generator.integers(0, sparse.n_units)
    indices = generator.permutation(sparse.n_units)[:k]
    patterns = sparse.convention.values(generator.integers(0, 2, (2, k)))
    for one, other in zip(sparse.condition(indices, patterns), dense.condition(indices, patterns), strict=True):
        same(one, other)


@FEW
@given(machines())
def test_free_energies_are_those_of_the_dense_machine(pair):
    sparse, dense, generator = pair
    visible = sparse.convention.values(generator.integers(0, 2, (3, sparse.n_visible)))
    hidden = slice(sparse.n_visible, None)
    if dense.couplings.matrix()[hidden, hidden].any():
        with pytest.raises(ValueError, match="hidden units that are not coupled"):
            sparse.free_energy(visible)
    else:
        found, expected = (model.free_energy(visible, beta=0.8) for model in (sparse, dense))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@FEW
@given(machines())
def test_arrays_bring_the_sparse_machine_back(pair):
    sparse, _, _ = pair
    again = BoltzmannMachine.from_arrays(
        sparse.to_arrays(), kind="sparse", units=sparse.units, n_hidden=sparse.n_hidden
    )
    same(again, sparse)
    assert np.array_equal(again.couplings.edges, sparse.couplings.edges)


# Files and runs


def test_files_bring_the_sparse_machine_back(tmp_path):
    for name, matrix in (("some", MATRIX), ("none", 0 * MATRIX)):
        model = BoltzmannMachine(scipy.sparse.csr_array(matrix), [1, 2, 3, 4], units="binary", n_hidden=2, offset=5.0)
        model.save(tmp_path / name)
        same(bm.load(tmp_path / name), model)
        run = bm.sample(model, n_chains=2, n_sweeps=10, out=tmp_path / f"{name}.h5")
        same(bm.open(run.path).model, model)
        np.testing.assert_allclose(model.energy(run.states), run.energy, atol=1e-12)


@pytest.mark.parametrize("layered", [False, True])
def test_files_that_tell_layers_but_no_kind_are_read(tmp_path, layered):
    import h5py

    from fastbm.runs.spec import model_inputs, read_model

    model = BoltzmannMachine([np.ones((2, 2))] if layered else MATRIX, [1, 2, 3, 4])
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "r+") as file:
        del file.attrs["kind"], file.attrs["sealed"]
        file.attrs["layered"] = layered
    assert np.array_equal(bm.load(tmp_path / "m.h5").couplings.matrix(), model.couplings.matrix())
    description = {"layered": layered, "units": "spin", "n_hidden": model.n_hidden, "origin": {}}
    assert np.array_equal(read_model(model_inputs(model), description).couplings.matrix(), model.couplings.matrix())


@pytest.mark.parametrize("method", ["exact", "monte-carlo", "pcd", "mean-field"])
def test_learning_moves_the_edges_of_a_sparse_start_alone(tmp_path, method):
    rows = np.random.default_rng(1).choice([-1, 1], (60, 4))
    rows[:, 1] = rows[:, 0]
    start = BoltzmannMachine(scipy.sparse.csr_array(0.1 * MATRIX))
    run = bm.fit(rows, init=start, method=method, epochs=4, l2=0.05, out=tmp_path / "fit.h5")
    learned = bm.open(run.path).model
    assert np.array_equal(learned.couplings.edges, start.couplings.edges)
    assert learned.couplings.arrays[0][0] > 0.1 * MATRIX[0, 1]
    assert run.weights["weights"].shape == (len(run.weights["epoch"]), 3)
    assert np.array_equal(run.weights["weights"][-1], learned.couplings.arrays[0])


def test_learning_a_ring_finds_it_again():
    """As many edges as units; exact moments of 20,000 independent rows, within 5 standard errors of about 0.01."""
    ring = bm.models.ising(6, coupling=0.5, field=0.1)
    states = bm.sample(ring, n_chains=200, n_sweeps=2_000, thin=20, burn_in=50, seed=3).states.reshape(-1, 6)
    found = bm.fit(states, init=bm.models.ising(6, coupling=0.01), method="exact").model
    assert found.couplings.n_edges == 6
    np.testing.assert_allclose(found.couplings.arrays[0], 0.5, atol=0.05)
    np.testing.assert_allclose(found.bias, 0.1, atol=0.05)
