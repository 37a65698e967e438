"""Population annealing: resampling against its twin, log Z and distributions against enumeration, the same bits."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import fastbm as bm
from fastbm._base.halting import Halted
from fastbm.kernels.sampling.population import choose_step, measure_population, resample_systematic, sum_weights
from fastbm.sampling.population import Population
from tests.support import machines
from tests.support.combinations import each
from tests.support.machines import SURE, UNITS, enumerate_machine, machine
from tests.twins import schedules as twins

GLASS = bm.models.sherrington_kirkpatrick(30, seed=1)
LATTICE = bm.models.edwards_anderson((6, 6), seed=2)
MEASURES = ("n_families", "family_entropy", "rho_t")


def run(population: Population, step: int = 10**9) -> dict[str, np.ndarray]:
    """All rows of a whole run, `step` sweeps at a time."""
    parts: dict[str, list[np.ndarray]] = {}
    while not population.finished:
        for name, rows in population.advance(step).items():
            parts.setdefault(name, []).append(rows)
    return {name: np.concatenate(rows) for name, rows in parts.items()}


# The kernels and their twins


def resample(index: np.ndarray, energies: np.ndarray, step: float, uniforms: list[float]) -> tuple[int, list[float]]:
    """Resample equal populations; return how many replicas have no offspring, and the sums of weights."""
    edges = np.arange(len(uniforms) + 1) * len(energies) // len(uniforms)
    least, totals = np.empty((2, len(uniforms)))
    n_culled = resample_systematic(index, energies, edges, step, np.array(uniforms), least, totals)
    assert least.tolist() == [energies[a:b].min() for a, b in itertools.pairwise(edges)]
    return n_culled, totals.tolist()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.floats(0, 20), st.floats(0.001, 0.999))
def test_resampling_is_that_of_the_twin(seed: int, n: int, step: float, uniform: float) -> None:
    energies = np.random.default_rng(seed).normal(scale=2.0, size=n)
    index = np.empty(n, np.int64)
    n_culled, totals = resample(index, energies, step, [uniform])
    assert index.tolist() == twins.parents(energies.tolist(), step, uniform)
    assert n_culled == n - len(set(index.tolist()))
    w = np.array(twins.weights((energies - energies.min()).tolist(), step), float)
    np.testing.assert_allclose(sum_weights(energies, energies.min(), step), [w.sum(), (w**2).sum()], rtol=1e-12)
    assert totals == [sum_weights(energies, energies.min(), step)[0]]
    offspring = np.bincount(index, minlength=n)
    assert np.all(np.abs(offspring - n * w / w.sum()) < 1 + 1e-9)
    others, both = np.append(energies, energies[::-1] + 3.0), np.empty(2 * n, np.int64)
    resample(both, others, step, [uniform, 0.5 * uniform])
    assert both.tolist() == [*index, *(n + p for p in twins.parents(others[n:].tolist(), step, 0.5 * uniform))]


def test_offspring_are_unbiased() -> None:
    """Averaged over evenly spaced uniforms, offspring are the weights to 1 / 1000."""
    energies = np.array([0.3, -1.0, 2.0, 0.0, 0.5])
    index, total = np.empty(5, np.int64), np.zeros(5)
    for uniform in (np.arange(1000) + 0.5) / 1000:
        resample(index, energies, 1.3, [uniform])
        total += np.bincount(index, minlength=5)
    w = np.exp(-1.3 * energies)
    np.testing.assert_allclose(total / 1000, 5 * w / w.sum(), atol=2e-3)


def test_extreme_energies() -> None:
    index = np.empty(4, np.int64)
    assert resample(index, np.array([0.0, 1e300, 5.0, -2.0]), 1e6, [0.5])[0] == 3
    assert index.tolist() == [3, 3, 3, 3]
    assert resample(index, np.full(4, -1e9), 1.0, [0.999])[0] == 0
    assert index.tolist() == [0, 1, 2, 3]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 60), st.floats(0.05, 0.95))
def test_steps_are_the_largest_with_the_ess_that_is_asked_for(seed: int, n: int, target: float) -> None:
    energies = np.random.default_rng(seed).normal(scale=3.0, size=n)
    step = choose_step(energies, 5.0, target)
    if step == 5.0:
        assert twins.ess_fraction(energies, 5.0) >= target - 1e-12
    else:
        assert abs(twins.ess_fraction(energies, step) - target) < 1e-9


@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e25, 1e280])
def test_steps_are_found_at_every_scale_of_the_energies(scale: float) -> None:
    levels = np.array([0.0, 0.0, 1.0, 1.0])
    step = choose_step(scale * levels, 1e200, 0.9)
    assert 0.0 < step < 1e200
    assert twins.ess_fraction(levels, step * scale) >= 0.9 - 1e-9


def test_a_target_far_beyond_all_energies_is_reached() -> None:
    population = Population(bm.models.ising((4, 4)), 64, beta=1e30)
    for _ in range(100):
        if population.finished:
            break
        population.advance(1_000)
    assert population.finished and population.beta == 1e30


def test_measures_of_a_small_example() -> None:
    energies, family = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]), [0, 0, 0, 2, 5, 5, 7, 7]
    mean, std, *found = measure_population(energies, np.array(family))
    np.testing.assert_allclose((mean, std), (energies.mean(), energies.std()), rtol=1e-15)
    assert found[0] == 4
    assert math.isclose(found[1], -(3 / 8 * math.log(3 / 8) + 2 * 0.25 * math.log(0.25) + math.log(1 / 8) / 8))
    assert found[2] == 8 * (9 + 1 + 4 + 4) / 64
    np.testing.assert_allclose(found, twins.family_measures(family))
    level = np.full(9, -1e9)
    assert measure_population(level, np.arange(9)) == (-1e9, 0.0, 9, pytest.approx(math.log(9)), pytest.approx(1.0))
    assert measure_population(level, np.full(9, 3)) == (-1e9, 0.0, 1, 0.0, 9.0)
    mean, std, *_ = measure_population(np.full(10**6, -1000.1), np.zeros(10**6, np.int64))
    assert abs(mean + 1000.1) < 1e-12 and std < 1e-11  # though sums of a million round


# Exact sums


@each(rule=["gibbs", "metropolis"], units=UNITS)
def test_log_z_is_that_of_the_sum(rule: str, units: str) -> None:
    """32 populations: the mean of exp(log_z - exact) is 1 within 5 standard errors, which are below 1 %."""
    model = machine("general", units, seed=1, scale=1.0, offset=2.5)
    exact, ratios = enumerate_machine(model, 1.5), []
    for seed in range(32):
        rows = run(Population(model, 1000, beta=1.5, n_sweeps=3, rule=rule, seed=seed))
        ratios.append(math.exp(rows["population/log_z"][-1] - exact.log_z))
    error = np.std(ratios, ddof=1) / math.sqrt(32)
    assert error < 0.01
    assert abs(np.mean(ratios) - 1) < 5 * error


def test_every_temperature_on_the_way_has_its_log_z_and_energy() -> None:
    model = machine("general", seed=2, scale=1.0, offset=-1.0)
    rows = run(Population(model, 20_000, beta=2.0, seed=1))
    assert rows["population/log_z"][0] == 6 * math.log(2.0)
    assert len(rows["population/beta"]) > 4
    for beta, log_z, energy, std in zip(
        *(rows[f"population/{name}"] for name in ("beta", "log_z", "energy", "energy_std")), strict=True
    ):
        exact = enumerate_machine(model, beta)
        sigma = math.sqrt(exact.energy_variance)
        assert abs(log_z - exact.log_z) < 0.05
        assert abs(energy - exact.energy) < 0.06 * sigma
        assert abs(std / sigma - 1) < 0.06


def features(states: np.ndarray) -> np.ndarray:
    """All values and products of two of them."""
    i, j = np.triu_indices(states.shape[1], 1)
    return np.concatenate([states, states[:, i] * states[:, j]], axis=1)


@pytest.mark.parametrize("units", ["spin", pytest.param("binary", marks=pytest.mark.slow)])
def test_last_states_have_the_boltzmann_distribution(units: str) -> None:
    """Hotelling's test of the 5 means and 10 correlations in 200 populations of 256, p-value above 1e-6.

    Relatives are correlated, so populations are the independent samples. What a population's size biases is about a
    tenth of what this test can see.
    """
    model, n = machine("visible", units, seed=3, scale=0.5), 200
    found = []
    for seed in range(n):
        population = Population(model, 256, beta=1.0, n_sweeps=2, seed=seed, threads=1)
        run(population)
        found.append(features(model.convention.values(population.bits(), np.float64)).mean(axis=0))
    exact = enumerate_machine(model, 1.0)
    off = np.mean(found, axis=0) - exact.probabilities @ features(np.asarray(exact.states, float))
    t2 = n * off @ np.linalg.solve(np.cov(found, rowvar=False), off)
    assert stats.f.sf(t2 * (n - 15) / (15 * (n - 1)), 15, n - 15) > SURE


def test_copies_part_as_strangers_do() -> None:
    """Where nothing is ever rejected, copies that lie side by side soon agree in no more than half of their units.

    128 families of 32 copies, visited in equal order; 5 standard deviations.
    """
    for rule in ("gibbs", "metropolis"):
        population = Population(machines.flat(20), 4096, beta=1.0, seed=1, rule=rule)
        population.engine.gather(np.repeat(np.arange(0, 4096, 32), 32))
        population.engine.sweep(1 if rule == "gibbs" else 60)
        up = population.bits().reshape(-1, 32, 20).astype(float)
        agree = (up[:, 1:] == up[:, :-1]).mean()
        assert abs(agree - 0.5) < 5 * 0.5 / math.sqrt(up[:, 1:].size)


# What is told


def test_rows() -> None:
    model = bm.BoltzmannMachine(LATTICE.weights, offset=5.0)
    population = Population(model, 200, beta=2.0, n_sweeps=4, seed=1)
    assert (population.progress, population.finished) == ((0, 1000), False)
    first = population.advance(1)
    assert first["population/beta"].tolist() == [0.0]
    assert first["population/n_families"].tolist() == [200]
    rows = run(population, 7)
    assert (population.progress, population.finished) == ((1000, 1000), True)
    assert population.advance(3) == {}
    n_steps = len(rows["population/beta"])
    assert population.n_swept == 4 * n_steps == rows["samples/sweep"][0]
    assert set(rows) - set(population.streams) == {"samples/states", "samples/energy", "samples/sweep"}
    assert all(rows[name].dtype == stream.numpy_dtype for name, stream in population.streams.items())
    assert np.all(np.diff(rows["population/beta"]) > 0)
    assert rows["population/beta"][-1] == 2.0
    assert np.all(np.diff(rows["population/n_families"]) <= 0)
    assert np.all(rows["population/culled"][:-1] > 0.05)
    assert np.all(rows["population/culled"] < 0.25)
    families = twins.family_measures(population.family.tolist())
    np.testing.assert_allclose([rows[f"population/{name}"][-1] for name in MEASURES], families)
    assert np.array_equal(population.family, np.sort(population.family))  # families lie side by side
    up = np.unpackbits(rows["samples/states"][0], axis=1, count=36, bitorder="little")
    assert np.array_equal(up, population.bits())
    energies = model.energy(2 * up.astype(np.int8) - 1)
    np.testing.assert_allclose(rows["samples/energy"][0] + 5.0, energies, rtol=1e-12)
    np.testing.assert_allclose(rows["population/energy"][-1], energies.mean(), rtol=1e-12)
    np.testing.assert_allclose(rows["population/energy_std"][-1], energies.std(), rtol=1e-12)


def test_a_target_of_zero_is_reached_at_once() -> None:
    rows = run(Population(GLASS, 50, beta=0.0))
    assert rows["population/beta"].tolist() == [0.0]
    assert rows["population/log_z"].tolist() == [30 * math.log(2.0)]
    assert rows["samples/energy"].shape == (1, 50)


def test_a_machine_that_does_not_care_takes_one_step() -> None:
    rows = run(Population(machines.flat(8), 50, beta=3.0))
    assert rows["population/beta"].tolist() == [0.0, 3.0]
    assert rows["population/culled"].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(rows["population/log_z"], 8 * math.log(2.0), rtol=1e-15)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"n_chains": 1}, "n_chains must be at least 2"),
        ({"bias": np.eye(2, 30)}, "one clamped pattern; got several"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Population(GLASS, **({"n_chains": 10, "beta": 1.0} | options))


# The same bits


CASES = [
    pytest.param(GLASS, {}, id="dense"),
    pytest.param(GLASS, {"rule": "metropolis"}, id="metropolis"),
    pytest.param(LATTICE, {"kernel": "sparse"}, id="sparse"),
    pytest.param(LATTICE, {"kernel": "multispin"}, id="multispin"),
    pytest.param(bm.models.restricted(12, 9, seed=1), {}, id="layered"),
]


@pytest.mark.parametrize(("model", "options"), CASES)
def test_threads_pieces_and_restarts_do_not_matter(model: bm.BoltzmannMachine, options: dict[str, Any]) -> None:
    def make(threads: int) -> Population:
        return Population(model, 640, beta=1.5, n_sweeps=5, seed=5, threads=threads, **options)

    expected = run(make(1))
    population, parts, k = make(2), {}, 0
    while not population.finished:
        for name, rows in population.advance((1, 7, 3, 5, 12)[k % 5]).items():
            parts.setdefault(name, []).append(rows)
        state = population.state()
        population = make(2)
        population.restore(state)
        k += 1
    assert expected.keys() == parts.keys()
    for name, rows in expected.items():
        assert np.array_equal(np.concatenate(parts[name]), rows), name


def test_a_run_that_was_halted_goes_on_with_the_same_bits() -> None:
    population, other = (Population(LATTICE, 128, beta=1.0, n_sweeps=2) for _ in range(2))
    population.engine.attempt_seconds = 1e-3  # so that sweeps count as long
    asked: list[int] = []
    population.advance(1)
    state = population.state()
    population.halt = lambda: len(asked) > 2 or bool(asked.append(1))
    with pytest.raises(Halted):
        population.advance(4)
    population.halt = lambda: False
    population.restore(state)
    population.advance(2)
    other.advance(3)
    assert np.array_equal(population.packed(), other.packed())
    assert population.log_z == other.log_z
