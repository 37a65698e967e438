"""The TAP equations against their twin, exact sums and expansions, and finite differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.inference.fixed_point.tap import TAP
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import KINDS, UNITS, calm, machine
from tests.twins import fixed_point as twin


def solve(model: bm.BoltzmannMachine, beta: float = 1.0, **options: Any) -> bm.Inference:
    return calm(tap, model, **{"beta": beta, **options})


def tap(model: bm.BoltzmannMachine, *, beta: float, moments: bool = True, threads: int = 1, **own: Any) -> Any:
    return TAP(**own).run(model, beta=beta, moments=moments, seed=0, threads=threads)


def spin_means(model: bm.BoltzmannMachine, found: bm.Inference) -> list[float]:
    mean = np.asarray(found.mean)
    return (mean if model.units == "spin" else 2 * mean - 1).tolist()


@pairwise(kind=KINDS, units=UNITS, beta=[0.0, 0.3, 1.0, 3.0])
def test_the_equations_are_solved_and_log_z_is_that_of_the_twin(kind: str, units: str, beta: float) -> None:
    model = machine(kind, units, offset=-2.0)
    found = solve(model, beta)
    spin = model.to_units("spin")
    weights, bias = machines.parameters(spin)
    means = spin_means(model, found)
    assert twin.tap_residual(means, weights, bias, beta) < 1e-10
    assert found.log_z == pytest.approx(twin.tap_log_z(means, weights, bias, beta) - beta * spin.offset, rel=1e-11)
    assert found.entropy == pytest.approx(found.log_z + beta * found.energy, abs=1e-10)
    assert found.bound is None
    assert found.converged == (found.detail["plefka"] >= 0)


def test_energy_is_the_derivative_of_log_z() -> None:
    model = machine("general", scale=0.3, offset=0.7)
    low, high = (solve(model, beta=1.0 + step).log_z for step in (-1e-5, 1e-5))
    assert solve(model).energy == pytest.approx(-(high - low) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_linear_response_is_the_derivative_of_the_means(kind: str) -> None:
    model, beta, step = machine(kind, scale=0.3), 0.8, 1e-5
    found = solve(model, beta)
    for i in range(model.n_units):
        low, high = (
            solve(
                bm.BoltzmannMachine(model.weights, model.flat_bias + sign * step * (np.arange(model.n_units) == i)),
                beta,
            )
            for sign in (-1, 1)
        )
        derivative = (high.mean - low.mean) / (2 * step * beta)
        np.testing.assert_allclose(found.covariance[i], derivative, atol=1e-7)


@pytest.mark.parametrize("kind", ["visible", "restricted", "sparse"])
def test_errors_are_of_third_order_in_the_couplings(kind: str) -> None:
    """Halving all couplings leaves about an eighth of the errors."""
    errors = []
    for scale in (0.01, 0.005, 0.0025):
        model = machine(kind, scale=scale, seed=2)
        found, truth = solve(model), machines.enumerate_machine(model)
        errors.append((abs(found.log_z - truth.log_z), np.abs(found.mean - truth.mean).max()))
    for coarse, fine in itertools.pairwise(errors):
        assert fine[0] < coarse[0] / 7 + 1e-14
        assert fine[1] < coarse[1] / 6 + 1e-14
    assert errors[0][0] > 1e-10


def test_it_is_nearer_than_mean_field_where_couplings_are_weak() -> None:
    for seed in range(10):
        model = machine("general", seed=seed, scale=0.2)
        truth, found, naive = (bm.infer(model, "exact"), solve(model), calm(bm.infer, model, "mean-field"))
        assert abs(found.log_z - truth.log_z) < abs(naive.log_z - truth.log_z)
        assert np.abs(found.mean - truth.mean).max() < np.abs(naive.mean - truth.mean).max()
        assert np.abs(found.covariance - truth.covariance).max() < np.abs(naive.covariance - truth.covariance).max()


def test_paramagnet_of_sherrington_and_kirkpatrick() -> None:
    """Above the transition m = 0 and log Z = n log 2 + beta^2 / 4 sum_ij W_ij^2, exactly so in the limit of many."""
    model = bm.models.sherrington_kirkpatrick(300, seed=2)
    found = solve(model, beta=0.5)
    assert found.converged
    np.testing.assert_allclose(found.mean, 0, atol=1e-8)
    expected = 300 * np.log(2) + 0.25 * 0.25 * (model.weights**2).sum()
    assert found.log_z == pytest.approx(expected, rel=1e-12)


def test_below_the_transition_solutions_that_hold_are_chosen() -> None:
    """m = 0 solves the equations there and has the higher log Z, but not by Plefka's criterion."""
    model = bm.models.sherrington_kirkpatrick(60, seed=4)
    zero, found = (solve(model, beta=2.5, n_starts=n) for n in (1, 8))
    assert zero.detail["plefka"] < 0
    assert not zero.converged
    assert found.converged
    assert found.detail["plefka"] > 0
    assert np.mean(found.mean**2) > 0.5
    with pytest.warns(bm.ConvergenceWarning, match="tap: the expansion behind the equations does not converge"):
        tap(model, beta=2.5, moments=False, n_starts=1)


def test_what_lies_below_a_certain_bound_has_not_converged() -> None:
    model = bm.models.random_machine(20, scale=10.0, bias_scale=5.0, seed=38)
    with pytest.warns(bm.ConvergenceWarning, match="38.3 nats below a bound that holds for certain"):
        found = tap(model, beta=1.0, moments=False)
    assert not found.converged and found.detail["plefka"] > 0.9
    assert found.log_z < bm.infer(model, "mean-field", moments=False).log_z - 38.0


def test_all_layouts_agree() -> None:
    layered = machine("layers", scale=0.4)
    weights, bias = machines.parameters(layered)
    dense = bm.BoltzmannMachine(weights, bias)
    sparse = bm.BoltzmannMachine(scipy.sparse.csr_array(weights), bias)
    first = solve(layered)
    for other in (dense, sparse):
        found = solve(other)
        assert found.log_z == pytest.approx(first.log_z, abs=1e-10)
        np.testing.assert_allclose(found.mean, first.mean, atol=1e-9)
        np.testing.assert_allclose(found.covariance, first.covariance, atol=1e-9)


@pairwise(kind=["visible", "restricted", "sparse"], units=UNITS, scale=[1e-12, 1.0, 30.0, 1e3])
def test_any_couplings_give_finite_numbers(kind: str, units: str, scale: float) -> None:
    for beta in (0.0, 1.0):
        found = solve(machine(kind, units, scale=scale, seed=5), beta)
        assert np.isfinite([found.log_z, found.energy, found.entropy, found.detail["residual"]]).all()
        assert np.isfinite(found.mean).all()
        assert found.covariance is None or np.isfinite(found.covariance).all()


def test_sweeps_that_run_out_are_told() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="tap did not converge.*max_sweeps"):
        found = tap(machine("visible"), beta=0.3, moments=False, max_sweeps=1)
    assert not found.converged


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_bits(threads: int) -> None:
    model = machine("general")
    machines.assert_same_inference(solve(model, threads=threads), solve(model, threads=1))
