"""Belief propagation: exact on trees, closed forms on rings, finite differences, and honesty about convergence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.inference.fixed_point import bethe as module
from fastbm.inference.fixed_point.bethe import Bethe
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import KINDS, UNITS, calm, machine
from tests.twins import fixed_point as twin

SCALES = [1e-12, 0.5, 1.0, 30.0, 1e3]


def solve(model: bm.BoltzmannMachine, beta: float = 1.0, **options: Any) -> bm.Inference:
    return calm(bethe, model, **{"beta": beta, **options})


def bethe(
    model: bm.BoltzmannMachine, *, beta: float, moments: bool = True, threads: int = 1, **own: Any
) -> bm.Inference:
    return Bethe(**own).run(model, beta=beta, moments=moments, seed=0, threads=threads)


def tree(n: int, seed: int, *, scale: float = 1.0, units: str = "spin", parts: int = 1) -> bm.BoltzmannMachine:
    """A random forest of `parts` trees with random couplings and biases, units in random order."""
    generator = np.random.default_rng([n, seed])
    child = np.arange(parts, n)
    parent = np.array([generator.integers(0, k) for k in child], int)
    order = generator.permutation(n)
    upper = scipy.sparse.coo_array(
        (generator.normal(scale=scale, size=len(child)), (order[child], order[parent])), shape=(n, n)
    )
    return bm.BoltzmannMachine(
        (upper + upper.T).tocsr(), generator.normal(scale=scale, size=n), units=units, offset=1.5
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("units", UNITS)
def test_small_trees_are_exact(units: str, scale: float) -> None:
    for seed, parts in enumerate((1, 3)):
        model = tree(8, seed, scale=scale, units=units, parts=parts)
        found, truth = solve(model, 0.8), machines.enumerate_machine(model, 0.8)
        assert found.converged
        assert found.detail["tree"]
        assert found.log_z == pytest.approx(truth.log_z, rel=1e-12)
        assert found.energy == pytest.approx(truth.energy, rel=1e-10, abs=1e-10)
        assert found.entropy == pytest.approx(truth.entropy, abs=1e-9 * max(1.0, scale))
        np.testing.assert_allclose(found.mean, truth.mean, atol=1e-11)
        np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=1e-11)
        covariance = truth.second_moment - np.outer(truth.mean, truth.mean)
        np.testing.assert_allclose(found.covariance, covariance, atol=1e-11)


@pytest.mark.parametrize("n", [10, 100, pytest.param(1000, marks=pytest.mark.slow)])
def test_large_trees_are_exact(n: int) -> None:
    model = tree(n, seed=7)
    spin_weights, bias = machines.parameters(model)
    found = solve(model)
    assert found.log_z == pytest.approx(twin.tree_log_z(spin_weights, bias, 1.0) - 1.5, rel=1e-12)
    for unit in (0, n // 2):
        step = 1e-5 * (np.arange(n) == unit)
        sides = [bm.BoltzmannMachine(model.weights, bias + sign * step) for sign in (-1, 1)]
        low, high = (solve(side) for side in sides)
        rise = twin.tree_log_z(spin_weights, bias + step, 1.0) - twin.tree_log_z(spin_weights, bias - step, 1.0)
        assert found.mean[unit] == pytest.approx(rise / 2e-5, abs=1e-7)
        np.testing.assert_allclose(found.covariance[unit], (high.mean - low.mean) / 2e-5, atol=1e-8)


def test_trees_take_one_sweep_forth_and_back_in_any_layout() -> None:
    assert solve(tree(500, seed=1)).detail["n_sweeps"] <= 3
    star = bm.BoltzmannMachine([np.full((6, 1), 0.9)], [np.linspace(-1, 1, 6), [0.3]])
    found, truth = solve(star), machines.enumerate_machine(star)
    assert found.log_z == pytest.approx(truth.log_z, rel=1e-12)
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=1e-11)


@pytest.mark.parametrize(("coupling", "bias", "beta"), [(0.5, 0.3, 1.0), (1.5, -0.2, 0.7), (0.2, 2.0, 3.0)])
def test_uniform_rings_have_the_free_energy_of_the_transfer_matrix(coupling: float, bias: float, beta: float) -> None:
    n = 9
    weights = coupling * (np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))
    found = solve(bm.BoltzmannMachine(scipy.sparse.csr_array(weights), np.full(n, bias)), beta)
    assert found.converged
    assert found.log_z == pytest.approx(twin.ring_log_z(n, coupling, bias, beta), rel=1e-12)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_log_z_is_that_of_the_twin_at_a_fixed_point(kind: str, units: str) -> None:
    model = machine(kind, units, scale=0.3, offset=-1.0)
    found, spin = solve(model), model.to_units("spin")
    weights, bias = machines.parameters(spin)
    n = spin.n_units
    messages = {(j, i): 0.0 for i in range(n) for j in twin.neighbours(weights, i)}
    while twin.sweep_beliefs(messages, weights, bias, 1.0, range(n), 0.0) > 1e-13:
        pass
    assert found.converged
    assert found.bound is None
    assert found.log_z == pytest.approx(twin.bethe_log_z(messages, weights, bias, 1.0) - spin.offset, rel=1e-11)
    means = [np.tanh(bias[i] + sum(messages[j, i] for j in twin.neighbours(weights, i))) for i in range(n)]
    np.testing.assert_allclose(found.mean if units == "spin" else 2 * found.mean - 1, means, atol=1e-9)


def test_energy_is_the_derivative_of_log_z() -> None:
    model = machine("sparse", scale=0.5, offset=0.7)
    low, high = (solve(model, beta=1.0 + step).log_z for step in (-1e-5, 1e-5))
    assert solve(model).energy == pytest.approx(-(high - low) / 2e-5, abs=1e-8)


@pytest.mark.parametrize("strong", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_linear_response_is_the_derivative_of_the_means(kind: str, strong: bool) -> None:
    """Also with one coupling so strong that responses are propagated and no matrix is inverted."""
    model, beta, step = machine(kind, scale=0.3), 0.8, 1e-5
    weights, bias = machines.parameters(model)
    if strong:
        i, j = np.argwhere(weights)[0]
        weights = np.array(weights)
        weights[i, j] = weights[j, i] = 20.0

    def at(field: np.ndarray) -> bm.Inference:
        return solve(bm.BoltzmannMachine(scipy.sparse.csr_array(weights), field), beta)

    found = at(bias)
    assert found.converged
    for unit in range(len(bias)):
        change = step * (np.arange(len(bias)) == unit)
        derivative = (at(bias + change).mean - at(bias - change).mean) / (2 * step * beta)
        np.testing.assert_allclose(found.covariance[unit], derivative, atol=1e-7)


def test_it_is_nearer_than_mean_field_where_couplings_are_weak() -> None:
    for seed in range(10):
        model = machine("sparse", seed=seed, scale=0.25)
        truth, found, naive = (bm.infer(model, "exact"), solve(model), calm(bm.infer, model, "mean-field"))
        assert abs(found.log_z - truth.log_z) < abs(naive.log_z - truth.log_z)
        assert np.abs(found.mean - truth.mean).max() < np.abs(naive.mean - truth.mean).max()


def test_all_layouts_agree() -> None:
    layered = machine("layers", scale=0.4)
    weights, bias = machines.parameters(layered)
    first = solve(layered)
    for other in (weights, scipy.sparse.csr_array(weights)):
        machines.assert_same_inference(solve(bm.BoltzmannMachine(other, bias)), first)


def test_the_ordered_phase_is_found() -> None:
    model = bm.models.ising((6, 6))
    one, many = (solve(model, 0.6, n_starts=n) for n in (1, 8))
    assert one.log_z == pytest.approx(many.log_z, rel=1e-12)
    assert np.abs(one.mean).min() > 0.9 and np.abs(many.mean).min() > 0.9
    assert 0 < many.detail["starts converged"] <= many.detail["n_starts"] == 8
    assert len(many.detail["log_z of all starts"]) == 8


def test_messages_that_do_not_settle_are_told() -> None:
    glass = bm.models.edwards_anderson((6, 6), seed=1)
    model = bm.BoltzmannMachine(glass.weights, np.linspace(-0.5, 0.5, 36))
    with pytest.warns(bm.ConvergenceWarning, match="bethe did not converge.*damping"):
        found = Bethe(max_sweeps=3).run(model, beta=1.0, moments=False, seed=0, threads=1)
    assert not found.converged
    assert found.detail["starts converged"] == 0
    assert np.isfinite(found.log_z)


@pairwise(kind=["visible", "restricted", "sparse"], units=UNITS, scale=SCALES)
def test_any_couplings_give_finite_numbers(kind: str, units: str, scale: float) -> None:
    for beta in (0.0, 1.0):
        found = solve(machine(kind, units, scale=scale, seed=5), beta, max_sweeps=100)
        assert np.isfinite([found.log_z, found.energy, found.entropy, found.detail["residual"]]).all()
        assert np.isfinite(found.mean).all()
        assert found.covariance is None or np.isfinite(found.covariance).all()


def test_units_without_couplings_are_exact() -> None:
    model = bm.BoltzmannMachine(np.zeros((4, 4)), [0.5, -1.0, 0.0, 1e4], units="binary", offset=1.0)
    found, truth = solve(model, 1.3), bm.infer(model, "exact", beta=1.3)
    assert found.log_z == pytest.approx(truth.log_z, rel=1e-12)
    np.testing.assert_allclose(found.covariance, truth.covariance, atol=1e-12)


def test_large_sparse_machines_have_moments_on_their_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tree(60, seed=2, units="binary")
    whole = solve(model)
    monkeypatch.setattr(module, "DENSE_LIMIT", 50)
    found = solve(model)
    places = (np.asarray(abs(model.weights).todense()) > 0) | np.eye(60, dtype=bool)
    for part, full in ((found.covariance, whole.covariance), (found.second_moment, whole.second_moment)):
        np.testing.assert_allclose(part.toarray(), np.where(places, full, 0.0), atol=1e-12)
        assert part.nnz == places.sum()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_do_not_change_bits(threads: int) -> None:
    model = machine("general")
    machines.assert_same_inference(solve(model, threads=threads, n_starts=20), solve(model, n_starts=20))


def test_messages_sent_some_at_a_time_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("general")
    whole = solve(model)
    monkeypatch.setattr(module, "AT_ONCE", 16)
    machines.assert_same_inference(solve(model), whole)


def test_fixed_points_that_are_unstable_are_left() -> None:
    model = bm.models.random_machine(20, seed=2)  # without fields: no beliefs at all are a fixed point, far off
    for beta in (2.0, 4.0):
        found = bm.infer(model, "bethe", beta=beta, moments=False)
        assert found.converged
        assert abs(found.log_z - bm.infer(model, "exact", beta=beta, moments=False).log_z) < 1.0


@pytest.mark.parametrize("method", ["bethe", "tap"])
def test_a_negative_entropy_is_no_solution(method: str) -> None:
    generator = np.random.default_rng(8)
    weights = np.triu(generator.normal(size=(12, 12)), 1)
    model = bm.BoltzmannMachine(weights + weights.T, 0.3 * generator.normal(size=12))
    found = calm(bm.infer, model, method)
    assert found.converged is not (found.entropy < 0)
    assert method == "tap" or "entropy of -9.15" in found.detail["doubt"]
