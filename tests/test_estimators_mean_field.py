"""Mean field against exact sums: bounds on the right side, and honesty about convergence."""

from __future__ import annotations

import helpers
import numpy as np
import pytest
from helpers import KINDS, UNITS, calm, machine

import fastbm as bm

end_threads = helpers.end_threads


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_mean_field_is_a_lower_bound(kind: str, units: str, beta: float) -> None:
    for seed in range(3):
        model = machine(kind, units, seed=seed, offset=-2.0)
        found, truth = bm.infer(model, "mean-field", beta=beta), bm.infer(model, "exact", beta=beta)
        assert found.bound == "lower"
        assert found.log_z <= truth.log_z + 1e-10
        assert found.entropy == pytest.approx(found.log_z + beta * found.energy, abs=1e-10)


@pytest.mark.parametrize("units", UNITS)
def test_mean_field_is_exact_without_couplings(units: str) -> None:
    model = bm.BoltzmannMachine(np.zeros((4, 4)), [0.5, -1.0, 0.0, 30.0], units=units, offset=1.0)
    found, truth = bm.infer(model, "mean-field", beta=1.3), bm.infer(model, "exact", beta=1.3)
    assert found.log_z == pytest.approx(truth.log_z, abs=1e-10)
    np.testing.assert_allclose(found.mean, truth.mean, atol=1e-10)
    np.testing.assert_allclose(found.covariance, truth.covariance, atol=1e-10)
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=1e-10)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_mean_field_and_linear_response_are_close_where_couplings_are_weak(kind: str, units: str) -> None:
    model = machine(kind, units, scale=0.05 if units == "spin" else 0.2)
    found, truth = bm.infer(model, "mean-field"), bm.infer(model, "exact")
    np.testing.assert_allclose(found.mean, truth.mean, atol=0.02)
    pairs = np.triu_indices(model.n_units, 1)
    coupled = helpers.parameters(model)[0][pairs] != 0
    error = np.abs(found.covariance - truth.covariance)[pairs][coupled]
    assert error.max() < 0.3 * np.abs(truth.covariance[pairs][coupled]).max()


def test_mean_field_keeps_the_best_of_its_starts() -> None:
    """A ferromagnet in its ordered phase: m = 0 solves the equations, and is not the best that does."""
    model = bm.models.curie_weiss(10, coupling=2.0)
    one, many = (calm(bm.infer, model, "mean-field", n_starts=n) for n in (1, 8))
    assert one.covariance is None  # a saddle: variances would be negative
    assert one.log_z < many.log_z < bm.infer(model, "exact").log_z
    assert abs(many.mean[0]) > 0.9
    assert len(many.detail["bounds of all starts"]) == 8


@pytest.mark.parametrize(
    ("model", "beta"),
    [
        (bm.BoltzmannMachine([[0.0, 1.0], [1.0, 0.0]]), 1.0),
        (bm.models.ising((4, 4)), 0.25),
        (bm.models.ising((3, 3)), 0.25),
    ],
    ids=["pair", "4x4", "3x3"],
)
def test_linear_response_at_the_critical_point_is_not_believed(model: bm.BoltzmannMachine, beta: float) -> None:
    """There the response of mean field diverges: the bound stands, the covariance is not to be believed."""
    found = calm(bm.infer, model, "mean-field", beta=beta)
    assert found.log_z <= bm.infer(model, "exact", beta=beta).log_z + 1e-10
    assert found.covariance is None or not found.converged or np.abs(found.covariance).max() < 1e3


def test_mean_field_that_stops_early_says_so() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="mean-field did not converge.*max_sweeps"):
        found = bm.infer(machine("visible"), "mean-field", max_sweeps=1)
    assert not found.converged
    assert found.log_z <= bm.infer(machine("visible"), "exact").log_z


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
def test_damping_changes_the_way_and_not_the_end(damping: float) -> None:
    model = machine("general", scale=0.3)
    plain, damped = (bm.infer(model, "mean-field", damping=d) for d in (0.0, damping))
    assert damped.log_z == pytest.approx(plain.log_z, abs=1e-9)
    np.testing.assert_allclose(damped.mean, plain.mean, atol=1e-8)
