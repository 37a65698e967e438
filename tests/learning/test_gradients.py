"""Learning climbs the likelihood that it says it climbs."""

# A step of plain ascent at rate 1 is the gradient, so gradients are read off the public call and held against finite
# differences of a likelihood that is summed here.

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.learners.likelihood import Likelihood
from tests.support.combinations import pairwise
from tests.support.learning import STEP, as_vector, fit_task, gradient_by_differences, some_rows
from tests.support.machines import KINDS, UNITS, log_likelihood, machine, parameters
from tests.twins import reference


@pairwise(kind=KINDS, units=UNITS, **{"beta, l2, l2_bias": [(1.0, 0.0, 0.0), (0.6, 0.3, 0.0), (1.7, 0.1, 0.4)]})
def test_a_step_of_ascent_is_the_gradient_of_the_likelihood(
    kind: str, units: str, beta: float, l2: float, l2_bias: float
) -> None:
    model = machine(kind, units, seed=2)
    rows = some_rows(model)
    run = bm.fit(
        rows, init=model, method="exact", optimizer="sgd", learning_rate=1.0, epochs=1, beta=beta, l2=l2,
        l2_bias=l2_bias, evaluate="none",
    )  # fmt: skip
    slope = as_vector(run.model) - as_vector(model)
    np.testing.assert_allclose(slope, gradient_by_differences(model, rows, beta, l2, l2_bias), atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_that_l_bfgs_climbs_has_this_gradient_and_this_value(kind: str, units: str) -> None:
    model, beta, l2, l2_bias = machine(kind, units, seed=3, offset=2.0), 0.8, 0.2, 0.1
    rows = some_rows(model)
    task = fit_task(model, rows, beta=beta, l2=l2, l2_bias=l2_bias)
    driver = task.learner.driver
    assert isinstance(driver, Likelihood)
    start = driver._lbfgs._start
    np.testing.assert_allclose(as_vector(driver._parameters(start).machine(model)), as_vector(model), atol=1e-12)
    value, slope = driver._objective(start)
    weights, bias = parameters(model)
    penalty = 0.5 * l2 * np.sum(np.triu(weights, 1) ** 2) + 0.5 * l2_bias * bias @ bias
    assert -value == pytest.approx(log_likelihood(weights, bias, units, rows, beta) - penalty, abs=1e-10)
    for k in range(len(start)):
        move = np.zeros_like(start)
        move[k] = STEP
        difference = (driver._objective(start + move)[0] - driver._objective(start - move)[0]) / (2 * STEP)
        assert slope[k] == pytest.approx(difference, abs=1e-6)


def test_the_twin_of_the_likelihood_is_right() -> None:
    for kind in KINDS:
        model = machine(kind, "binary", seed=1)
        rows = some_rows(model, 3)
        weights, bias = parameters(model)
        free = reference.enumerate_states(weights, bias, "binary", beta=0.7).log_z
        clamped = [-reference.free_energy(row, weights, bias, "binary", 0.7) for row in rows.tolist()]
        assert log_likelihood(weights, bias, "binary", rows, 0.7) == pytest.approx(np.mean(clamped) - free, abs=1e-12)


@pytest.mark.parametrize("units", UNITS)
def test_reported_likelihoods_are_those_of_the_learned_machine(units: str) -> None:
    for kind in KINDS:
        model = machine(kind, units, seed=4)
        rows = some_rows(model, 12)
        for optimizer in ("sgd", "l-bfgs"):
            run = bm.fit(
                rows, init=model, method="exact", optimizer=optimizer, epochs=4, beta=0.9, l2=0.05, holdout=rows[:4]
            )
            weights, bias = parameters(run.model)
            assert run.evaluation["log_likelihood"][-1] == pytest.approx(
                log_likelihood(weights, bias, units, rows, 0.9), abs=1e-9
            )
            assert run.metrics["log_likelihood"][-1] == pytest.approx(
                log_likelihood(weights, bias, units, rows, 0.9), abs=1e-9
            )
            held = log_likelihood(weights, bias, units, rows[:4], 0.9)
            assert run.evaluation["holdout_log_likelihood"][-1] == pytest.approx(held, abs=1e-9)
            arrays = [run.weights[name] for name in run.weights if name.startswith("weights")]
            for stored, array in zip(arrays, run.model.couplings.arrays, strict=True):
                assert np.array_equal(stored[-1], array)
            assert np.array_equal(run.weights["bias"][-1], run.model.flat_bias)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_pseudo_likelihood_is_the_sum_of_the_conditionals(kind: str, units: str) -> None:
    model = machine(kind, units, seed=5)
    rows, beta = some_rows(model, 20), 1.3
    run = bm.fit(rows, init=model, method="exact", optimizer="sgd", learning_rate=0.1, epochs=1, beta=beta)
    weights, bias = parameters(run.model)
    total = 0.0
    for row in rows:
        here = log_likelihood(weights, bias, units, row[None], beta)
        for i in range(model.n_visible):
            other = row.copy()
            other[i] = (-1 if units == "spin" else 0) + 1 - other[i]
            total += here - np.logaddexp(here, log_likelihood(weights, bias, units, other[None], beta))
    assert run.metrics["pseudo_likelihood"][-1] == pytest.approx(total / len(rows), abs=1e-6)
