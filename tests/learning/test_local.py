"""Convex local rules: their objectives against twins, their optima against the truth, and what they refuse."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from threadpoolctl import threadpool_limits

import fastbm as bm
from fastbm.kernels.learning.conditionals import LANES, exponential_residuals, logistic_residuals
from fastbm.learning.learners.local import LocalRules
from fastbm.learning.learners.local_objectives import LocalObjective, Patterns, distinct
from fastbm.learning.moments import Parameters
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.learning import fit_task
from tests.support.machines import draw, log_joint, machine, parameters
from tests.support.runs import assert_same
from tests.twins import local_rules

RULES = ("pseudolikelihood", "rise", "log-rise", "minimum-probability-flow")
DIFFERENT = RULES[:3]  # the last has the objective of rise
EVALUATE: dict[str, Any] = {"evaluate": "none", "weights_every": 0}


def sparse_machine(units: str, n: int = 6, seed: int = 3) -> bm.BoltzmannMachine:
    """A ring, with one chord."""
    generator = np.random.default_rng(seed)
    weights = np.zeros((n, n))
    for i, j in [(k, (k + 1) % n) for k in range(n)] + [(0, n // 2)]:
        weights[i, j] = weights[j, i] = generator.normal(scale=0.6)
    return bm.BoltzmannMachine(scipy.sparse.csr_array(weights), generator.normal(scale=0.4, size=n), units=units)


def weighted(model: bm.BoltzmannMachine, n_rows: int = 40, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rows, some of them alike, with weights, some of them 0."""
    generator = np.random.default_rng(seed)
    rows = draw(model, n_rows, seed)
    return rows, generator.random(n_rows) * (generator.random(n_rows) < 0.8)


def driver(model: bm.BoltzmannMachine, rows: np.ndarray, **changes: Any) -> Any:
    return fit_task(model, rows, **{"clamped": "none", "free": "none", **changes}).learner.driver


@pairwise(kind=["visible", "many", "sparse"], units=machines.UNITS, rule=RULES)
def test_objectives_are_those_of_the_twin(rule: str, units: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "many":
        monkeypatch.setattr("fastbm.learning.learners.local_objectives.MANY", 2)
        kind = "visible"
    model = machine(kind, units) if kind == "visible" else sparse_machine(units)
    rows, row_weights = weighted(model)
    patterns = Patterns((rows == 1).astype(np.uint8), model.convention, row_weights)
    value, _ = LocalObjective(rule, model, patterns, 0.7, threads=2)(Parameters.of(model))
    weights, bias = parameters(model)
    expected = local_rules.objective(rule, weights, bias, rows, units, beta=0.7, row_weights=row_weights)
    assert value == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("units", machines.UNITS)
def test_probability_flow_is_that_of_its_definition(units: str) -> None:
    model = machine("visible", units)
    rows = draw(model, 30)
    patterns = Patterns((rows == 1).astype(np.uint8), model.convention)
    value, _ = LocalObjective("minimum-probability-flow", model, patterns, 1.3, threads=1)(Parameters.of(model))
    assert value == pytest.approx(local_rules.flow(*parameters(model), rows, units, beta=1.3), rel=1e-13)


@pairwise(
    **{"units, kind": [("spin", "visible"), ("binary", "visible"), ("binary", "sparse")]},
    rule=RULES,
    penalty=[{}, {"l2": 0.1, "l2_bias": 0.2}, {"l1": 0.05}, {"l1": 0.03, "l2": 0.2}],
)
def test_gradients_are_those_of_the_twin(rule: str, units: str, kind: str, penalty: dict[str, float]) -> None:
    model = machine(kind, units) if kind == "visible" else sparse_machine(units)
    rows = draw(model, 25)
    one = driver(model, rows, method=rule, beta=0.8, **penalty)
    point = one._lbfgs._start + (0.01 if "l1" in penalty else 0.0)  # away from the corner of |W|

    def twin(vector: np.ndarray) -> float:
        found = one._parameters(vector)
        weights, bias = parameters(found.machine(model))
        value = local_rules.objective(
            rule, weights, bias, rows, units, beta=0.8, **{k: v for k, v in penalty.items() if k != "l1"}
        )
        n = one._centring.n_pairs
        price = penalty.get("l1", 0.0) / one._centring.scale[:n] / 0.8  # of couplings times beta
        return value + (float(price @ (vector[:n] + vector[n : 2 * n])) if "l1" in penalty else 0.0)

    value, gradient = one._objective(point)
    assert value == pytest.approx(twin(point), rel=1e-12)
    for k in range(len(point)):
        step = np.zeros_like(point)
        step[k] = 1e-5
        assert gradient[k] == pytest.approx((twin(point + step) - twin(point - step)) / 2e-5, abs=1e-6)


def test_kernels_are_safe_for_fields_of_any_size() -> None:
    field = np.array([0.0, 1e-9, 3.0, -3.0, 40.0, -40.0, 800.0, -800.0, 1e6, -1e6])
    field = np.resize(field, (2, 1, LANES))
    values = np.where(np.arange(2 * LANES).reshape(field.shape) % 3 == 0, 1, 0).astype(np.int8)
    weights, bias, scale = np.full((1, LANES), 1.0 / LANES), np.array([0.5, -0.25]), 1.7
    u = np.where(values > 0, scale, -scale) * (field + bias[:, None, None])
    left, sums, peaks = field.copy(), np.empty(2), np.empty(2)
    logistic_residuals(left, values, weights, bias, scale, sums)
    np.testing.assert_allclose(sums, (weights * np.logaddexp(0, -u)).sum(axis=(1, 2)), rtol=1e-14)
    slope = np.where(values > 0, -scale, scale) * weights
    np.testing.assert_allclose(left, slope * np.exp(-np.logaddexp(0, u)), rtol=1e-12, atol=1e-300)
    left = field.copy()
    exponential_residuals(left, values, weights, bias, scale, sums, peaks)
    np.testing.assert_allclose(peaks, (-u).max(axis=(1, 2)), rtol=1e-15)
    scaled = np.exp(-u - peaks[:, None, None])
    np.testing.assert_allclose(sums, (weights * scaled).sum(axis=(1, 2)), rtol=1e-13)
    np.testing.assert_allclose(left, slope * scaled, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("rule", RULES)
def test_no_parameters_make_an_objective_that_is_not_a_number(rule: str) -> None:
    model = machine("visible", "spin")
    rows = draw(model, 30)
    one = driver(model, rows, method=rule)
    for size in (1e3, 1e6, 1e12):
        value, gradient = one._objective(size * np.sin(np.arange(one._lbfgs._start.size) + 1.0))
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("n_units", [3, 64, 70])
def test_equal_rows_are_one_row_with_a_weight(n_units: int) -> None:
    generator = np.random.default_rng(0)
    few = generator.integers(0, 2, (7, n_units), dtype=np.uint8)
    up = few[generator.integers(0, 7, 500)]
    weights = generator.random(500) * (generator.random(500) < 0.7)
    for given in (None, weights):
        found, shares = distinct(up, given)
        expected: dict[bytes, float] = {}
        for row, weight in zip(up, np.ones(500) if given is None else given, strict=True):
            if weight:
                expected[row.tobytes()] = expected.get(row.tobytes(), 0.0) + weight
        total = sum(expected.values())
        assert len(found) == len(expected)
        for row, share in zip(found[:], shares, strict=True):
            assert share == pytest.approx(expected[row.tobytes()] / total)


@pytest.mark.parametrize("rule", DIFFERENT)
def test_bits_do_not_depend_on_threads(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.learning.learners.local_objectives.MANY", 2)
    rows = np.random.default_rng(0).integers(0, 2, (5000, 40))
    runs = [bm.fit(rows, method=rule, threads=threads, epochs=4, **EVALUATE) for threads in (1, 2, 3)]
    for run in runs[1:]:
        assert_same(runs[0], run)


def test_products_by_look_ups_lead_to_the_same_optimum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    model = bm.models.random_machine(12, scale=0.5, seed=4)
    rows = draw(model, 3000)
    exact = bm.fit(rows, "pseudolikelihood", **EVALUATE)
    monkeypatch.setattr("fastbm.learning.learners.local_objectives.MANY", 2)
    found = bm.fit(rows, "pseudolikelihood", out=tmp_path / "run.h5", max_seconds=0.0, **EVALUATE)
    while not found.finished:
        found = bm.resume(tmp_path / "run.h5", max_seconds=0.0)
    assert_same(bm.fit(rows, "pseudolikelihood", **EVALUATE), found)
    assert len(found.metrics["gradient"]) <= 8  # from means and correlations it is not far
    assert exact.metrics["objective"][-1] == pytest.approx(found.metrics["objective"][-1], rel=1e-11)
    assert not np.array_equal(found.model.weights, exact.model.weights)
    np.testing.assert_allclose(found.model.weights, exact.model.weights, atol=1e-12)
    one = driver(found.model, rows, method="pseudolikelihood")
    assert np.abs(one._objective(one._lbfgs._start)[1]).max() <= 1e-6 * (1 + 1e-6)


def test_a_fit_begins_near_its_end_unless_it_is_told_where() -> None:
    model = bm.models.random_machine(12, scale=0.3, bias_scale=0.5, seed=4)
    rows = draw(model, 3000)
    biases = bm.BoltzmannMachine(np.zeros((12, 12)), np.ones(12))
    usual, told = (bm.fit(rows, "pseudolikelihood", init=init, **EVALUATE) for init in (None, biases))
    assert usual.metrics["gradient"][0] < 0.2 * told.metrics["gradient"][0]
    assert len(usual.metrics["gradient"]) < len(told.metrics["gradient"])


def every_state(model: bm.BoltzmannMachine) -> tuple[np.ndarray, np.ndarray]:
    """All states, and their probabilities: a sample without noise."""
    states, log_p = log_joint(*parameters(model), model.units, 1.0)
    return states, np.exp(log_p)


@pytest.mark.parametrize("rule", DIFFERENT)
@pytest.mark.parametrize(("units", "beta"), [("spin", 0.5), ("binary", 1.0)])
def test_planted_machines_are_found_from_their_distribution(rule: str, units: str, beta: float) -> None:
    for model in (machine("visible", units), sparse_machine(units)):
        states, p = every_state(model)
        like = bm.BoltzmannMachine(0.3 * model.weights, units=units)
        task = fit_task(
            like, states, method=rule, clamped="none", free="none", beta=beta, epochs=300, tolerance=1e-10, l2=0.0
        )
        assert task.settings.method == rule
        one = LocalRules(like, (states == 1).astype(np.uint8), task.settings, 2, p)
        number = 0
        while not one.done:
            one.epoch(number)
            number += 1
        assert one.converged
        weights, bias = parameters(model)
        found_weights, found_bias = parameters(one.parameters.machine(like))
        np.testing.assert_allclose(beta * found_weights, weights, atol=1e-7)
        np.testing.assert_allclose(beta * found_bias, bias, atol=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_planted_machines_are_found_from_many_samples(rule: str) -> None:
    model = bm.models.random_machine(12, bias_scale=0.3, seed=4)
    rows = draw(model, 40_000)
    run = bm.fit(rows, method=rule, **EVALUATE)
    assert run.converged
    # errors of couplings fall as 1 / sqrt(rows): 0.005 each, and rise's are larger by a third
    error = np.abs(run.model.weights - model.weights)[np.triu_indices(12, 1)]
    assert np.sqrt(np.mean(error**2)) < 0.012


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("units", machines.UNITS)
def test_two_units_are_learned_as_by_maximum_likelihood(rule: str, units: str) -> None:
    """Four counts, and three parameters that fit any of them that is no function: (ad / bc) is the coupling."""
    lo = -1 if units == "spin" else 0
    a, b, c, d = 40, 25, 13, 22  # up up, up down, down up, down down: rows of a machine with a pair and biases
    rows = np.repeat([[1, 1], [1, lo], [lo, 1], [lo, lo]], [a, b, c, d], axis=0)
    exact = bm.fit(rows, units=units, method="exact", tolerance=1e-9).model
    found = bm.fit(rows, units=units, method=rule, tolerance=1e-10).model
    np.testing.assert_allclose(found.weights, exact.weights, atol=1e-7)
    np.testing.assert_allclose(found.bias, exact.bias, atol=1e-7)
    coupling = np.log(a * d / (b * c)) / (4 if units == "spin" else 1)
    assert found.weights[0, 1] == pytest.approx(coupling, abs=1e-8)


@pytest.mark.parametrize("penalty", [{}, {"l1": 0.02}, {"l1": 0.01, "l2": 0.05, "l2_bias": 0.1}])
@pytest.mark.parametrize("rule", DIFFERENT)
def test_two_starts_come_to_the_same_couplings(rule: str, penalty: dict[str, float]) -> None:
    model = bm.models.random_machine(10, bias_scale=0.3, seed=2)
    rows = draw(model, 2000)
    starts = [None, bm.models.random_machine(10, bias_scale=1.0, seed=9)]
    one, other = (bm.fit(rows, method=rule, init=start, tolerance=1e-10, **penalty, **EVALUATE) for start in starts)
    assert one.converged
    assert other.converged
    np.testing.assert_allclose(one.model.weights, other.model.weights, atol=1e-8)
    np.testing.assert_allclose(one.model.bias, other.model.bias, atol=1e-8)
    assert ((one.model.weights == 0) == (other.model.weights == 0)).all()


@pytest.mark.parametrize("rule", DIFFERENT)
def test_l1_puts_weak_couplings_out_and_meets_the_conditions_of_its_optimum(rule: str) -> None:
    model = sparse_machine("spin", 8)
    rows = draw(model, 4000)
    l1 = 0.06
    run = bm.fit(rows, method=rule, l1=l1, tolerance=1e-8, **EVALUATE)
    found = run.model
    pairs = np.triu_indices(8, 1)
    truth, weights = parameters(model)[0][pairs], found.weights[pairs]
    assert (weights == 0).sum() >= 10
    assert (weights[np.abs(truth) > 0.2] != 0).all()
    patterns = Patterns((rows == 1).astype(np.uint8), found.convention)
    _, slope = LocalObjective(rule, found, patterns, 1.0, threads=1)(Parameters.of(found))
    slopes = slope.weights[0][pairs]
    np.testing.assert_allclose(slopes[weights != 0], -l1 * np.sign(weights[weights != 0]), atol=1e-6)
    assert (np.abs(slopes[weights == 0]) <= l1 + 1e-6).all()
    np.testing.assert_allclose(slope.bias, 0.0, atol=1e-6)
    without = bm.fit(rows, method=rule, **EVALUATE).model.weights[pairs]
    assert (without != 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_a_sparse_start_says_which_pairs_are_learned(rule: str) -> None:
    model = sparse_machine("binary")
    rows = draw(model, 3000)
    found = bm.fit(rows, method=rule, init=model, **EVALUATE).model
    assert found.couplings.kind == "sparse"
    np.testing.assert_array_equal(found.couplings.edges, model.couplings.edges)
    assert np.abs(found.couplings.arrays[0] - model.couplings.arrays[0]).max() > 1e-3


@pytest.mark.parametrize("rule", DIFFERENT)
def test_pairs_that_never_meet_are_named(rule: str) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (400, 5))
    rows[rows[:, 1] == 1, 3] = 0
    with pytest.warns(bm.ConvergenceWarning, match=r"no finite optimum.*never on together, \(1, 3\).*l2"):
        run = bm.fit(rows, method=rule)
    assert run.finished
    assert np.isfinite(run.model.weights).all()
    assert run.model.weights[1, 3] < -8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bm.fit(rows, method=rule, l2=1e-2).converged
        assert bm.fit(rows, method=rule, l1=1e-2).converged
        cut = np.ones((5, 5)) - np.eye(5)
        cut[1, 3] = cut[3, 1] = 0
        apart = bm.BoltzmannMachine(scipy.sparse.csr_array(0.01 * cut), units="binary")
        assert bm.fit(rows, method=rule, init=apart).converged


@pytest.mark.parametrize("rule", DIFFERENT)
@pytest.mark.parametrize("penalty", [{}, {"l1": 0.02}])
def test_starts_that_are_far_off_come_back(rule: str, penalty: dict[str, float]) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (300, 6))
    start = bm.models.random_machine(6, seed=1, units="binary")
    far = bm.BoltzmannMachine(300 * start.weights, units="binary")
    one, other = (bm.fit(rows, method=rule, init=init, **penalty, **EVALUATE) for init in (far, None))
    assert one.converged
    np.testing.assert_allclose(one.model.weights, other.model.weights, atol=1e-4)


def test_couplings_that_a_penalty_holds_may_be_strong_on_the_way() -> None:
    rows = [[1, 1, 1], [-1, -1, -1]] * 9 + [[1, -1, 1]]
    far = bm.models.random_machine(3, scale=2.0, bias_scale=2.0, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bm.fit(rows, "log-rise", init=far, beta=2.0, l2=0.1, **EVALUATE).converged


@pytest.mark.parametrize("l2", [1e-3, 0.1])
def test_units_that_seldom_or_never_change_take_few_iterations_where_a_penalty_holds_them(l2: float) -> None:
    generator = np.random.default_rng(0)
    rows = (generator.random((2000, 40)) < generator.choice([0.0, 0.001, 0.01, 0.3], 40)).astype(np.uint8)
    run = bm.fit(rows, method="pseudolikelihood", l2=l2, l2_bias=1e-3, epochs=400, **EVALUATE)
    assert run.converged and len(run.metrics["gradient"]) < 60


def test_constant_units_are_named() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (400, 4))
    rows[:, 2] = 0
    with pytest.warns(bm.ConvergenceWarning, match=r"unit 2 is never on.*l2_bias"):
        bm.fit(rows, method="pseudolikelihood")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bm.fit(rows, method="pseudolikelihood", l2=1e-2, l2_bias=1e-2).converged


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('needs all units visible; got n_hidden=2. Use method="pcd"', {"n_hidden": 2}),
        ("needs all units visible", {"init": machine("restricted", "binary")}),
        ("has no phases; got clamped='exact'", {"clamped": "exact"}),
        ("has no phases; got free='gibbs'", {"free": "gibbs"}),
        ("is learned by \"l-bfgs\"; got optimizer='adam'", {"optimizer": "adam"}),
        ("needs all 20 rows in each step; got batch_size=10", {"batch_size": 10}),
        ("l1 must be at least 0", {"l1": -1.0}),
        ("l1 goes with methods 'pseudolikelihood'.*got method='pcd'", {"method": "pcd", "l1": 0.1}),
    ],
)
def test_what_cannot_be_is_refused(text: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=text):
        bm.fit(bm.data.bars_and_stripes(2).repeat(4, 0)[:20], **{"method": "rise", **arguments})


@pytest.mark.parametrize(("rule", "options"), [("pseudolikelihood", {}), ("rise", {"l1": 0.02}), ("log-rise", {})])
def test_resumed_runs_have_the_bits_of_whole_ones(rule: str, options: dict[str, float], tmp_path: Path) -> None:
    rows = draw(bm.models.random_machine(6, bias_scale=0.3, seed=1, units="binary"), 200)
    whole = bm.fit(rows, method=rule, out=tmp_path / "whole.h5", **options)
    run = bm.fit(rows, method=rule, out=tmp_path / "run.h5", max_seconds=0.0, **options)
    stops = 0
    while not run.finished:
        run = bm.resume(tmp_path / "run.h5", max_seconds=0.0)
        stops += 1
        assert stops < 100
    assert stops >= 3
    assert_same(whole, run)
    assert_same(bm.fit(rows, method=rule, **options), run)
    assert sorted(run.metrics) == sorted(bm.open(tmp_path / "whole.h5").metrics)
    assert run.converged
    assert np.isfinite(run.evaluation["log_likelihood"]).all()


@pytest.mark.slow
def test_a_hundred_spins_are_found() -> None:
    model = bm.models.sherrington_kirkpatrick(100, seed=1)
    rows = bm.sample(model, beta=0.6, n_chains=500, n_sweeps=200, thin=10, burn_in=100, seed=2).states
    rows = rows.reshape(-1, 100)
    for rule in RULES:
        run = bm.fit(rows, method=rule, **EVALUATE)
        assert run.converged
        error = (run.model.weights - 0.6 * model.weights)[np.triu_indices(100, 1)]
        assert np.sqrt(np.mean(error**2)) < 0.02


def test_bits_do_not_depend_on_the_threads_of_blas():
    rows = np.random.default_rng(0).random((6_000, 100)) < 0.4
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            found.append(bm.fit(rows, "pseudolikelihood", epochs=1, evaluate="none").model)
    assert np.array_equal(found[0].weights, found[1].weights)
