"""Mean field by way of couplings in 16 bits: kernels against plain sums, solutions against those without a draft."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.fixed_point import large
from fastbm.inference.fixed_point.large import DraftEquations, Rounded
from fastbm.kernels.inference.mean_field import add_rounded, round_rows
from fastbm.machine.couplings import Dense


def glass(n: int, seed: int, bias: float) -> bm.BoltzmannMachine:
    weights = bm.models.sherrington_kirkpatrick(n, seed=seed).weights
    return bm.BoltzmannMachine(weights, bias * np.random.default_rng(seed).normal(size=n))


def test_rows_are_rounded_and_added():
    generator = np.random.default_rng(0)
    for n, m in ((1, 1), (8, 3), (21, 40)):
        weights, right = generator.normal(size=(n, m)), generator.normal(size=n).astype(np.float32)
        scale = np.abs(weights).max() / 32767
        found, product = np.empty((n, m), np.int16), np.full(m, 7, np.float32)
        round_rows(found, weights, scale)
        assert np.array_equal(found, np.round(weights / scale).astype(int))
        add_rounded(product, found, right)
        expected = found.T.astype(float) @ right.astype(float)
        assert np.abs(product - expected).max() <= 4 * n * 2.0**-24 * 32767 * np.abs(right).max()


def test_only_couplings_of_like_size_are_rounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large, "LEAST_UNITS", 30)

    def of(weights: np.ndarray, bias: float = 0.0, beta: float = 1.0) -> Rounded | None:
        return Rounded.of(Dense(weights), np.full((1, len(weights)), bias), beta, 1)

    weights = np.array(glass(40, 1, 0.0).weights)
    draft = of(weights)
    assert draft is not None
    assert np.abs(draft.scale * draft.matrix() - weights).max() <= 0.5001 * draft.scale
    assert of(weights[:29, :29]) is None
    assert of(np.zeros((40, 40))) is None
    assert of(weights, bias=1e40) is None
    assert of(weights, beta=1e-40) is None
    assert of(weights, beta=1e40) is None
    uneven = weights.copy()
    uneven[0, 1] = uneven[1, 0] = 1e4
    assert of(uneven) is None


@pytest.mark.parametrize(("beta", "bias"), [(0.3, 0.3), (0.6, 0.5), (1.5, 0.1)])
def test_the_draft_changes_nothing_but_the_time(beta: float, bias: float):
    model = glass(600, 3, bias)
    found = bm.infer(model, "mean-field", beta=beta, n_starts=2)
    with mock.patch.object(large, "LEAST_UNITS", 10**9):
        plain = bm.infer(model, "mean-field", beta=beta, n_starts=2)
    for result in (found, plain):
        assert result.converged
        fields = model.weights @ result.mean + model.bias
        assert np.abs(np.tanh(beta * fields) - result.mean).max() <= 1e-10
    if beta < 1:  # one solution: the two must meet
        assert found.log_z == pytest.approx(plain.log_z, abs=1e-9)
        assert np.abs(found.covariance - plain.covariance).max() < 1e-8
    else:
        assert abs(found.log_z / plain.log_z - 1) < 0.01


def test_bits_do_not_depend_on_threads():
    model = glass(600, 4, 0.2)
    found = [
        bm.infer(model, "mean-field", beta=0.9, n_starts=5, threads=threads, moments=False) for threads in (1, 2, 3)
    ]
    assert len({result.log_z for result in found}) == 1
    assert all(np.array_equal(found[0].mean, other.mean) for other in found)


def test_draft_equations_are_those_of_the_machine():
    model = glass(520, 5, 0.3)
    means = np.random.default_rng(1).uniform(-1, 1, (2, 520))
    draft = Rounded.of(model.couplings, model.flat_bias[None], 0.7, 1)
    assert draft is not None
    equations = DraftEquations(draft, model.flat_bias[None], 0.7, means)
    expected = 0.7 * (means @ model.weights + model.bias)
    assert np.abs(equations.arguments() - expected).max() < 1e-3 * np.abs(expected).max()
    assert np.abs(draft.scale * equations.pulled(means[0]) - model.weights @ means[0]).max() < 5e-3
    assert np.array_equal(draft.coarse, np.minimum((draft.array.astype(int) + 128) // 256, 127))
    equations.curvature(means[0], np.sqrt(1 - means[0] ** 2))  # from far away, where eight bits do
    rough = draft.scale * equations.pulled(means[0]) - model.weights @ means[0]
    assert 1e-3 < np.abs(rough).max() < 0.5
