"""I_2 / I_N: machines of pairs and of triples, error bars that know of time, and refusals."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fastbm as bm


def draws(p: np.ndarray, n_units: int, n_rows: int, seed: int) -> np.ndarray:
    states = np.array(list(itertools.product((0, 1), repeat=n_units)), np.uint8)
    return states[np.random.default_rng(seed).choice(len(p), n_rows, p=p)]


def test_entropies_are_those_of_the_distribution() -> None:
    """Parity of three units, mixed with independent ones: pairs explain nothing, and of a pairwise machine all."""
    states = np.array(list(itertools.product((0, 1), repeat=3)))
    p = np.where(states.sum(axis=1) % 2, 0.22, 0.03)
    found = bm.pair_information(draws(p, 3, 20_000, 0), n_resamples=20)
    assert found.data == pytest.approx(-(p * np.log(p)).sum(), abs=0.01)
    assert found.independent == pytest.approx(3 * np.log(2.0), abs=0.001)
    with ThreadPoolExecutor(2) as pool:
        assert bm.pair_information(draws(p, 3, 20_000, 0), n_resamples=20, executor=pool) == found
    assert found.i_2 == pytest.approx(0.0, abs=0.001) and found.ratio == pytest.approx(0.0, abs=0.01)
    model = bm.models.curie_weiss(5, coupling=1.5)
    states = np.array(list(itertools.product((-1, 1), repeat=5)))
    p = np.exp(-model.energy(states) - bm.infer(model, "exact").log_z)
    found = bm.pair_information(draws(p, 5, 20_000, 1), n_resamples=20)
    entropy = bm.infer(model, "exact").entropy
    assert found.pairwise == pytest.approx(entropy, abs=0.02) and found.data == pytest.approx(entropy, abs=0.02)
    assert abs(found.ratio - 1.0) < 4 * found.ratio_error
    assert found.block <= 10


def test_the_bias_of_few_rows_is_taken_off() -> None:
    """A pairwise machine of units that are seldom up: its ratio is 1, and 2,000 rows tell 0.6 of it by themselves."""
    generator = np.random.default_rng(1)
    weights = np.triu(generator.normal(0.3, 1.0, (10, 10)), 1)
    model = bm.BoltzmannMachine(weights + weights.T, generator.normal(-3.5, 0.3, 10), units="binary")
    sets = bm.sample(model, "exact", n_chains=2000, n_sweeps=6, seed=2).states
    found, true = [], bm.infer(model, "exact")
    for rows in sets:
        with pytest.warns(bm.ConvergenceWarning, match="2000 rows, worth 2000, are too few .* the ratio is 0.[5-7]"):
            found.append(bm.pair_information(rows, block=1, n_resamples=10))
    ratio, bias, error = np.mean([[one.ratio, one.bias, one.ratio_error] for one in found], axis=0)
    assert ratio + bias < 0.75 and abs(ratio - 1.0) < 0.15 and error < 0.2
    assert sum(abs(one.ratio - 1.0) < 2.0 * one.ratio_error for one in found) >= 5
    p = true.mean
    i_n = -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum() - true.entropy
    assert sum(abs(one.i_n - i_n) < 2.0 * one.i_n_error for one in found) >= 5
    assert np.mean([one.i_n_error for one in found]) < 0.6 * i_n
    one = found[0]
    assert one.ratio == pytest.approx(one.i_2 / one.i_n) and one.i_n == pytest.approx(one.independent - one.data)
    many = bm.sample(model, "exact", n_chains=1, n_sweeps=100_000, seed=3).states[:, 0]
    assert abs(bm.pair_information(many, block=1, n_resamples=2).bias) < 0.05


@pytest.mark.parametrize("seed", range(2))
def test_the_bias_is_taken_off_where_pairs_are_not_all(seed: int) -> None:
    """Ten units that fire more often together at times: pairs explain 0.93 of it, and 2,000 rows tell 0.56."""
    generator = np.random.default_rng(seed)
    often, seldom = np.full(10, 0.35), np.full(10, 0.06)
    rows = generator.random((2000, 10)) < np.where(generator.random((2000, 1)) < 0.15, often, seldom)
    with pytest.warns(bm.ConvergenceWarning, match="too few"):
        found = bm.pair_information(rows, block=1, n_resamples=10)
    states = np.array(list(itertools.product((0, 1), repeat=10)))
    p = sum(w * np.where(states, up, 1 - up).prod(axis=1) for w, up in ((0.15, often), (0.85, seldom)))
    run = bm.fit(states, "exact", row_weights=p * 1e4, units="binary", l2=1e-9, evaluate="exact")
    up = p @ states
    independent = -(up * np.log(up) + (1 - up) * np.log(1 - up)).sum()
    i_n = independent + (p * np.log(p)).sum()
    true = (independent + run.evaluation["log_likelihood"][-1]) / i_n
    assert abs(found.ratio - true) < 2.0 * found.ratio_error < 0.3


def test_of_triples_the_bias_is_small() -> None:
    states = np.array(list(itertools.product((0, 1), repeat=3)))
    p = np.where(states.sum(axis=1) % 2, 0.22, 0.03)
    found = bm.pair_information(draws(p, 3, 1000, 4), n_resamples=10)
    assert abs(found.bias) < 0.01 and found.ratio_error < 0.03


@pytest.mark.parametrize("seed", range(2))
def test_neighbours_in_time_widen_the_errors(seed: int) -> None:
    """Every row twenty times in a row: a twentieth of the rows is known, and errors by blocks say so."""
    states = np.array(list(itertools.product((-1, 1), repeat=4)))
    energy = bm.models.curie_weiss(4, coupling=1.0).energy(states)
    p = np.exp(-energy) / np.exp(-energy).sum()
    rows = np.repeat(draws(p, 4, 1000, seed), 20, axis=0)
    found = bm.pair_information(rows, n_resamples=40)
    alone = bm.pair_information(rows, block=1, n_resamples=40)
    assert found.block > 60
    assert 2.5 < found.i_n_error / alone.i_n_error < 8.0  # the square root of 20 is 4.5
    assert abs(found.ratio - 1.0) < 2.5 * found.ratio_error < 0.05
    assert alone.ratio < 1.0 - 3.0 * alone.ratio_error  # who says that rows are independent
    trials = bm.pair_information(rows, trials=np.repeat(np.arange(100), 200), n_resamples=40)
    assert trials.block == 0
    assert 0.5 < trials.i_n_error / found.i_n_error < 2.0


def test_one_slow_unit_takes_little_from_what_rows_are_worth() -> None:
    """Of its 32 patterns two in a pair are slow together: half a nat for each over n / (2 tau) would be 0.15 in all."""
    model, chance = bm.models.curie_weiss(4, coupling=1.0), np.random.default_rng(5)
    fast = bm.sample(model, "exact", n_chains=10_000, n_sweeps=1, seed=5).states[0]
    slow = np.repeat(chance.permutation(np.repeat([-1, 1], 50)), 100)
    found = bm.pair_information(np.column_stack([fast, slow]), n_resamples=2)
    assert found.block > 100
    assert found.data == pytest.approx(bm.infer(model, "exact").entropy + np.log(2.0), abs=0.03)


def test_refusals_and_odd_rows(tmp_path: Path) -> None:
    rows = draws(np.full(8, 1 / 8), 3, 400, 2)
    for data, options, match in (
        (rows[:, :1], {}, "2 to 20 units"),
        (np.zeros((200, 21), np.uint8), {}, "2 to 20 units"),
        (rows[:50], {}, "at least 100 rows"),
        (np.where(np.arange(400)[:, None] == 3, np.nan, rows.astype(float)), {}, "must be complete"),
        (rows, {"block": 100}, "block must be at most 20"),
        (rows, {"n_resamples": 1}, "n_resamples"),
        (np.zeros((200, 3), np.uint8), {}, "do not depend on one another"),
    ):
        with pytest.raises(ValueError, match=match):
            bm.pair_information(data, **options)
    model = bm.models.curie_weiss(4, coupling=2.0)
    spins = bm.sample(model, "exact", n_sweeps=20, n_chains=50, seed=3).states.reshape(-1, 4)
    binary = bm.pair_information((spins + 1) // 2, n_resamples=3)
    assert binary == bm.pair_information(spins, n_resamples=3)  # units do not matter
    np.save(tmp_path / "rows.npy", spins)
    assert binary == bm.pair_information(tmp_path / "rows.npy", n_resamples=3)
    silent = np.concatenate([(spins + 1) // 2, np.zeros((1000, 1), int)], axis=1)
    assert bm.pair_information(silent, n_resamples=3).i_2 == pytest.approx(binary.i_2)
    rare = np.zeros((200, 2), np.uint8)
    rare[:20, 0], rare[150, 1] = 1, 1  # which resamples may lack
    with pytest.warns(bm.ConvergenceWarning, match="too few"):
        assert bm.pair_information(rare, block=1, n_resamples=20).ratio_error == np.inf
