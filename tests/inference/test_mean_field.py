"""Mean field against exact sums: bounds on the right side, and honesty about convergence."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.inference.fixed_point.mean_field import respond, solve
from fastbm.machine.couplings import Dense
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import KINDS, UNITS, calm, machine
from tests.twins import fixed_point as twin


@pairwise(kind=KINDS, units=UNITS, beta=[0.0, 0.3, 1.0, 3.0])
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
    coupled = machines.parameters(model)[0][pairs] != 0
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


@pairwise(kind=KINDS, units=UNITS, beta=[0.3, 1.0, 3.0])
def test_the_equations_are_solved_and_the_bound_is_that_of_the_twin(kind: str, units: str, beta: float) -> None:
    model = machine(kind, units, offset=-2.0)
    found, spin = calm(bm.infer, model, "mean-field", beta=beta), model.to_units("spin")
    weights, bias = machines.parameters(spin)
    means = (found.mean if units == "spin" else 2 * found.mean - 1).tolist()
    assert found.converged
    assert twin.mean_field_residual(means, weights, bias, beta) < 1e-10
    expected = twin.mean_field_log_z(means, weights, bias, beta) - beta * spin.offset
    assert found.log_z == pytest.approx(expected, rel=1e-11)


def test_the_bound_holds_on_many_machines() -> None:
    for seed in range(150):
        generator = np.random.default_rng(seed)
        upper = np.triu(generator.normal(scale=10.0 ** generator.uniform(-2, 1), size=(16, 16)), 1)
        model = bm.BoltzmannMachine(upper + upper.T, generator.normal(scale=generator.uniform(0, 2), size=16))
        found = calm(bm.infer, model, "mean-field", moments=False, n_starts=2, seed=seed)
        truth = bm.infer(model, "exact", moments=False).log_z
        assert found.log_z <= truth + 1e-10 * max(1.0, abs(truth))


@pytest.mark.parametrize("kind", KINDS)
def test_linear_response_is_the_derivative_of_the_means(kind: str) -> None:
    model, beta, step = machine(kind, scale=0.3), 0.8, 1e-5
    weights, bias = machines.parameters(model)
    found = bm.infer(model, "mean-field", beta=beta)

    def means(field: np.ndarray) -> np.ndarray:
        return np.asarray(bm.infer(bm.BoltzmannMachine(weights, field), "mean-field", beta=beta).mean)

    for unit in range(len(bias)):
        change = step * (np.arange(len(bias)) == unit)
        derivative = (means(bias + change) - means(bias - change)) / (2 * step * beta)
        np.testing.assert_allclose(found.covariance[unit], derivative, atol=1e-7)


def test_all_layouts_agree() -> None:
    layered = machine("layers", scale=0.4)
    weights, bias = machines.parameters(layered)
    first = bm.infer(layered, "mean-field")
    for other in (weights, scipy.sparse.csr_array(weights)):
        found = bm.infer(bm.BoltzmannMachine(other, bias), "mean-field")
        assert found.log_z == pytest.approx(first.log_z, abs=1e-10)
        np.testing.assert_allclose(found.mean, first.mean, atol=1e-9)
        np.testing.assert_allclose(found.covariance, first.covariance, atol=1e-8)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("method", ["mean-field", "tap", "bethe"])
def test_clamped_machines_are_the_machines_of_their_free_units(method: str, units: str) -> None:
    model = machine("general", units, offset=0.5)
    low, values = model.convention.lo, [[1, 1], [1, model.convention.lo]]
    found = calm(bm.infer, model, method, clamp=([1, 3], values))
    for k, pattern in enumerate(values):
        alone = calm(bm.infer, model.condition([1, 3], pattern), method)
        free = np.delete(np.arange(model.n_units), [1, 3])
        assert found.log_z[k] == pytest.approx(alone.log_z, abs=1e-8)
        np.testing.assert_allclose(found.mean[k][free], alone.mean, atol=1e-7)
        assert found.mean[k][[1, 3]].tolist() == pattern
        np.testing.assert_allclose(found.covariance[k][np.ix_(free, free)], alone.covariance, atol=1e-6)
        assert not found.covariance[k][[1, 3]].any()
    everything = calm(bm.infer, model, method, clamp=(np.arange(model.n_units), np.full(model.n_units, low)))
    assert everything.log_z == pytest.approx(-model.energy(np.full(model.n_units, low)), rel=1e-12)


@pytest.mark.parametrize("method", ["mean-field", "tap", "bethe"])
def test_large_sparse_machines_have_moments_on_their_edges(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also clamped: pairs with a clamped unit are there where they are coupled."""
    model = machine("sparse", "binary", scale=0.5)
    clamp = ([0, 2], [1, 0])
    whole = [bm.infer(model, method, clamp=c) for c in (None, clamp)]
    for module in ("response", "bethe"):
        monkeypatch.setattr(f"fastbm.inference.fixed_point.{module}.DENSE_LIMIT", 3)
    coupled = (machines.parameters(model)[0] != 0) | np.eye(model.n_units, dtype=bool)
    for full, given in zip(whole, (None, clamp), strict=True):
        found = bm.infer(model, method, clamp=given)
        assert found.second_moment.nnz == found.covariance.nnz == coupled.sum()
        second = np.where(coupled, full.second_moment, 0.0)
        if method != "bethe":  # there pairs have the covariances of their beliefs
            np.testing.assert_allclose(found.second_moment.toarray(), second, atol=1e-11)
            np.testing.assert_allclose(found.covariance.toarray(), np.where(coupled, full.covariance, 0), atol=1e-11)
        else:
            np.testing.assert_allclose(found.second_moment.toarray(), second, atol=0.05)


def test_saddles_are_left_for_a_maximum() -> None:
    """A glass of 300 spins: the sweeps come to rest slowly, and what Newton's method finds is stable."""
    glass = bm.models.sherrington_kirkpatrick(300, seed=1)
    model = bm.BoltzmannMachine(glass.weights, 0.1 * np.random.default_rng(0).normal(size=300))
    for beta in (0.7, 1.0, 5.0):
        found = bm.infer(model, "mean-field", beta=beta)
        assert found.converged
        assert found.covariance is not None
        weights, bias = machines.parameters(model)
        assert np.abs(np.tanh(beta * (weights @ found.mean + bias)) - found.mean).max() < 1e-10


@pytest.mark.parametrize("method", ["mean-field", "tap"])
def test_sweeps_cut_into_parts_are_the_same(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("general")
    whole = calm(bm.infer, model, method)
    monkeypatch.setattr("fastbm.machine.couplings.protocol.BLOCK", 8)
    machines.assert_same_inference(calm(bm.infer, model, method), whole)


@pytest.mark.parametrize("method", ["mean-field", "tap"])
def test_covariances_that_would_take_hours_are_refused(method: str) -> None:
    model = bm.models.ising((60, 60, 60))
    with pytest.raises(ValueError, match=r'no narrow separators\. Pass moments=False, or use "bethe"'):
        bm.infer(model, method, beta=0.1)
    assert bm.infer(model, method, beta=0.1, moments=False, n_starts=1).converged


@pytest.mark.parametrize("kind", ["visible", "layers", "sparse"])
def test_what_mean_field_leaves_out_to_second_order(kind: str) -> None:
    model, beta = machine(kind, "spin", seed=3), 0.02
    found = bm.infer(model, "mean-field", beta=beta)
    lacks = bm.infer(model, "exact", beta=beta).log_z - found.log_z
    assert found.detail["left_out"] == pytest.approx(lacks, rel=0.05)


@pytest.mark.parametrize("n", [30, 60])  # inverted together, and one by one
def test_responses_of_many_rows_are_at_maxima(n: int) -> None:
    """From means of 0 a few of 200 rows come to saddles, where linear response would have negative variances."""
    generator, beta, shares = np.random.default_rng(1), 1.3, np.full(200, 0.005)
    weights = np.triu(generator.normal(scale=n**-0.5, size=(n, n)), 1)
    weights, bias = weights + weights.T, generator.normal(scale=0.3, size=(n, 200))
    about = {"tolerance": 1e-8, "max_sweeps": 1000}
    means, covariance = respond(Dense(weights), bias, beta, shares, **about)

    def curvatures(means: np.ndarray) -> np.ndarray:
        return np.stack([np.diag(1.0 / (1.0 - m**2)) - beta * weights for m in means.T])

    plain = solve(Dense(weights), bias, beta, np.zeros_like(bias), damping=0.0, **about).means
    assert (np.linalg.eigvalsh(curvatures(plain)) < 0.0).any()
    assert (np.linalg.eigvalsh(curvatures(means)) > 0.0).all()
    np.testing.assert_allclose(means, np.tanh(beta * (weights @ means + bias)), atol=1e-6)
    np.testing.assert_allclose(covariance, np.linalg.inv(curvatures(means)).mean(axis=0), rtol=1e-6, atol=1e-9)
