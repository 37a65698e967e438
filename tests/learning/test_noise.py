"""The noise of the moment error: against the spread over seeds, and against what is known of the data."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.phases.noise import MOST_PAIRS, MomentNoise, PairChoice
from tests.support import machines

QUIET: dict[str, Any] = {"evaluate": "none", "monitor_every": 1}
SEEDS = 40
NO_STEPS = 1e-12  # a learning rate at which parameters stay where they are


def glass(n: int, units: str, n_hidden: int = 0) -> bm.BoltzmannMachine:
    generator = np.random.default_rng(4)
    weights = np.triu(0.4 * generator.normal(size=(n, n)), 1)
    return bm.BoltzmannMachine(weights + weights.T, 0.3 * generator.normal(size=n), units=units, n_hidden=n_hidden)


# Which pairs


@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("kind", ["dense", "sparse", "layered", "deep"])
def test_pairs_are_coupled_and_picked(kind: str, n: int):
    generator = np.random.default_rng(0)
    if kind == "dense":
        model = glass(n, "spin")
    elif kind == "sparse":
        model = bm.models.ising((n // 2, 4))
    else:
        sizes = (n, 7) if kind == "layered" else (n, 7, 3)
        blocks = [generator.normal(size=(a, b)) for a, b in itertools.pairwise(sizes)]
        model = bm.BoltzmannMachine(blocks, units="binary")
    couplings = model.couplings
    pairs = PairChoice(couplings, seed=3)
    n_all = len(couplings.to_vector(couplings.arrays))
    i, j = pairs.units
    assert len(i) == min(n_all, MOST_PAIRS) == len({*zip(i.tolist(), j.tolist(), strict=True)})
    np.testing.assert_array_equal(pairs.pick(couplings.arrays), couplings.matrix()[i, j])
    assert (i < j).all()
    values = generator.normal(size=(9, model.n_units))
    sums = couplings.pair_sums(values)
    np.testing.assert_allclose(pairs.pick(sums), (values[:, i] * values[:, j]).sum(axis=0), atol=1e-12)


# Chains


def over_seeds(start: bm.BoltzmannMachine, rows: np.ndarray, **options: Any) -> np.ndarray:
    """The squares of moment_error and of moment_noise at the end of a run for each of 40 seeds, (40, 2)."""
    found = []
    for seed in range(SEEDS):
        run = bm.fit(rows, init=start, seed=seed, learning_rate=NO_STEPS, evaluate="none", **options)
        found.append([run.metrics[name][-1] ** 2 for name in ("moment_error", "moment_noise")])
    return np.array(found)


@pytest.mark.filterwarnings("ignore:free chains do not mix")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("restricted", {"batch_size": 250}), ("binary", {"free": "restarted", "n_sweeps": 4}),
        pytest.param("spin", {"n_sweeps": 3, "n_chains": 31}, marks=pytest.mark.slow),
        pytest.param("restricted", {"free": "tempering", "n_betas": 3}, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_noise_of_chains_is_their_spread_over_seeds(kind: str, options: dict[str, Any]):
    """The mean of moment_error^2 over seeds is the systematic gap's square plus the chains' variance; the gap is known
    exactly, as the parameters stand still.
    """
    weights = np.random.default_rng(2).normal(size=(7, 4))
    start = bm.models.restricted(weights=weights, units="binary") if kind == "restricted" else glass(7, kind)
    n_rows = 1_000
    rows = bm.sample(start, sampler="exact", n_chains=n_rows, n_sweeps=1).states[0][:, : start.n_visible]
    exact, data = gap_of(start, rows)
    common = {"n_chains": 20, "epochs": 8, "method": "pcd", "batch_size": 1_000, "monitor_every": 8, "weights_every": 0}
    squares, noises = over_seeds(start, rows, **common | options).T
    difference = (squares - exact) - (noises - data)
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(SEEDS)
    assert difference.std() / np.sqrt(SEEDS) < 0.3 * (noises - data).mean(), "what is tested is told to a third"


def gap_of(start: bm.BoltzmannMachine, rows: np.ndarray) -> tuple[float, float]:
    """Mean squares over pairs of the exact gap of both phases, and of the data's standard errors."""
    free = bm.infer(start, "exact").second_moment
    states = rows.astype(float)
    if start.n_hidden:
        states = np.concatenate([states, bm.transform(start, rows)], axis=1)
    clamped = states.T @ states / len(states)
    i, j = np.triu_indices(start.n_units, 1)
    coupled = start.couplings.matrix()[i, j] != 0
    i, j = i[coupled], j[coupled]
    low = -1 if start.units == "spin" else 0
    data = (1 - clamped[i, j]) * (clamped[i, j] - low) / len(rows)
    return float(np.mean((clamped - free)[i, j] ** 2)), float(data.mean())


# Data


@pytest.mark.parametrize("units", ["binary", "spin"])
def test_without_chains_the_noise_is_the_datas(units: str):
    start = glass(5, units)
    rows = bm.sample(start, sampler="exact", n_chains=300, n_sweeps=1, beta=0.5).states[0]
    for method, options in (("exact", {"optimizer": "sgd"}), ("mean-field", {})):
        run = bm.fit(rows, init=start, method=method, epochs=2, learning_rate=NO_STEPS, **options, **QUIET)
        products = np.stack([rows[:, i] * rows[:, j] for i, j in zip(*np.triu_indices(5, 1), strict=True)], axis=1)
        errors = products.astype(float).std(axis=0) / np.sqrt(len(rows))
        assert run.metrics["moment_noise"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)


def test_weighted_rows_and_moments_count_for_what_they_are_worth():
    start = glass(5, "binary")
    rows = bm.sample(start, sampler="exact", n_chains=200, n_sweeps=1).states[0]
    options = {"init": start, "method": "exact", "optimizer": "sgd", "epochs": 1, "learning_rate": NO_STEPS, **QUIET}

    def noise(data: Any, **more: Any) -> float:
        return float(bm.fit(data, **options, **more).metrics["moment_noise"][-1])

    plain = noise(rows)
    half = np.repeat([1.0, 0.0], 100)
    assert noise(rows, row_weights=half) == pytest.approx(noise(rows[:100]))
    moments = bm.Moments.of(rows, units="binary")
    assert noise(moments) == pytest.approx(plain)
    known = bm.Moments(moments.mean, moments.second_moment, units="binary")
    assert noise(known) == 0.0


def test_one_chain_tells_no_noise_and_no_pairs_have_none():
    rows = (np.random.default_rng(0).random((40, 4)) < 0.5).astype(np.uint8)
    assert np.isnan(bm.fit(rows, n_chains=1, epochs=2, **QUIET).metrics["moment_noise"]).all()
    assert (bm.fit(rows[:, :1], epochs=2, **QUIET).metrics["moment_noise"] == 0).all()


def test_an_epoch_in_pieces_is_an_epoch():
    model, generator = glass(6, "spin"), np.random.default_rng(0)
    whole, first = (MomentNoise(model, 0, 50, own_chains=True) for _ in range(2))
    values = [model.convention.values(generator.integers(0, 2, (7, 6)), np.float32) for _ in range(4)]
    for k, states in enumerate(values):
        if k == 2:
            second = MomentNoise(model, 0, 50, own_chains=True)
            second.restore(first.state())
            first = second
        for noise in (whole, first):
            noise.add_values(states)
            noise.add_clamped(model.couplings.pair_sums(states / 7))
    both = whole.take(), first.take()
    assert both[0] == both[1] > 0
    assert not any(array.any() for array in first.state().values())


@pytest.mark.parametrize("n_chains", [5, 6])
def test_chains_of_blocks_that_begin_at_odd_numbers_count_as_what_they_are(n_chains: int) -> None:
    rows = np.random.default_rng(0).choice([-1, 1], (300, 200))
    about = {"epochs": 2, "n_chains": n_chains, "n_sweeps": 100, "evaluate": "none", "seed": 1}
    one, two = (machines.calm(bm.fit, rows, "pcd", threads=threads, **about) for threads in (1, 2))
    assert np.array_equal(one.model.weights, two.model.weights)
    for name, values in one.metrics.items():
        assert np.array_equal(values, two.metrics[name], equal_nan=True), name
