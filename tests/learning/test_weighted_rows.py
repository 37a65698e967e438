"""Weights of rows: rows that count twice are rows that stand there twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.errors.fisher import fisher_errors, fisher_information
from fastbm.learning.fidelity.moments import ORDERS
from fastbm.learning.learners.likelihood import Likelihood
from fastbm.learning.moments import Parameters
from fastbm.runs.fit.task import FitTask
from tests.support.learning import as_vector, fit_task, gradient_by_differences, some_rows
from tests.support.machines import draw, machine
from tests.twins import fidelity as reference

UNITS = ["binary", "spin"]
HIDDEN = ["restricted", "general"]


def weighted_task(model: bm.BoltzmannMachine, rows: np.ndarray, weights: np.ndarray, **changes: Any) -> FitTask:
    task = fit_task(model, rows, **changes)
    data = {"rows": (rows == 1).astype(np.uint8), "weights": weights}
    return FitTask(model, data, task.settings, classify=None, threads=1)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", HIDDEN)
def test_weighted_gradient_with_hidden_units_is_that_of_repeated_rows(kind: str, units: str) -> None:
    model, beta = machine(kind, units, seed=3), 0.8
    rows, counts = some_rows(model), np.array([2, 0, 1, 3, 1, 1, 0, 2, 1])
    driver = weighted_task(model, rows, 0.5 * counts, beta=beta, l2=0.1).learner.driver
    assert isinstance(driver, Likelihood)
    value, _ = driver._objective(driver._lbfgs._start)
    repeated = fit_task(model, rows.repeat(counts, axis=0), beta=beta, l2=0.1).learner.driver
    assert isinstance(repeated, Likelihood)
    assert value == pytest.approx(repeated._objective(repeated._lbfgs._start)[0], abs=1e-12)
    slope = gradient_by_differences(model, rows.repeat(counts, axis=0), beta, 0.1, 0.0)
    for k, expected in enumerate(slope):
        step = np.zeros_like(slope)
        step[k] = 1.0
        moved = driver._objective(driver._lbfgs._start)[1] @ driver._centring.vector(as_parameters(model, step))
        assert -moved == pytest.approx(expected, abs=1e-6)


def as_parameters(model: bm.BoltzmannMachine, vector: np.ndarray) -> Parameters:
    """Parameters from one entry a coupled pair, then biases."""
    n_pairs = vector.size - model.n_units
    return Parameters(model.couplings.from_vector(vector[:n_pairs]), vector[n_pairs:])


@pytest.mark.parametrize("kind", HIDDEN)
def test_weighted_rows_teach_what_repeated_ones_do(kind: str) -> None:
    model = machine(kind, "binary", seed=3)
    rows, counts = some_rows(model, 12), np.random.default_rng(0).integers(1, 4, 12)
    common = {"init": model, "method": "exact", "epochs": 30, "l2": 0.05, "l2_bias": 0.05}
    one = bm.fit(rows, row_weights=counts, **common)
    other = bm.fit(rows.repeat(counts, axis=0), **common)
    np.testing.assert_allclose(as_vector(one.model), as_vector(other.model), atol=1e-4)
    assert one.metrics["log_likelihood"][-1] == pytest.approx(other.metrics["log_likelihood"][-1], abs=1e-8)


@pytest.mark.parametrize("units", UNITS)
def test_fidelity_of_weighted_rows(units: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("visible", units, seed=3)
    rows, weights = some_rows(model, 60), np.random.default_rng(0).uniform(0, 2, 60)
    monkeypatch.setattr("fastbm.learning.fidelity.moments.BLOCK_ROWS", 17)
    monkeypatch.setattr("fastbm.learning.fidelity.moments.BLOCK_TRIPLES", 3)
    found = bm.fidelity(model, rows, row_weights=weights)
    shares = weights / weights.sum()
    data, scatter, unseen = (
        one(rows.astype(float), shares)
        for one in (reference.weighted_moments, reference.influence_variances, reference.unseen)
    )
    assert found.n_rows == round(1 / (shares**2).sum())
    for name in ORDERS:
        np.testing.assert_allclose(getattr(found, name).data, data[name], atol=1e-12)
        expected = np.sqrt(scatter[name] / ((shares**2).sum() * found.n_rows) + unseen[name] / found.n_rows**2)
        np.testing.assert_allclose(getattr(found, name).error, expected, atol=1e-6)
    alike = bm.fidelity(model, rows, row_weights=np.full(60, 3.0))
    np.testing.assert_allclose(alike.covariance.z, bm.fidelity(model, rows).covariance.z, atol=1e-9)


def test_a_run_holds_its_machine_against_weighted_rows() -> None:
    model = machine("visible", "binary", seed=3)
    rows, weights = some_rows(model, 60), np.random.default_rng(0).uniform(0, 2, 60)
    run = bm.fit(rows, row_weights=weights, method="exact", fidelity=True, l2=1e-3)
    expected = bm.fidelity(run.model, rows, row_weights=weights)
    np.testing.assert_allclose(run.fidelity.mean.data, expected.mean.data, atol=1e-12)
    assert run.fidelity.n_rows == expected.n_rows
    with pytest.raises(ValueError, match="one entry for each row"):
        bm.fidelity(run.model, rows, row_weights=weights[:3])


@pytest.mark.parametrize("factor", [5e-324, 1e-200, 1e200])
def test_weights_of_any_size_count_relative_to_one_another(factor: float) -> None:
    rows = np.random.default_rng(2).integers(0, 2, (50, 3))
    common = {"method": "exact", "l2": 0.01, "errors": "fisher"}
    weights = np.repeat([1.0, 2.0], 25)
    plain, scaled = (bm.fit(rows, row_weights=w, **common) for w in (weights, weights * factor))
    np.testing.assert_allclose(scaled.model.bias, plain.model.bias, atol=1e-6)
    np.testing.assert_allclose(scaled.errors["bias"][-1], plain.errors["bias"][-1], rtol=1e-6)


def test_information_of_weighted_rows_is_that_of_repeated_ones() -> None:
    """But for the number of rows, by Kish; rows of weight 0 are as good as none."""
    model = machine("restricted", "spin", seed=3)
    rows, counts = draw(model, 1_500), np.repeat([0.0, 1.0, 2.0], 500)
    weighted, repeated = (
        fisher_information(model, rows=one, row_weights=w)
        for one, w in ((rows, counts), (rows.repeat(counts.astype(int), axis=0), None))
    )
    assert (weighted.detail["n_samples"], repeated.detail["n_samples"]) == (900, 1_500)
    surplus = [1.0 - (len(weighted.matrix) + 2) / n for n in (900, 1_500)]
    np.testing.assert_allclose(weighted.matrix * surplus[0], repeated.matrix * surplus[1], atol=1e-12)
    run = bm.fit(rows, init=model, row_weights=counts, method="exact", epochs=1, errors="fisher")
    expected = fisher_errors(run.model, n_rows=900, rows=rows, row_weights=counts)
    np.testing.assert_allclose(run.errors["bias"][-1], expected.bias, rtol=1e-9)


def test_masked_weights_are_refused() -> None:
    weights = np.ma.masked_array(np.ones(4), [True, False, False, False])
    with pytest.raises(ValueError, match="row_weights must have no masked entries"):
        bm.fit([[0, 1], [1, 0], [1, 1], [0, 0]], row_weights=weights, method="exact")
