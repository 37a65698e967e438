"""Newton's steps of few units: value, gradient and Hessian against exact sums, hard data, the record, old records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.learning.learners.likelihood import Likelihood
from fastbm.learning.optimise import newton
from fastbm.learning.optimise.lbfgs import Lbfgs
from fastbm.learning.optimise.newton import FewStates, Newton
from tests.support.learning import STEP, fit_task

UNITS = ("spin", "binary")
PENALTIES = {"beta": 0.8, "l2": 0.2, "l2_bias": 0.1}


def some_machine(n: int, units: str, *, sparse: bool = False) -> bm.BoltzmannMachine:
    model = bm.models.random_machine(n, scale=0.6, bias_scale=0.3, seed=3).to_units(units)
    if not sparse:
        return model
    kept = np.triu(np.random.default_rng(0).random((n, n)) < 0.5, 1)
    return bm.BoltzmannMachine(scipy.sparse.csr_matrix(model.weights * (kept + kept.T)), model.bias, units=units)


def some_rows(model: bm.BoltzmannMachine, n_rows: int = 150) -> np.ndarray:
    up = np.random.default_rng(1).random((n_rows, model.n_units)) < 0.4
    return model.convention.values(up.astype(np.uint8))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("sparse", [False, True])
def test_derivatives_are_those_of_the_likelihood_by_exact_sums(units: str, sparse: bool) -> None:
    model = some_machine(5, units, sparse=sparse)
    driver = fit_task(model, some_rows(model), **PENALTIES).learner.driver
    assert isinstance(driver, Likelihood) and isinstance(driver._few, FewStates)
    point = driver._lbfgs._start
    value, probabilities = driver._few.value(point)
    expected, slope = driver._objective(point)
    assert value == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(driver._few.slope(point, probabilities), slope, atol=1e-12)
    for k, row in enumerate(driver._few.curvature(probabilities)):
        move = np.zeros_like(point)
        move[k] = STEP
        difference = (driver._objective(point + move)[1] - driver._objective(point - move)[1]) / (2 * STEP)
        np.testing.assert_allclose(row, difference, atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("options", [{}, {"l2": 0.1}])
def test_a_start_that_is_sure_of_one_state_comes_back(units: str, options: dict[str, float]) -> None:
    start = bm.models.random_machine(4, scale=30.0, bias_scale=30.0, seed=3, units=units)
    run = bm.fit(some_rows(start), method="exact", init=start, **options)
    assert run.converged
    np.testing.assert_allclose(run.model.weights, bm.fit(some_rows(start), "exact", **options).model.weights, atol=1e-5)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("options", [{}, {"l2": 1e-3}, {"l2_bias": 0.1, "l2": 0.01, "beta": 0.5}, {"tolerance": 1e-13}])
@pytest.mark.filterwarnings("ignore:data")
def test_the_maximum_is_that_of_l_bfgs(units: str, options: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair of these rows lacks a state, so that one coupling has no end without a penalty."""
    rows = some_rows(some_machine(6, units), 40)
    rows[(rows[:, 0] == 1) & (rows[:, 1] == 1), 1] = rows.min()
    run = bm.fit(rows, method="exact", **options)
    monkeypatch.setattr(newton, "MOST_NUMBERS", 0)
    other = bm.fit(rows, method="exact", **options | {"tolerance": 1e-9})
    assert run.converged is ("l2" in options)
    assert run.metrics["log_likelihood"][-1] == pytest.approx(other.metrics["log_likelihood"][-1], abs=1e-5)
    if "l2" in options:
        np.testing.assert_allclose(run.model.weights, other.model.weights, atol=2e-3)


def test_a_record_of_l_bfgs_goes_on_by_l_bfgs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = some_machine(6, "spin")
    about = {"rows": some_rows(model), "epochs": 40, "tolerance": 1e-9}
    with monkeypatch.context() as patch:
        patch.setattr(newton, "MOST_NUMBERS", 0)
        before = fit_task(model, **about).learner
    assert isinstance(before.driver._lbfgs, Lbfgs)  # type: ignore[attr-defined]
    before.advance()
    state = {name: array for name, array in before.state().items() if name != "newton"}
    after = fit_task(model, **about).learner
    assert isinstance(after.driver._lbfgs, Newton)  # type: ignore[attr-defined]
    after.restore(state)
    while (one := before.advance()) is not None:
        other = after.advance()
        assert other is not None
        assert one["weights/weights"].tobytes() == other["weights/weights"].tobytes()
    assert after.advance() is None and after.driver.converged


POWERS = {"l1": 1, "l2": 2, "l2_bias": 2}  # of beta, which penalties go with
HELD = {"method": "pseudolikelihood", "l1": 0.02, "l2_bias": 0.01}
SAMPLED = {"method": "monte-carlo", "epochs": 10, "n_chains": 32}


@pytest.mark.parametrize("beta", [1e-6, 1e5])
@pytest.mark.parametrize(
    "options",
    [{"l2": 0.05}, {"n_hidden": 1, "l2": 0.02, "n_starts": 2}, {"method": "rise"}, HELD, SAMPLED],
    ids=["exact", "hidden", "rise", "l1", "monte-carlo"],
)
def test_learning_is_one_problem_at_any_beta(options: dict[str, Any], beta: float) -> None:
    """Parameters times beta are the same, penalties alike; a gradient is not small as beta is."""
    rows = some_rows(some_machine(4, "binary"))
    held = {name: value * beta**power for name, power in POWERS.items() if (value := options.get(name))}
    one, other = (
        bm.fit(rows, **{"method": "exact", "evaluate": "none", "progress": False} | options | more)
        for more in ({}, {"beta": beta} | held)
    )
    for a, b in zip(one.model.couplings.arrays, other.model.couplings.arrays, strict=True):
        np.testing.assert_allclose(b * beta, a, atol=1e-5)
    np.testing.assert_allclose(other.model.flat_bias * beta, one.model.flat_bias, atol=1e-5)
    assert other.converged == one.converged


def test_records_of_other_coordinates_are_not_followed() -> None:
    """Versions before kept points that did not count beta: their path is found anew."""
    model = some_machine(4, "spin")
    before, after, whole = (fit_task(model, some_rows(model), **PENALTIES).learner.driver for _ in range(3))
    assert isinstance(before, Likelihood) and isinstance(after, Likelihood) and isinstance(whole, Likelihood)
    before.epoch(0)
    state = before.state()
    del state["log_odds"]
    state["optimizer/points"] = 3.0 * state["optimizer/points"]
    after.restore(state)
    for one in (after, whole):
        one.epoch(1)
    np.testing.assert_array_equal(after.parameters.bias, whole.parameters.bias)
