"""Annealed chains follow their schedule to the sweep, find ground states, and give the same bits however they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base.halting import Halted
from fastbm.sampling.annealing import AnnealedChains, make_schedule, resolve_schedule
from fastbm.sampling.chains import make_chains
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import UNITS, enumerate_machine
from tests.twins import schedules as twins

GLASS = bm.models.sherrington_kirkpatrick(30, seed=1)
LATTICE = bm.models.edwards_anderson((6, 6), seed=2)
LAYERS = bm.models.restricted(12, 9, seed=1)
ROUGH = bm.models.edwards_anderson((6, 6), distribution="gaussian", seed=2)


def run(chains: AnnealedChains, step: int = 10**9) -> dict[str, np.ndarray]:
    """All rows of a whole run, `step` sweeps at a time."""
    parts: dict[str, list[np.ndarray]] = {}
    while not chains.finished:
        for name, rows in chains.advance(step).items():
            parts.setdefault(name, []).append(rows)
    return {name: np.concatenate(rows) for name, rows in parts.items()}


# Schedules


@pytest.mark.parametrize("n_sweeps", [1, 2, 7, 999, 1000, 1001, 2500, 10_007])
def test_linear_schedules_are_those_of_the_twin(n_sweeps: int) -> None:
    betas = make_schedule(n_sweeps, "linear", [0.25, 3.0])
    np.testing.assert_allclose(betas, twins.linear(n_sweeps, 0.25, 3.0, 1000), rtol=1e-14)
    assert betas[-1] == 3.0
    assert len(np.unique(betas)) <= 1000


def test_geometric_schedules_have_equal_ratios() -> None:
    betas = make_schedule(11, "geometric", [0.1, 10.0])
    np.testing.assert_allclose(betas, np.geomspace(0.1, 10.0, 11), rtol=1e-14)
    assert betas[-1] == 10.0


def test_adaptive_schedules_spend_equal_sweeps_on_equal_lengths() -> None:
    """Knots are visited at evenly spaced sweeps; between them beta rises evenly."""
    knots = resolve_schedule(GLASS, "adaptive", beta_low=0.0, beta=3.0, seed=1)
    assert len(knots) == 64
    assert (knots[0], knots[-1]) == (0.0, 3.0)
    assert np.all(np.diff(knots) > 0)
    assert np.diff(knots)[-1] > 2 * np.diff(knots)[0]  # energies of a cold glass hardly fluctuate
    betas = make_schedule(63 * 4 + 1, "adaptive", knots)
    np.testing.assert_allclose(betas[::4], knots, rtol=1e-13)
    np.testing.assert_allclose(betas[2:-1:4], (np.array(knots[1:]) + knots[:-1]) / 2, rtol=1e-13)


def test_betas_of_ones_own_are_stretched() -> None:
    assert make_schedule(3, None, [0.1, 2.0, 0.5]).tolist() == [0.1, 2.0, 0.5]
    assert make_schedule(7, None, [0.1, 0.2, 0.5]).tolist() == [0.1, 0.1, 0.1, 0.2, 0.2, 0.5, 0.5]


def test_more_betas_than_sweeps_are_refused() -> None:
    with pytest.raises(ValueError, match=r"betas has 3 entries for 2 sweeps\. Raise n_sweeps"):
        make_schedule(2, None, [0.1, 0.5, 1.0])


@pairwise(
    model=[GLASS, LATTICE, ROUGH, LAYERS], rule=["gibbs", "metropolis"], order=["sequential", "random"],
    n_chains=[2, 20, 70], own_bias=[False, True], step=[1, 4, 10**9], coldest=[3.0, 1e7], kernel=[None, "sparse"],
)  # fmt: skip
def test_every_sweep_has_its_beta(
    model: bm.BoltzmannMachine, rule: str, order: str, n_chains: int, own_bias: bool, step: int, coldest: float,
    kernel: str | None,
) -> None:  # fmt: skip
    """The same bits as by setting every temperature by itself; those of kernels that keep fields are among them.

    At the coldest of temperatures fields are int64.
    """
    bias = 0.1 * np.random.default_rng(1).normal(size=(n_chains, model.n_units)) if own_bias else None
    about: dict[str, Any] = {"rule": rule, "order": order, "seed": 4, "bias": bias, "kernel": kernel}
    check_every_beta(model, n_chains, [0.1, 0.2, 0.2, 0.3, 1.0, 2.0, coldest], step, about)


@pytest.mark.parametrize(("rule", "order"), [("gibbs", "sequential"), ("metropolis", "random")])
def test_every_sweep_of_chains_as_bits_has_its_beta(rule: str, order: str) -> None:
    about = {"rule": rule, "order": order, "seed": 4, "kernel": "multispin"}
    check_every_beta(LATTICE, 576, [0.0, 0.3, 1.0, 5.0], 30, about)


def check_every_beta(
    model: bm.BoltzmannMachine, n_chains: int, knots: list[float], step: int, about: dict[str, Any]
) -> None:
    betas = make_schedule(50, None, knots)
    annealed = AnnealedChains(model, n_chains, betas=betas, **about)
    rows = run(annealed, step)
    single = make_chains(model, n_chains, beta=betas[0], highest_beta=betas.max(), summed=True, **about)
    for beta, energies in zip(betas, rows["annealing/energy"], strict=True):
        single.set_beta(np.full(n_chains, beta))
        single.sweep(1)
        assert np.array_equal(single.energies(), energies)
    assert np.array_equal(annealed.bits(), single.bits())
    assert (annealed.n_flips, annealed.n_swept) == (single.n_flips, 50)
    assert np.array_equal(annealed.engine.beta, single.beta)


# What comes of it


@pairwise(schedule=["linear", "geometric", "adaptive"], rule=["gibbs", "metropolis"], units=UNITS)
def test_glasses_of_16_units_reach_their_ground_state(schedule: str, rule: str, units: str) -> None:
    model = bm.models.sherrington_kirkpatrick(16, seed=4).to_units(units)
    states = machines.patterns(16, units)
    ground = min(float(model.energy(part).min()) for part in np.array_split(states, 8))
    knots = resolve_schedule(model, schedule, beta_low=0.1, beta=20.0, rule=rule, seed=2)
    chains = AnnealedChains(model, 128, betas=make_schedule(400, schedule, knots), rule=rule, seed=1)
    energies = run(chains)["samples/energy"][0] + model.offset
    assert np.all(energies >= ground - 1e-9)
    assert np.mean(energies < ground + 1e-9) > 0.7


def test_slow_annealing_ends_in_the_boltzmann_distribution() -> None:
    """25600 chains, p-value above 1e-6."""
    model = machines.machine("general", seed=3, scale=0.4)
    chains = AnnealedChains(model, 25_600, betas=make_schedule(40, None, np.r_[np.linspace(0.0, 1.0, 20), np.ones(20)]))
    run(chains)
    states = model.convention.values(chains.bits())
    assert machines.g_test(states, enumerate_machine(model, 1.0).probabilities) > machines.SURE


def test_rows() -> None:
    model = bm.BoltzmannMachine(LATTICE.weights, offset=5.0)
    betas = make_schedule(130, "linear", [0.0, 2.0])
    chains = AnnealedChains(model, 4, betas=betas, seed=1)
    assert (chains.progress, chains.finished) == ((0, 130), False)
    assert chains.advance(1) == {}
    rows = run(chains, 9)
    assert (chains.progress, chains.finished, chains.n_swept) == ((130, 130), True, 130)
    assert chains.advance(5) == {}
    assert rows["annealing/sweep"].tolist() == [-(-k * 130 // 64) for k in range(1, 65)]
    assert np.array_equal(rows["annealing/beta"], betas[rows["annealing/sweep"] - 1])
    assert rows["annealing/energy"].shape == (64, 4)
    assert np.array_equal(rows["annealing/energy"][-1], rows["samples/energy"][0] + 5.0)
    assert {name: row.dtype for name, row in rows.items() if name in chains.streams} == {
        name: stream.numpy_dtype for name, stream in chains.streams.items()
    }
    assert rows["samples/sweep"].tolist() == [130]
    up = np.unpackbits(rows["samples/states"][0], axis=1, count=36, bitorder="little")
    assert np.array_equal(up, chains.bits())
    assert np.array_equal(rows["samples/states"][0], chains.packed())
    np.testing.assert_allclose(model.energy(2 * up.astype(np.int8) - 1), rows["samples/energy"][0] + 5.0, rtol=1e-12)
    assert np.array_equal(chains.energies(), rows["samples/energy"][0])


def test_a_bias_and_an_offset_for_every_chain() -> None:
    bias, offset = np.array([[9.0], [-9.0]]) * np.ones((2, 36)), np.array([1.0, 2.0])
    chains = AnnealedChains(LATTICE, 2, betas=[0.1, 5.0], bias=bias, offset=offset)
    rows = run(chains)
    assert np.array_equal(chains.bits(), np.array([[1], [0]]) * np.ones((2, 36)))
    assert np.array_equal(rows["annealing/energy"][-1], rows["samples/energy"][0] + offset)


# The same bits


CASES = [
    pytest.param(GLASS, {}, id="dense"),
    pytest.param(GLASS, {"rule": "metropolis", "order": "random"}, id="metropolis"),
    pytest.param(LATTICE, {}, id="sparse"),
    pytest.param(LATTICE, {"kernel": "multispin"}, id="multispin"),
    pytest.param(LAYERS, {}, id="layered"),
]


@pytest.mark.parametrize("schedule", ["linear", None])
@pytest.mark.parametrize(("model", "options"), CASES)
def test_threads_pieces_and_restarts_do_not_matter(
    model: bm.BoltzmannMachine, options: dict[str, Any], schedule: str | None
) -> None:
    betas = make_schedule(97, schedule, [0.1, 0.4, 2.0])
    expected = run(AnnealedChains(model, 128, betas=betas, seed=5, threads=1, **options))
    chains = AnnealedChains(model, 128, betas=betas, seed=5, threads=2, **options)
    parts: dict[str, list[np.ndarray]] = {}
    for step in (3, 30, 1, 50, 50):
        for name, rows in chains.advance(step).items():
            parts.setdefault(name, []).append(rows)
        state = chains.state()
        chains = AnnealedChains(model, 128, betas=betas, seed=5, threads=2, **options)
        chains.restore(state)
    assert expected.keys() == parts.keys()
    for name, rows in expected.items():
        assert np.array_equal(np.concatenate(parts[name]), rows), name


def test_chains_run_together_or_apart() -> None:
    betas = make_schedule(30, "linear", [0.1, 2.0])
    together = run(AnnealedChains(GLASS, 6, betas=betas))["samples/states"]
    first = run(AnnealedChains(GLASS, 2, betas=betas))["samples/states"]
    second = run(AnnealedChains(GLASS, 4, betas=betas, first_chain=2))["samples/states"]
    assert np.array_equal(np.concatenate([first, second], axis=1), together)


def test_a_run_that_was_halted_goes_on_with_the_same_bits() -> None:
    betas = make_schedule(9, "linear", [0.1, 1.0])
    chains, other = (AnnealedChains(LATTICE, 128, betas=betas) for _ in range(2))
    chains.engine.attempt_seconds = 1e-3  # so that sweeps count as long
    asked: list[int] = []
    chains.advance(1)
    state = chains.state()
    chains.halt = lambda: len(asked) > 2 or bool(asked.append(1))
    with pytest.raises(Halted):
        chains.advance(3)
    chains.halt = lambda: False
    chains.restore(state)
    assert np.array_equal(run(chains)["samples/states"], run(other)["samples/states"])
