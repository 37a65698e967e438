"""The kernels of mean field, TAP and belief propagation against their twins."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings, strategies as st

from fastbm.kernels import functions
from fastbm.kernels.inference.bethe import (
    bethe_log_z,
    message_slopes,
    pair_arguments,
    reverse_slots,
    sweep_beliefs,
    sweep_susceptibilities,
    total_fields,
)
from fastbm.kernels.inference.mean_field import sweep_mean_field_dense, sweep_mean_field_sparse
from fastbm.kernels.inference.selected_inverse import selected_inverse
from fastbm.kernels.inference.tap import add_onsager_dense, solve_units, sweep_tap_dense, sweep_tap_sparse
from fastbm.machine.couplings import Dense, Sparse
from tests.twins import fixed_point as twin

FEW = settings(max_examples=25, deadline=None, derandomize=True)
SHAPES = (st.integers(1, 8), st.integers(1, 5), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.0, 0.5]))


def random_machine(n: int, seed: int, scale: float = 0.7, part: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.normal(scale=scale, size=(n, n)) * (generator.random((n, n)) < part), 1)
    return upper + upper.T, generator.normal(scale=scale, size=n)


def csr(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return Sparse.of_upper(scipy.sparse.csr_array(np.triu(weights))).csr()


def values_of(name: str, x: np.ndarray, y: np.ndarray | None = None) -> np.ndarray:
    function = getattr(functions, name)
    return np.array(
        [function(a) if y is None else function(a, b) for a, b in zip(x, x if y is None else y, strict=True)]
    )


def spread_out(n: int, seed: int) -> np.ndarray:
    """Numbers of all sizes from 1e-14 to 1e4."""
    return 10.0 ** np.random.default_rng(seed).uniform(-14, 4, n)


@pytest.mark.parametrize(
    ("name", "exact", "x"),
    [
        ("expm1_negative", mpmath.expm1, -spread_out(400, 1)),
        ("tanh_float64", mpmath.tanh, np.concatenate([spread_out(300, 3), -spread_out(100, 4), [0.0]])),
    ],
)
def test_functions_are_right_to_the_last_digits(name, exact, x):
    expected = np.array([float(exact(v)) for v in x])
    np.testing.assert_allclose(values_of(name, x), expected, rtol=2e-15, atol=0)


def test_log_cosh_and_atanh_of_a_product_hold_for_arguments_of_any_size():
    x, y = spread_out(300, 5), spread_out(300, 6) * np.where(np.arange(300) % 3, 1, -1)
    with mpmath.workdps(50):
        expected = [float(mpmath.log(mpmath.cosh(v))) for v in x]
    np.testing.assert_array_less(np.abs(values_of("log_cosh_float64", x) - expected), 4e-16 * (1 + x))
    small = np.minimum(np.abs(x), np.abs(y)) < 30
    expected = [twin.atanh_product(a, b) for a, b in zip(x[small], y[small], strict=True)]
    error = np.abs(values_of("atanh_product", x[small], y[small]) - expected)
    np.testing.assert_array_less(error, 2e-15 * np.minimum(x, np.abs(y))[small])
    assert functions.atanh_product(1e3, -2e3) == -1e3
    assert functions.atanh_product(1e3, 1e3) == pytest.approx(1e3 - 0.5 * np.log(2), rel=1e-15)
    assert functions.atanh_product(0.0, 5.0) == 0.0


@FEW
@given(*SHAPES, st.integers(0, 2**16))
def test_mean_field_sweeps_are_those_of_the_twin(n, lanes, beta, damping, seed):
    weights, bias = random_machine(n, seed)
    start = np.random.default_rng(seed).uniform(-1, 1, (lanes, n))
    twins = [row.tolist() for row in start]
    expected = [twin.sweep_mean_field(row, weights, bias, beta, damping) for row in twins]
    means, fields = start.copy(), start @ weights + bias
    change = sweep_mean_field_dense(means, fields, weights, beta, damping, np.zeros(lanes), np.arange(len(weights)))
    np.testing.assert_allclose(means, twins, atol=1e-13)
    np.testing.assert_allclose(fields, means @ weights + bias, atol=1e-13)
    np.testing.assert_allclose(change, expected, atol=1e-13)
    columns = np.ascontiguousarray(start.T)
    pull = np.repeat(bias[:, None], lanes, axis=1)
    change = sweep_mean_field_sparse(columns, csr(weights), pull, beta, damping)
    np.testing.assert_allclose(columns.T, twins, atol=1e-13)
    np.testing.assert_allclose(change, expected, atol=1e-13)


def test_small_changes_wait_and_are_told():
    weights, bias = random_machine(7, seed=1)
    start = np.random.default_rng(2).uniform(-1, 1, (2, 7))
    means, rows = start.copy(), [row.tolist() for row in start]
    change = sweep_mean_field_dense(
        means, start @ weights + bias, weights, 1.0, 0.0, np.array([0.3, np.inf]), np.arange(len(weights))
    )
    expected = [
        twin.sweep_mean_field(row, weights, bias, 1.0, 0.0, least) for row, least in zip(rows, (0.3, 9.0), strict=True)
    ]
    np.testing.assert_allclose(means, rows, atol=1e-13)
    np.testing.assert_allclose(change, expected, atol=1e-13)
    assert np.array_equal(means[1], start[1])
    assert (means[0] == start[0]).any()
    assert change.min() > 0


@FEW
@given(*SHAPES, st.integers(0, 2**16))
def test_tap_sweeps_are_those_of_the_twin(n, lanes, beta, damping, seed):
    weights, bias = random_machine(n, seed)
    start = np.random.default_rng(seed).uniform(-1, 1, (lanes, n))
    twins = [row.tolist() for row in start]
    expected = [twin.sweep_tap(row, weights, bias, beta, damping) for row in twins]
    means, fields, onsager = start.copy(), start @ weights + bias, np.zeros((lanes, n))
    add_onsager_dense(onsager, 1 - start**2, weights)
    np.testing.assert_allclose(
        onsager, [[twin.onsager(row, i, weights) for i in range(n)] for row in start], atol=1e-13
    )
    change = sweep_tap_dense(means, fields, onsager, weights, beta, damping, np.zeros(lanes), np.arange(len(weights)))
    np.testing.assert_allclose(means, twins, atol=1e-12)
    np.testing.assert_allclose(fields, means @ weights + bias, atol=1e-12)
    np.testing.assert_allclose(onsager, (1 - means**2) @ weights**2, atol=1e-12)
    np.testing.assert_allclose(change, expected, atol=1e-12)
    columns = np.ascontiguousarray(start.T)
    change = sweep_tap_sparse(columns, csr(weights), np.repeat(bias[:, None], lanes, axis=1), beta, damping)
    np.testing.assert_allclose(columns.T, twins, atol=1e-12)
    np.testing.assert_allclose(change, expected, atol=1e-12)


def test_a_unit_is_solved_for_any_field_and_onsager_term():
    x, q = np.array([np.concatenate([spread_out(200, k), [0.0, 1.0, 0.0]]) for k in (7, 8)])
    x[::2] *= -1
    q[:20] = np.abs(x[:20]) * (1 + np.logspace(-12, 0, 20))
    found = np.zeros((1, len(x)))
    solve_units(found, x[None], q[None])
    expected = [twin.solve_unit(a, b) for a, b in zip(x, q, strict=True)]
    np.testing.assert_allclose(found[0] + q * np.tanh(found[0]), x, rtol=1e-12, atol=1e-25)
    np.testing.assert_allclose(np.tanh(found[0]), np.tanh(expected), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("sweep", ["mean-field", "tap"])
def test_log_z_never_falls(sweep):
    """Both are coordinate ascents; without damping a step solves for its coordinate."""
    weights, bias = random_machine(7, seed=5)
    means = np.random.default_rng(6).uniform(-0.5, 0.5, (4, 7))
    value = twin.mean_field_log_z if sweep == "mean-field" else twin.tap_log_z
    fields, onsager, values = means @ weights + bias, (1 - means**2) @ weights**2, []
    for _ in range(30):
        values.append([value(row, weights, bias, 1.3) for row in means.tolist()])
        if sweep == "mean-field":
            sweep_mean_field_dense(means, fields, weights, 1.3, 0.0, np.zeros(4), np.arange(len(weights)))
        else:
            sweep_tap_dense(means, fields, onsager, weights, 1.3, 0.0, np.zeros(4), np.arange(len(weights)))
    assert np.all(np.diff(values, axis=0) >= -1e-12)
    assert np.abs(np.diff(values, axis=0)).max() > 1e-2


def test_strong_couplings_stay_finite_and_within_one():
    weights, bias = random_machine(6, seed=7, scale=1e3)
    means = np.random.default_rng(8).uniform(-1, 1, (3, 6))
    fields, onsager = means @ weights + bias, (1 - means**2) @ weights**2
    sweep_mean_field_dense(means, fields, weights, 10.0, 0.0, np.zeros(3), np.arange(len(weights)))
    assert np.all(np.abs(means) <= 1)
    for _ in range(20):
        change = sweep_tap_dense(means, fields, onsager, weights, 10.0, 0.0, np.zeros(3), np.arange(len(weights)))
        assert np.isfinite(change).all()
    assert np.all(np.abs(means) <= 1 + 1e-15)


def graph_of(weights: np.ndarray, beta: float):
    indptr, indices, values = csr(weights)
    reverse = np.empty(len(values), np.int64)
    reverse_slots(indptr, indices, reverse)
    return indices, (indptr, reverse, beta * values)


@FEW
@given(
    st.integers(1, 8),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.4, 2.0]),
    st.sampled_from([0.0, 0.5]),
    st.integers(0, 2**16),
)
def test_beliefs_are_those_of_the_twin(n, lanes, beta, damping, seed):
    weights, bias = random_machine(n, seed, part=0.6)
    indices, graph = graph_of(weights, beta)
    indptr, reverse, couplings = graph
    rows = np.repeat(np.arange(n), np.diff(indptr))
    assert np.array_equal(rows[reverse], indices)
    assert np.array_equal(indices[reverse], rows)
    generator = np.random.default_rng(seed)
    order = generator.permutation(n).astype(np.int32)
    messages = couplings[:, None] * generator.uniform(-1, 1, (len(couplings), lanes))
    twins = [{(int(j), int(i)): float(u) for i, j, u in zip(rows, indices, lane, strict=True)} for lane in messages.T]
    for _ in range(2):
        change = sweep_beliefs(messages, beta * bias, graph, order, damping)
        expected = [twin.sweep_beliefs(lane, weights, bias, beta, order, damping) for lane in twins]
    np.testing.assert_allclose(change, expected, atol=1e-13)
    np.testing.assert_allclose(
        messages.T,
        np.array([[lane[int(j), int(i)] for i, j in zip(rows, indices, strict=True)] for lane in twins]).reshape(
            messages.T.shape
        ),
        atol=1e-13,
    )
    totals, log_z = np.empty((n, lanes)), np.zeros(lanes)
    total_fields(messages, beta * bias, indptr, totals)
    bethe_log_z(messages, beta * bias, totals, indices, graph, log_z)
    expected = [twin.bethe_log_z(lane, weights, bias, beta) for lane in twins]
    np.testing.assert_allclose(log_z + n * np.log(2), expected, atol=1e-11)
    first, fields = messages[:, 0].copy(), totals[:, 0].copy()
    arguments, slopes = np.empty(len(couplings)), np.empty(len(couplings))
    pair_arguments(first, fields, indices, graph, arguments)
    message_slopes(first, fields, (indptr, couplings), slopes)
    for k, (i, j) in enumerate(zip(rows, indices, strict=True)):
        c, d = fields[i] - first[k], fields[j] - first[reverse[k]]
        weight = {(s, t): np.exp(couplings[k] * s * t + c * s + d * t) for s in (-1, 1) for t in (-1, 1)}
        assert np.tanh(arguments[k]) == pytest.approx(
            sum(s * t * w for (s, t), w in weight.items()) / sum(weight.values()), abs=1e-12
        )
        rise = [twin.atanh_product(couplings[k], c + e) for e in (-1e-5, 1e-5)]
        assert slopes[k] == pytest.approx((rise[1] - rise[0]) / 2e-5, abs=1e-8)


def test_responses_of_messages_are_their_derivatives():
    weights, bias = random_machine(6, seed=3, scale=0.3, part=0.7)
    _, graph = graph_of(weights, 1.0)
    indptr, reverse, couplings = graph
    order = np.arange(6, dtype=np.int32)

    def solve(field):
        messages, totals = np.zeros((len(couplings), 1)), np.empty((6, 1))
        for _ in range(200):
            sweep_beliefs(messages, field, graph, order, 0.0)
        total_fields(messages, field, indptr, totals)
        return messages[:, 0].copy(), totals[:, 0].copy()

    messages, totals = solve(bias)
    slopes, responses, means = np.empty(len(couplings)), np.zeros((len(couplings), 4)), np.zeros((6, 4))
    message_slopes(messages, totals, (indptr, couplings), slopes)
    while sweep_susceptibilities(responses, means, slopes, (indptr, reverse), order, 2) > 1e-14:
        pass
    for lane in range(4):
        step = 1e-5 * (np.arange(6) == 2 + lane)
        np.testing.assert_allclose(means[:, lane], (solve(bias + step)[1] - solve(bias - step)[1]) / 2e-5, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_selected_entries_are_those_of_the_inverse(seed):
    weights, _ = random_machine(12, seed, scale=0.2, part=0.25)
    matrix = np.eye(12) * 2 + weights
    lower = np.linalg.cholesky(matrix)
    pivots = np.diagonal(lower) ** 2
    pattern = np.linalg.cholesky(12 * np.eye(12) - (weights != 0))  # nothing cancels there
    columns = scipy.sparse.csc_array(np.where(np.abs(pattern) > 1e-14, 1.0, 0.0))
    columns.sort_indices()
    rows = columns.indices
    names = np.repeat(np.arange(12), np.diff(columns.indptr))
    found = np.empty(len(rows))
    selected_inverse(
        (lower / np.diagonal(lower))[rows, names], pivots, (columns.indptr.astype(np.int64), rows.astype(np.int32)),
        (names.astype(np.int64), rows.astype(np.int64)), found,
    )  # fmt: skip
    np.testing.assert_allclose(found, np.linalg.inv(matrix)[rows, names], atol=1e-13)


def test_one_compiled_signature():
    def run_all(n, lanes):
        weights = Dense(random_machine(n, seed=11)[0]).matrix()
        graph, bias, means = csr(weights), np.zeros((n, lanes)), np.zeros((lanes, n))
        sweep_mean_field_dense(means, means.copy(), weights, 1.0, 0.0, np.zeros(lanes), np.arange(len(weights)))
        sweep_tap_dense(means, means.copy(), means.copy(), weights, 1.0, 0.0, np.zeros(lanes), np.arange(len(weights)))
        sweep_mean_field_sparse(bias.copy(), graph, bias, 1.0, 0.0)
        sweep_tap_sparse(bias.copy(), graph, bias, 1.0, 0.0)

    kernels = (sweep_mean_field_dense, sweep_tap_dense, sweep_mean_field_sparse, sweep_tap_sparse)
    run_all(5, 5)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    run_all(1, 1)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
