"""Exact maximum likelihood in whitened coordinates: the metric against its definition, gradients, work, old records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.data.rows import Rows
from fastbm.learning.learners.likelihood import Likelihood
from fastbm.learning.optimise import coordinates, newton, rotation
from fastbm.learning.optimise.centring import Centring
from fastbm.learning.optimise.coordinates import Whitened, whitened
from fastbm.learning.optimise.lbfgs import Lbfgs, by_secants
from fastbm.learning.optimise.rotation import Rotation, gaussian
from fastbm.learning.training_set import Sample
from tests.support.learning import coupled_pairs, fit_task


def some_machine(n: int, units: str) -> bm.BoltzmannMachine:
    return bm.models.random_machine(n, scale=0.6, bias_scale=0.3, seed=3).to_units(units)


def some_data(model: bm.BoltzmannMachine, n_rows: int, *, weights: bool = False, seed: int = 1) -> Sample:
    generator = np.random.default_rng(seed)
    up = (generator.random((n_rows, model.n_units)) < generator.uniform(0.2, 0.8, model.n_units)).astype(np.uint8)
    return Sample(model, Rows.of(up), weights=generator.integers(0, 4, n_rows).astype(float) if weights else None)


def centred_statistics(sample: Sample) -> np.ndarray:
    """(s_i - mu_i)(s_j - mu_j) / (sigma_i sigma_j) of the coupled pairs, and (s_i - mu_i) / sigma_i, a row each."""
    values = sample.like.convention.values(sample.rows, np.float64)
    scaled = (values - sample.mean) / sample.spread
    pairs = [scaled[:, i] * scaled[:, j] for i, j in coupled_pairs(sample.like)]
    return np.stack([*pairs, *scaled.T], axis=1)


def metric_of(found: Whitened) -> np.ndarray:
    root = np.array([found.plain_slope(unit) for unit in np.eye(found.size)]).T
    return root @ root.T


def settings(model: bm.BoltzmannMachine, **changes: Any) -> Any:
    return fit_task(model, np.ones((2, model.n_visible)), **changes).settings


@pytest.mark.parametrize("units", ["spin", "binary"])
@pytest.mark.parametrize("sparse", [False, True])
def test_metric_is_the_covariance_of_centred_statistics(units: str, sparse: bool) -> None:
    model = some_machine(6, units)
    if sparse:
        kept = np.triu(np.random.default_rng(0).random((6, 6)) < 0.5, 1)
        model = bm.BoltzmannMachine(scipy.sparse.csr_matrix(model.weights * (kept + kept.T)), model.bias, units=units)
    sample = some_data(model, 150)  # no multiple of 64
    centring = Centring(model, sample.mean, sample.spread)
    found = whitened(model, sample, settings(model), centring)
    assert found is not None
    statistics = centred_statistics(sample)
    shrunk = np.cov(statistics.T, bias=True) + coordinates.SHRINKAGE * np.eye(statistics.shape[1])
    np.testing.assert_allclose(metric_of(found), shrunk, atol=1e-12)
    vector = np.random.default_rng(1).normal(size=found.size)
    np.testing.assert_allclose(found.back(found.into(vector)), vector, atol=1e-12)
    np.testing.assert_allclose(found.plain_slope(found.slope(vector)), vector, atol=1e-12)


@pytest.mark.parametrize("gaps", [False, True])
def test_coordinates_of_many_units_are_those_of_gaussian_ones(gaps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The squared length is the variance of sum D_ij x_i x_j + sum D_i x_i; gradients are those along the way back."""
    monkeypatch.setattr(rotation, "SMALLEST", 0.0)
    monkeypatch.setattr(rotation, "STRIP", 2)
    model = some_machine(5, "spin")
    sample = some_data(model, 400)
    if gaps:
        known = np.ones(sample.rows.shape, np.uint8)
        known[0, 0] = 0
        sample = Sample(model, Rows.of(sample.rows[:], known))
    centring = Centring(model, sample.mean, sample.spread)
    found = gaussian(sample, settings(model), centring, 2)
    assert found is not None
    pairs, draw = coupled_pairs(model), np.random.default_rng(2)
    vector, gradient, other = (draw.normal(size=size) for size in (len(pairs) + 5, len(pairs) + 5, found.size))
    correlations = np.corrcoef(model.convention.values(sample.rows[:], np.float64).T)
    x = draw.multivariate_normal(np.zeros(5), correlations, size=400_000)
    terms = np.stack([*(x[:, i] * x[:, j] for i, j in pairs), *x.T], axis=1)
    length = np.sum(found.into(vector) ** 2)
    assert length == pytest.approx(sample.known_part * np.var(terms @ vector), rel=0.02)
    assert found.slope(gradient) @ other == pytest.approx(gradient @ found.back(other))
    rotated = Rotation(correlations, 2)  # the squared length is four times tr(D C D) but for a ridge, D = back(x)
    np.testing.assert_allclose(rotated.back(rotated.into(vector[:-5])), vector[:-5])
    couplings = model.couplings.from_vector(vector[:-5])[0]
    length = np.sum(rotated.into(vector[:-5]) ** 2) - 2 * rotation.RIDGE * np.sum(couplings**2)
    assert length == pytest.approx(4 * np.trace(couplings @ correlations @ couplings))
    assert rotated.slope(gradient[:-5]) @ other[:-5] == pytest.approx(gradient[:-5] @ rotated.back(other[:-5]))


def test_penalty_is_part_of_the_metric() -> None:
    """v -> l2/2 sum W^2 + l2_bias/2 sum b^2 is a quadratic form; the metric holds its matrix."""
    model = some_machine(4, "binary")
    sample = some_data(model, 80)
    centring = Centring(model, sample.mean, sample.spread)
    some = {"l2": 0.3, "l2_bias": 0.2}
    free, held = (whitened(model, sample, settings(model, **one), centring) for one in ({}, some))
    assert free is not None and held is not None
    for seed in range(3):
        vector = np.random.default_rng(seed).normal(size=held.size)
        parameters = centring.parameters(vector)
        pairs = model.couplings.to_vector(parameters.weights)
        expected = 0.3 * pairs @ pairs + 0.2 * parameters.bias @ parameters.bias
        assert vector @ (metric_of(held) - metric_of(free)) @ vector == pytest.approx(expected, rel=1e-9)


def test_weighted_and_many_rows_are_thinned_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    model = some_machine(4, "spin")
    sample = some_data(model, 300, weights=True)
    assert sample.weights is not None
    repeated = Sample(model, Rows.of(np.repeat(sample.rows[:], sample.weights.astype(int), axis=0)))
    centring = Centring(model, sample.mean, sample.spread)
    close, exact = (whitened(model, one, settings(model), centring) for one in (sample, repeated))
    assert close is not None and exact is not None
    np.testing.assert_allclose(metric_of(close), metric_of(exact), atol=0.1)
    monkeypatch.setattr(coordinates, "MOST_ROWS", 100)
    up = np.repeat([[0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1]], 100, axis=0).astype(np.uint8)  # in order of the kind
    counts = np.unique(coordinates.some_rows(Sample(model, Rows.of(up))), axis=0, return_counts=True)[1]
    assert sorted(counts.tolist()) == [33, 33, 34]


def planted(n: int, beta: float) -> np.ndarray:
    model = bm.models.sherrington_kirkpatrick(n, seed=n)
    run = bm.sample(model, beta=beta, n_chains=100, n_sweeps=500, thin=10, burn_in=100, seed=2)
    return np.asarray(run.states.reshape(-1, n))


@pytest.mark.parametrize(("beta", "most", "most_of_moments"), [(0.5, 15, 20), (1.0, 25, 60)])
def test_few_evaluations_reach_a_small_gradient(
    beta: float, most: int, most_of_moments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, objective = [], Likelihood._objective
    monkeypatch.setattr(Likelihood, "_objective", lambda *given: calls.append(1) or objective(*given))
    rows = planted(15, beta)
    data = bm.Moments.of(rows, "spin")
    for given, limit in ((rows, most), (data, most_of_moments)):
        calls.clear()
        run = bm.fit(given, method="exact", tolerance=1e-8, evaluate="none", units="spin")
        assert run.converged
        assert len(calls) <= limit
        exact = bm.infer(run.model, "exact")
        np.testing.assert_allclose(exact.mean, data.mean, atol=2e-8)
        np.testing.assert_allclose(exact.second_moment, data.second_moment, atol=2e-8)


def test_fewer_rows_than_parameters_and_pairs_never_seen_are_no_obstacle() -> None:
    rows = some_data(some_machine(8, "binary"), 12).rows
    with pytest.warns(bm.ConvergenceWarning):
        bm.fit(rows, method="exact", epochs=20, evaluate="none")
    assert bm.fit(rows, method="exact", l2=0.01, l2_bias=0.01, tolerance=1e-9, evaluate="none").converged


def test_a_record_of_plain_coordinates_goes_on_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "MOST_NUMBERS", 0)
    model = some_machine(6, "spin")
    rows = model.convention.values(some_data(model, 200).rows)
    plain = fit_task(model, rows, epochs=40, tolerance=1e-9)
    plain.learner.driver.restore(fit_task(some_machine(6, "spin"), rows).learner.driver.state() | {"whitened": False})
    assert not isinstance(plain.learner.driver._coordinates, Whitened)  # type: ignore[attr-defined]


@pytest.mark.parametrize("penalty", [{}, {"l2": 0.1}])
def test_a_record_in_coordinates_of_an_older_version_is_made_anew(penalty: dict[str, float]) -> None:
    """A number for each pair and one for its mirror image; and scales that knew of no penalty."""
    model = some_machine(6, "spin")
    rows = model.convention.values(some_data(model, 200).rows)
    settings: dict[str, Any] = {"method": "pseudolikelihood", "epochs": 50, **penalty}
    older, newer = (fit_task(model, rows, **settings).learner.driver for _ in range(2))
    first, record = older.epoch(0), older.state()
    if penalty:
        del record["widened"]
    else:
        record |= {"optimizer/start": np.zeros(6 * 6 + 6), "optimizer/gradients": np.zeros((4, 6 * 6 + 6))}
    newer.restore(record | {"n_done": np.array(77)})
    np.testing.assert_array_equal(newer.parameters.bias, older.parameters.bias)
    assert first and newer.epoch(1) == older.epoch(1)


def test_too_many_parameters_keep_scaled_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinates, "MOST_PARAMETERS", 14)
    monkeypatch.setattr(newton, "MOST_NUMBERS", 0)
    model = some_machine(5, "spin")
    rows = model.convention.values(some_data(model, 200).rows)
    task = fit_task(model, rows, epochs=100, tolerance=1e-7)
    assert not isinstance(task.learner.driver._coordinates, Whitened)  # type: ignore[attr-defined]
    while not task.done:
        task.advance()
    assert task.learner.driver.converged


def quadratic(n: int) -> Any:
    matrix = np.random.default_rng(5).normal(size=(n, n))
    matrix = matrix @ matrix.T + np.eye(n)
    centre = np.arange(n, dtype=float)
    return matrix, lambda x: (1e6 + 0.5 * (x - centre) @ matrix @ (x - centre), matrix @ (x - centre))


def test_secant_steps_go_on_where_values_are_equal_to_rounding() -> None:
    """With 1e6 added, values tell changes of the point above 1e-5 only."""
    _, function = quadratic(8)
    plain = Lbfgs(function, np.zeros(8), 1e-9)
    plain.run(200)
    secant = Lbfgs(function, np.zeros(8), 1e-9, finish="secant")
    secant.run(200)
    assert not plain.converged and secant.converged
    again = Lbfgs(function, np.zeros(8), 1e-9, finish="secant")
    again.restore(secant.state())
    for one, other in zip(again.run(200), secant.run(200), strict=True):
        assert one[0].tobytes() == other[0].tobytes()


def test_secants_of_a_quadratic_invert_its_matrix() -> None:
    """Exact along all directions if the steps are conjugate: the two-loop recursion then is the inverse."""
    matrix, function = quadratic(4)
    point, directions = np.zeros(4), np.linalg.eigh(matrix)[1].T
    path = [(point, *function(point))]
    for direction in directions:
        point = point + direction
        path.append((point, *function(point)))
    gradient = np.random.default_rng(0).normal(size=4)
    np.testing.assert_allclose(by_secants(gradient, path), np.linalg.solve(matrix, gradient), rtol=1e-9)
