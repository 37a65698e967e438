"""Clamped units: the right conditional distribution, whole states, whole energies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.runs.sample.physics import by_temperature, square_lattice
from fastbm.sampling.clamped import Conditioned
from tests.support import machines
from tests.support.combinations import each
from tests.support.machines import SURE, calm, enumerate_machine, machine
from tests.support.samples import FERRO, GLASS, PATTERNS, SK, small
from tests.twins import reference

SAMPLERS: dict[str, dict[str, Any]] = {
    "gibbs": {"n_sweeps": 60, "thin": 6},
    "metropolis": {"sampler": "metropolis", "n_sweeps": 100, "thin": 10},
    "tempering": {"sampler": "tempering", "betas": [0.1, 0.5, 1.0], "n_sweeps": 60, "thin": 6},
    "annealing": {"sampler": "annealing", "betas": [0.1, 0.5, 1.0], "n_sweeps": 240},
}


def free_g_test(states: np.ndarray, clamped: list[int], exact: reference.Exact) -> float:
    """The p-value of the free units' values; `exact` lists the whole states by the free units' bits."""
    assert np.array_equal(machines.codes(np.delete(exact.states, clamped, axis=1)), np.arange(len(exact.states)))
    return machines.g_test(np.delete(states, clamped, axis=2), exact.probabilities)


@each(name=SAMPLERS, units=machines.UNITS)
def test_each_pattern_gets_its_own_distribution(name: str, units: str) -> None:
    """G-tests of two patterns against enumeration; annealing holds its last beta for 80 sweeps."""
    model = small(units)
    lo, hi = model.convention.lo, model.convention.hi
    values = [[hi, lo], [lo, lo]]
    n_chains = 16_000 if name == "annealing" else 4_000
    run = calm(bm.sample, model, clamp=([4, 1], values), n_chains=n_chains, seed=3, **SAMPLERS[name])
    states = run.states
    assert (states[..., [4, 1]] == np.repeat(values, n_chains // 2, axis=0)).all()
    np.testing.assert_allclose(run.energy, model.energy(states), rtol=0, atol=1e-12)
    for group, (of_four, of_one) in enumerate(values):
        exact = enumerate_machine(model, clamp={4: of_four, 1: of_one})
        mine = states[:, group * n_chains // 2 : (group + 1) * n_chains // 2]
        assert free_g_test(mine, [1, 4], exact) > SURE


@pytest.mark.parametrize("sampler", ["wolff", "swendsen-wang"])
def test_cluster_moves_take_clamped_units_as_fields(sampler: str) -> None:
    ring = bm.models.ising((7,))
    run = bm.sample(
        ring, sampler=sampler, clamp=([0, 3], [[1, 1], [1, -1]]), n_chains=4_000, n_sweeps=60, thin=6, beta=0.6
    )
    for group, value in enumerate((1, -1)):
        exact = enumerate_machine(ring, beta=0.6, clamp={0: 1, 3: value})
        assert free_g_test(run.states[:, 2_000 * group : 2_000 * (group + 1)], [0, 3], exact) > SURE


def test_one_pattern_for_all_chains_and_the_machine_in_the_file(tmp_path: Path) -> None:
    run = bm.sample(SK, clamp=([3, 5], [1, -1]), n_chains=6, n_sweeps=30, beta=0.4, out=tmp_path / "run.h5")
    assert run.model.n_units == 30
    assert (run.states[..., 3] == 1).all() and (run.states[..., 5] == -1).all()
    np.testing.assert_allclose(run.energy, SK.energy(run.states[:]), atol=1e-12)
    alone = bm.sample(SK.condition([3, 5], [1, -1]), n_chains=6, n_sweeps=30, beta=0.4)
    free = np.delete(run.states[:], [3, 5], axis=2)
    assert np.array_equal(free, alone.states)
    assert "clamped units" in str(run.summary())
    again = bm.sample(SK, clamp=([3, 5], [1, -1]), n_chains=6, n_sweeps=30, beta=0.4, initial=run)
    assert again.finished


def test_energies_of_ladders_and_schedules_are_those_of_whole_states() -> None:
    clamp = ([0, 5, 9], PATTERNS)
    run = calm(bm.sample, GLASS, sampler="tempering", beta=1.0, clamp=clamp, n_chains=4, n_sweeps=20)
    assert np.array_equal(run.read("tempering/energy")[..., -1], run.energy)
    run = calm(bm.sample, GLASS, sampler="annealing", clamp=clamp, n_chains=4, n_sweeps=20)
    np.testing.assert_allclose(run.read("annealing/energy")[-1], run.energy[0], atol=1e-12)
    exact = enumerate_machine(machine("general"), clamp={0: 1})
    model = machine("general")
    run = calm(bm.sample, model, sampler="population-annealing", clamp=([0], [1]), n_chains=20_000)
    assert abs(run.read("population/log_z")[-1] - float(exact.log_z)) < 0.05


def test_initial_states_are_whole_ones() -> None:
    start = np.where(np.arange(30) % 2, 1, -1)
    run = bm.sample(SK, clamp=([0, 1], [1, 1]), n_chains=3, n_sweeps=1, burn_in=0, beta=50.0, initial=start)
    assert (run.states[0, :, :2] == 1).all()
    with pytest.raises(ValueError, match=r"initial must have shape \(3, 30\)"):
        bm.sample(SK, clamp=([0, 1], [1, 1]), n_chains=3, initial=start[2:])


@pytest.mark.parametrize(
    ("error", "text", "clamp", "options"),
    [
        (TypeError, r"clamp must be a pair, \(indices, values\)", [1, 2, 3], {}),
        (ValueError, r"patterns that divides n_chains \(64\).*got 3", ([0], [[1], [1], [-1]]), {}),
        (ValueError, "clamp must leave at least one unit free", (range(25), np.ones(25)), {}),
        (ValueError, "clamp indices must name each unit once", ([0, 0], [1, 1]), {}),
        (ValueError, "clamp values must have shape", ([0, 1], [1]), {}),
        (ValueError, "clamp values must be -1 or 1", ([0], [0]), {}),
        (ValueError, "one clamped pattern", ([0], [[1], [-1]]), {"sampler": "population-annealing"}),
        (ValueError, "must be even; got 1", ([0], [[1], [-1]]), {"n_chains": 2, "observables": ["overlap"]}),
    ],
)
def test_bad_clamps_are_named(error: type[Exception], text: str, clamp: Any, options: dict[str, Any]) -> None:
    with pytest.raises(error, match=text):
        bm.sample(FERRO, clamp=clamp, n_sweeps=2, **options)


def test_averages_do_not_mix_patterns() -> None:
    run = calm(bm.sample, GLASS, clamp=([0], [[1], [-1]]), n_chains=8, n_sweeps=100)
    for call in (run.thermodynamics, lambda: run.reweight(1.1), run.overlap_distribution):
        with pytest.raises(ValueError, match="would mix the 2 clamped patterns of this run"):
            call()
    alone = calm(bm.sample, GLASS, clamp=([0], [[1]]), n_chains=8, n_sweeps=100)
    assert len(alone.thermodynamics()) == 1


def test_values_of_the_whole_lattice_do_not_stand_beside_a_clamped_one() -> None:
    lattice, about = bm.models.ising((4, 4)), {"beta": [0.3, 0.4], "n_chains": 8, "n_sweeps": 50}
    whole, held = calm(bm.sample, lattice, **about), calm(bm.sample, lattice, clamp=([0], [1]), **about)
    assert square_lattice(whole) == (4, 4) and by_temperature(whole)[0].exact_energy is not None
    assert square_lattice(held) is None
    assert by_temperature(held)[0].exact_energy is by_temperature(held)[0].exact_magnetisation is None


@pytest.mark.parametrize("n_units", [2, 8, 23, 131])
def test_free_units_are_put_between_clamped_ones(n_units: int) -> None:
    draws = np.random.default_rng(n_units)
    model = bm.models.random_machine(n_units)
    for _ in range(10):
        clamped = draws.choice(n_units, draws.integers(1, n_units), replace=False)
        values = draws.choice([-1, 1], (3, len(clamped)))
        up = draws.integers(0, 2, (5, 6, n_units), np.uint8)
        up[:, :, clamped] = np.repeat(values == 1, 2, axis=0)
        free = np.delete(up, clamped, axis=2)
        subject = Conditioned(model, (clamped, values), 6)
        packed, whole = (np.packbits(bits, axis=2, bitorder="little") for bits in (free, up))
        assert np.array_equal(subject.complete(packed), whole)
        assert np.array_equal(subject.complete(packed[0]), whole[0])
