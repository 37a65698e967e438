"""Sums by Gray code as an engine: pieces, threads and orders of units change nothing, and lists are complete."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm._base.halting import Halted
from fastbm.exact.gray import sum as gray
from fastbm.exact.gray.sum import GraySum, plan
from fastbm.exact.plan import Part, Speeds, Wanted, combine
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import KINDS, UNITS, codes, enumerate_machine, flat, machine
from tests.twins import reference

EPS = float(np.finfo(float).eps)


def planned(model: bm.BoltzmannMachine, beta: float = 1.0, *, moments: bool = True, **options: Any) -> GraySum:
    about: dict[str, Any] = {"threads": 1, "max_bytes": 4e9, "speeds": Speeds()} | options
    return plan(model, beta, Wanted(moments, moments), **about)


def done(task: GraySum, threads: int = 1) -> Part:
    return combine([task.piece(k, threads) for k in range(task.n_pieces)])


def means(model: bm.BoltzmannMachine, part: Part) -> tuple[np.ndarray, np.ndarray]:
    lo, span = model.convention.lo, model.convention.span
    second = span**2 * part.pairs + span * lo * (part.up + part.up[:, None]) + lo**2
    return lo + span * part.up, second


def assert_is(model: bm.BoltzmannMachine, beta: float, part: Part, truth: reference.Exact) -> None:
    weights, bias = machines.parameters(model)
    strength = float(np.abs(weights).sum() / 2 + np.abs(bias).sum())
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-12, abs=1e-13)
    mean, second = means(model, part)
    close = {"atol": 1e-11 + 8 * EPS * beta * strength, "rtol": 0}
    np.testing.assert_allclose(mean, truth.mean, **close)
    np.testing.assert_allclose(second, truth.second_moment, **close)
    assert np.array_equal(part.pairs, part.pairs.T)
    assert np.array_equal(part.pairs.diagonal(), part.up)
    assert part.energy == pytest.approx(truth.energy, rel=1e-11, abs=1e-11 * strength)
    # energies of pieces come with the offset, to which they are rounded
    rounding = 4 * EPS * abs(model.offset) * math.sqrt(truth.energy_variance)
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-8, abs=1e-12 * strength**2 + rounding)


def mixed(n: int, units: str, scales: Any, seed: int) -> bm.BoltzmannMachine:
    """Couplings and biases, each of a scale drawn from `scales`."""
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.normal(size=(n, n)) * generator.choice(scales, (n, n)), 1)
    bias = generator.normal(size=n) * generator.choice(scales, n)
    return bm.BoltzmannMachine(upper + upper.T, bias, units=units, offset=0.5)


@pairwise(kind=KINDS, units=UNITS, beta=[0.0, 1e-3, 1.0, 30.0])
def test_every_kind_of_machine(kind, units, beta):
    model = machine(kind, units, offset=-1.5)
    assert_is(model, beta, done(planned(model, beta)), enumerate_machine(model, beta))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("units", UNITS)
def test_few_units(units, n):
    model = mixed(n, units, [1.0], seed=n)
    chosen = tuple(range(n))[::-1]
    task = planned(model, 1.3, n_lowest=100, distribution=chosen)
    part, truth = done(task), enumerate_machine(model, 1.3)
    assert_is(model, 1.3, part, truth)
    assert_lists(model, task, part)
    numbers = sum((np.arange(1 << n) >> i & 1) << place for place, i in enumerate(chosen))
    np.testing.assert_allclose(part.distribution[numbers], truth.probabilities, rtol=1e-12)


SCALES = {"1e-12": [1e-12], "1": [1.0], "30": [30.0], "1e3": [1e3], "mixed": [1e-12, 1e-6, 1.0, 30.0, 1e3]}


@pairwise(scale=SCALES, units=UNITS, min_pieces=[1, 4])
def test_couplings_of_any_scale(scale, units, min_pieces, monkeypatch):
    monkeypatch.setattr(gray, "LOW_UNITS", 4)
    monkeypatch.setattr("fastbm.exact.gray.code.LOW_UNITS", 4)
    model = mixed(9, units, SCALES[scale], seed=4)
    task = planned(model, 0.9, min_pieces=min_pieces)
    assert task.n_pieces == min_pieces
    assert_is(model, 0.9, done(task), enumerate_machine(model, 0.9))


def test_ties_weigh_the_same():
    n = 11
    signs = np.sign(np.random.default_rng(2).normal(size=(n, n)))
    model = bm.BoltzmannMachine(1e3 * (np.triu(signs, 1) + np.triu(signs, 1).T))
    energies = np.array([model.energy(state) for state in reference.all_states(n, "spin")])
    part = done(planned(model, 2.0))
    n_ground = int((energies == energies.min()).sum())
    assert part.log_z + 2.0 * energies.min() == pytest.approx(math.log(n_ground), abs=1e-9)
    np.testing.assert_allclose(part.up, 0.5, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 1e-300, 1e-200, 1e-31])
def test_flat_weights_in_pieces_give_the_uniform_energy(beta, monkeypatch):
    monkeypatch.setattr(gray, "LOW_UNITS", 3)
    monkeypatch.setattr("fastbm.exact.gray.code.LOW_UNITS", 3)
    model = mixed(7, "binary", [1.0], seed=5)
    truth = enumerate_machine(model, 0.0)
    for min_pieces in (1, 2, 8, 100):
        for distribution in (None, (6, 2)):
            task = planned(model, beta, min_pieces=min_pieces, distribution=distribution)
            assert task.n_pieces == min(min_pieces, 16)
            part = done(task)
            assert part.energy == pytest.approx(truth.energy, rel=1e-12)
            assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-12)
            assert part.log_z == pytest.approx(7 * math.log(2), rel=1e-12)


def test_a_large_machine_in_closed_form():
    """18 units in two parts that do not meet: their sums multiply."""
    first, second = (mixed(9, "spin", [1.0], seed=seed) for seed in (7, 8))
    weights = np.zeros((18, 18))
    weights[:9, :9], weights[9:, 9:] = first.weights, second.weights
    model = bm.BoltzmannMachine(weights, np.concatenate([first.bias, second.bias]))
    part = done(planned(model, 0.7))
    parts = [enumerate_machine(half, 0.7) for half in (first, second)]
    assert part.log_z == pytest.approx(sum(half.log_z for half in parts) + 0.7, rel=1e-12)
    mean, second_moment = means(model, part)
    np.testing.assert_allclose(mean, np.concatenate([half.mean for half in parts]), atol=1e-12)
    np.testing.assert_allclose(second_moment[:9, :9], parts[0].second_moment, atol=1e-12)
    np.testing.assert_allclose(second_moment[9:, 9:], parts[1].second_moment, atol=1e-12)
    np.testing.assert_allclose(second_moment[:9, 9:], np.outer(parts[0].mean, parts[1].mean), atol=1e-12)
    assert part.energy == pytest.approx(sum(half.energy for half in parts) - 1.0, rel=1e-11)
    assert part.energy_variance == pytest.approx(sum(half.energy_variance for half in parts), rel=1e-11)


# Lowest states and distributions


def assert_lists(model: bm.BoltzmannMachine, task: GraySum, part: Part) -> None:
    """The list is that of all states by energy and number, energies that differ by rounding alone being the same."""
    found = task.found(part)
    n_lowest = len(found["lowest energies"])
    states = np.array(reference.all_states(model.n_units, model.units))
    energies = np.array([reference.energy(s, *machines.parameters(model), model.offset) for s in states])
    assert n_lowest == min(task.n_lowest, len(states))
    assert found["lowest states"].dtype == np.int8
    numbers = codes(found["lowest states"])
    assert len(set(numbers.tolist())) == n_lowest
    tolerance = 1e-13 * float(np.abs(energies).max())
    np.testing.assert_allclose(found["lowest energies"], np.sort(energies)[:n_lowest], rtol=0, atol=tolerance)
    np.testing.assert_allclose(found["lowest energies"], energies[numbers], rtol=0, atol=tolerance)


@pairwise(units=UNITS, scale=[0.0, 1.0, 1e3], n_lowest=[1, 7, 300, 5000], min_pieces=[1, 8])
def test_lowest_states(units, scale, n_lowest, min_pieces, monkeypatch):
    monkeypatch.setattr(gray, "LOW_UNITS", 4)
    monkeypatch.setattr("fastbm.exact.gray.code.LOW_UNITS", 4)
    model = mixed(9, units, [scale], seed=6)
    task = planned(model, n_lowest=n_lowest, min_pieces=min_pieces, moments=False)
    assert_lists(model, task, done(task))


@pytest.mark.parametrize("min_pieces", [1, 8])
def test_ties_are_listed_by_number(min_pieces, monkeypatch):
    monkeypatch.setattr(gray, "LOW_UNITS", 4)
    monkeypatch.setattr("fastbm.exact.gray.code.LOW_UNITS", 4)
    n = 8
    signs = np.sign(np.random.default_rng(3).normal(size=(n, n)))
    model = bm.BoltzmannMachine(np.triu(signs, 1) + np.triu(signs, 1).T)
    energies = np.array([model.energy(state) for state in reference.all_states(n, "spin")])
    expected = np.lexsort((np.arange(1 << n), energies))
    for n_lowest in (1, 2, 5, 40, 256):
        for distribution in (None, (7, 0, 3)):
            task = planned(model, n_lowest=n_lowest, distribution=distribution, min_pieces=min_pieces)
            found = task.found(done(task))
            assert codes(found["lowest states"]).tolist() == expected[:n_lowest].tolist()
            assert found["lowest energies"].tolist() == energies[expected[:n_lowest]].tolist()
    flat_list = planned(flat(9), n_lowest=20, min_pieces=min_pieces)
    assert codes(flat_list.found(done(flat_list))["lowest states"]).tolist() == list(range(20))


@settings(derandomize=True, max_examples=40, deadline=None)
@given(st.permutations(range(7)), st.integers(0, 7), st.sampled_from(UNITS), st.booleans(), st.booleans())
def test_distribution_of_chosen_units_in_any_order(order, m, units, moments, cut):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gray, "LOW_UNITS", 3)
        patch.setattr("fastbm.exact.gray.code.LOW_UNITS", 3)
        model = mixed(7, units, [1.0], seed=m)
        chosen = tuple(order[:m])
        task = planned(model, 1.1, distribution=chosen, moments=moments, min_pieces=4 if cut else 1)
        part, truth = done(task), enumerate_machine(model, 1.1)
    index = np.zeros(1 << 7, int)
    for place, unit in enumerate(chosen):
        index |= (np.arange(1 << 7) >> unit & 1) << place
    expected = np.bincount(index, weights=truth.probabilities, minlength=1 << m)
    np.testing.assert_allclose(part.distribution, expected, rtol=1e-12)
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-12)
    if moments:
        assert_is(model, 1.1, part, truth)


def test_distribution_of_more_units_than_the_table_holds():
    model = mixed(14, "binary", [1.0], seed=9)
    chosen = (13, 0, 5, 2, 11, 1, 12, 7, 8, 3, 10, 9)
    part = done(planned(model, distribution=chosen, moments=False))
    states, log_p = machines.log_joint(*machines.parameters(model), "binary", 1.0)
    index = (states[:, list(chosen)] @ (1 << np.arange(12))).astype(int)
    np.testing.assert_allclose(part.distribution, np.bincount(index, weights=np.exp(log_p)), rtol=1e-10)


# Wanted, threads, halts, forecasts


def test_without_moments_log_z_and_energy_are_there():
    model = machine("general")
    part, whole = done(planned(model, moments=False)), done(planned(model))
    assert (part.up, part.pairs, part.distribution, part.lowest) == (None,) * 4
    assert (part.log_z, part.energy, part.energy_variance) == pytest.approx(
        (whole.log_z, whole.energy, whole.energy_variance), rel=1e-13
    )


def same(first: Part, second: Part) -> bool:
    return pickle.dumps(first) == pickle.dumps(second)


def test_the_same_bits_on_any_number_of_threads():
    model = bm.models.random_machine(20, bias_scale=0.2, seed=1)
    options: dict[str, Any] = {"n_lowest": 5, "distribution": (3, 19), "min_pieces": 2}
    task = planned(model, **options)
    first = done(task)
    for threads in (2, 3):
        assert same(done(planned(model, threads=threads, **options), threads), first)
    copy = pickle.loads(pickle.dumps(task))
    assert same(copy.piece(1, 1), task.piece(1, 2))


def test_a_stop_is_looked_for_between_slices():
    task = planned(bm.models.random_machine(20, seed=1))
    looks = []

    def halt() -> bool:
        looks.append(1)
        return len(looks) > 3

    with pytest.raises(Halted):
        task.piece(0, 1, halt)
    assert len(looks) == 4


def test_forecasts_grow_with_the_states_and_stop_at_62_units():
    seconds = [planned(flat(n)).forecast.seconds for n in (20, 21, 40, 62)]
    assert seconds[1] == 2 * seconds[0]
    assert seconds[3] == 2.0**22 * seconds[2]
    assert planned(flat(30), threads=2).forecast.seconds == planned(flat(30)).forecast.seconds / 2
    assert planned(flat(30), moments=False).forecast.seconds < planned(flat(30)).forecast.seconds
    assert planned(flat(40)).n_pieces == 2**10
    assert planned(flat(30), n_lowest=10**6).forecast.n_bytes > planned(flat(30)).forecast.n_bytes + 3e7
    for n in (63, 2000):
        task = planned(flat(n))
        assert task.forecast.seconds == math.inf
        assert task.forecast.size == f"2^{n} states"
        with pytest.raises(ValueError, match=rf"2\^{n} states cannot be done"):
            task.piece(0, 1)


def test_memory_does_not_depend_on_the_number_of_states():
    assert planned(flat(60)).forecast.n_bytes < 1e7


@pytest.mark.slow
def test_several_pieces_of_full_size():
    """32 units, of which some are free: the sum is that of 20 and a power of two."""
    small = mixed(20, "spin", [0.3], seed=11)
    weights, bias = np.zeros((32, 32)), np.zeros(32)
    places = np.sort(np.random.default_rng(0).permutation(32)[:20])
    weights[np.ix_(places, places)] = small.weights
    bias[places] = small.bias
    model = bm.BoltzmannMachine(weights, bias)
    task = planned(model, threads=2)
    assert task.n_pieces == 4
    part, truth = done(task, 2), done(planned(small))
    assert part.log_z == pytest.approx(truth.log_z + 0.5 + 12 * math.log(2), rel=1e-12)
    np.testing.assert_allclose(part.pairs[np.ix_(places, places)], truth.pairs, atol=1e-12)
    free = np.setdiff1d(np.arange(32), places)
    np.testing.assert_allclose(part.up[free], 0.5, atol=1e-13)
    np.testing.assert_allclose(part.pairs[np.ix_(free, places)], np.outer(np.full(12, 0.5), truth.up), atol=1e-12)
