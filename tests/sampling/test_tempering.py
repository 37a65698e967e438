"""Parallel tempering: every temperature's distribution against enumeration, records, the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm._base.halting import Halted
from fastbm.sampling import houdayer, make_chains
from fastbm.sampling.engine import edges, lanes as lanes_of, lookup
from fastbm.sampling.engine.lookup import LookupChains
from fastbm.sampling.engine.temperatures import TemperingChains, cool
from fastbm.sampling.ladder import energy_profile, equal_steps
from fastbm.sampling.tempering import TemperedChains
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import SURE, UNITS, enumerate_machine, machine
from tests.twins import reference

GLASS, LARGER_GLASS = (bm.models.sherrington_kirkpatrick(n, seed=1) for n in (40, 100))
LATTICE = bm.models.edwards_anderson((6, 6), seed=2)
BETAS = [0.2, 0.5, 0.9, 1.4]


def unbiased(units: str) -> bm.BoltzmannMachine:
    """A frustrated machine whose states and their negatives are alike."""
    upper = np.triu(np.random.default_rng(5).normal(scale=0.5, size=(6, 6)), 1)
    return bm.BoltzmannMachine(upper + upper.T).to_units(units)


# Distributions: p-values above 1e-6, so that right chains fail one of these 56 tests once in 17000 changes of a stream


def level_counts(chains: TemperedChains, n_samples: int, thin: int) -> np.ndarray:
    """How often every state was seen at every level, (n_betas, 2^n)."""
    n = chains.n_units
    counts = np.zeros((len(chains.betas), 2**n), int)
    for _ in range(n_samples):
        chains.sweep(thin)
        codes = chains.engine.bits() @ (1 << np.arange(n))
        for k, lanes in enumerate(chains.lanes.T):
            counts[k] += np.bincount(codes[lanes], minlength=2**n)
    return counts


def move_everywhere(chains: TemperedChains) -> None:
    """Let clusters be moved at all levels, also where they percolate."""
    assert chains._moves is not None
    n_betas, n_pairs = len(chains.betas), len(chains.level) // 2
    chains._moves.levels = np.arange(n_betas)
    chains._moves.streams = rng.streams(9, n_pairs * n_betas).reshape(n_pairs, n_betas, 4)


def assert_boltzmann(model: bm.BoltzmannMachine, chains: TemperedChains, n_samples: int, thin: int) -> None:
    chains.sweep(60)
    counts = level_counts(chains, n_samples, thin)
    assert np.all(counts.sum(axis=1) >= 50_000)
    for beta, row in zip(chains.betas, counts, strict=True):
        assert reference.g_test(row, enumerate_machine(model, beta).probabilities) > SURE, beta


@pairwise(kernel=[None, "lookup"], rule=["gibbs", "metropolis"], units=UNITS, cluster=[False, True])
def test_every_temperature_has_its_own_distribution(kernel: str | None, rule: str, units: str, cluster: bool) -> None:
    model = machine("general", units, seed=3, scale=0.5 if units == "spin" else 1.2)
    chains = TemperedChains(model, 1000, [0.3, 0.7, 1.2], kernel=kernel, rule=rule, seed=1, cluster=cluster)
    if cluster:
        move_everywhere(chains)
    assert_boltzmann(model, chains, 50, 8)
    assert np.all(chains.accepted < 0.97 * chains.attempted)


@pytest.mark.parametrize("kind", ["sparse", "layers"])
def test_other_couplings(kind: str) -> None:
    model = machine(kind, "binary", seed=4, scale=1.0)
    assert_boltzmann(model, TemperedChains(model, 1000, [0.0, 0.6, 1.0], seed=2, cluster=kind == "sparse"), 50, 8)


@pytest.mark.parametrize("units", ["spin", pytest.param("binary", marks=pytest.mark.slow)])
def test_clusters_of_machines_without_field(units: str) -> None:
    """Pairs of negative overlap are moved as if one replica were turned, and the sign of the overlap stays free."""
    model = unbiased(units)
    chains = TemperedChains(model, 1000, [0.2, 0.6, 1.0], seed=3, cluster=True)
    assert chains._moves is not None
    assert chains._moves._symmetric
    move_everywhere(chains)
    assert_boltzmann(model, chains, 50, 8)
    pairs, probabilities = np.zeros(4096, int), enumerate_machine(model, 1.0).probabilities
    for _ in range(100):
        chains.sweep(8)
        pairs += np.bincount((chains.bits() @ (1 << np.arange(6))).reshape(-1, 2) @ [1, 64], minlength=4096)
    assert reference.g_test(pairs, np.outer(probabilities, probabilities).ravel()) > SURE


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    ("model", "levels"),
    [
        (bm.models.edwards_anderson((6, 6)), [0, 1, 2, 3]),  # half of a planar lattice does not percolate
        (bm.models.edwards_anderson((4, 4, 4)), [2, 3]),  # beta J >= 1
        (bm.BoltzmannMachine(2.0 * bm.models.edwards_anderson((4, 4, 4)).weights), [1, 2, 3]),
        (machines.flat(9), [0, 1, 2, 3]),
    ],
)
def test_clusters_are_moved_where_they_do_not_percolate(
    model: bm.BoltzmannMachine, levels: list[int], units: str
) -> None:
    chains = TemperedChains(model.to_units(units), 4, [0.3, 0.6, 1.1, 2.0], cluster=True)
    assert chains.detail["cluster moves at levels"] == levels
    chains.sweep(3)


def test_a_bias_for_every_ladder() -> None:
    model, fields = unbiased("spin"), np.array([[0.8], [-0.5]]) * np.ones((2, 6))
    bias = np.repeat(fields, 600, axis=0)
    chains = TemperedChains(model, 1200, [0.3, 0.9], seed=4, bias=bias, cluster=True)
    move_everywhere(chains)
    chains.sweep(60)
    counts = np.zeros((2, 64), int)
    for _ in range(90):
        chains.sweep(8)
        codes = (chains.bits() @ (1 << np.arange(6))).reshape(2, 600)
        counts += [np.bincount(row, minlength=64) for row in codes]
    for row, b in zip(counts, fields, strict=True):
        tilted = bm.BoltzmannMachine(model.weights, b)
        assert reference.g_test(row, enumerate_machine(tilted, 0.9).probabilities) > SURE


# Ladders


@pytest.mark.parametrize(
    ("model", "n_betas"),
    [(bm.models.sherrington_kirkpatrick(64, seed=1), 8), (bm.models.edwards_anderson((12, 12)), 12)],
)
def test_a_tuned_ladder_swaps_equally_often(model: bm.BoltzmannMachine, n_betas: int) -> None:
    """Within 0.1 of their mean, but for the coldest pair, whose energies are far from Gaussian."""
    betas = equal_steps(energy_profile(model, 0.1, 1.5, seed=3), n_betas)
    chains = TemperedChains(model, 32, betas, seed=1)
    chains.sweep(1000)
    rates = (chains.accepted / chains.attempted)[:-1]
    assert np.all(np.abs(rates - rates.mean()) < 0.1), rates
    even = TemperedChains(model, 32, np.geomspace(0.1, 1.5, n_betas), seed=1)
    even.sweep(300)
    assert np.ptp((even.accepted / even.attempted)[:-1]) > 2 * np.ptp(rates)


@pytest.mark.parametrize(
    ("model", "options", "text"),
    [
        (GLASS, {"n_chains": 3, "cluster": True}, "n_chains and first_chain must be even; got n_chains = 3"),
        (GLASS, {"n_chains": 2, "first_chain": 1, "cluster": True}, "first_chain = 1"),
        (LATTICE, {"n_chains": 17, "cluster": True, "kernel": "lookup"}, "must be even; got n_chains = 17"),
        (bm.models.sherrington_kirkpatrick(80), {"n_chains": 2, "cluster": True}, "needs sparse couplings; .* 79"),
        (LATTICE, {"n_chains": 2, "cluster": True, "bias": np.eye(2, 36)}, "the same biases"),
        (LATTICE, {"n_chains": 64, "kernel": "multispin"}, "consecutive chains must have one beta"),
    ],
)
def test_wrong_settings_are_refused(model: bm.BoltzmannMachine, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        TemperedChains(model, options.pop("n_chains"), BETAS, **options)


# What is recorded


@pytest.mark.parametrize("kernel", [None, "lookup"])
def test_records_tell_of_every_level(kernel: str | None) -> None:
    model = bm.BoltzmannMachine(LATTICE.weights, offset=7.0)
    chains = TemperedChains(model, 3, BETAS, kernel=kernel, seed=1, swap_every=2)
    rows = chains.record(20, 3)
    assert {name: row.shape[1:] for name, row in rows.items()} == {
        "samples/states": (3, 5),
        "samples/energy": (3,),
        **{name: stream.shape for name, stream in chains.streams.items()},
    }
    assert all(rows[name].dtype == stream.numpy_dtype for name, stream in chains.streams.items())
    up = np.unpackbits(rows["samples/states"], axis=2, count=36, bitorder="little")
    np.testing.assert_allclose(model.energy(2 * up.astype(np.int8) - 1), rows["samples/energy"] + 7.0, rtol=1e-12)
    assert np.array_equal(rows["tempering/energy"][:, :, -1], rows["samples/energy"] + 7.0)
    assert np.array_equal(chains.bits(), up[-1])
    assert np.array_equal(chains.packed(), rows["samples/states"][-1])
    assert np.array_equal(chains.energies(), rows["samples/energy"][-1])
    # after sweep 3 t there were floor(3 t / 2) rounds, every second one with pairs (0, 1), (2, 3) of 3 ladders
    rounds = 3 * np.arange(1, 21) // 2
    expected = 3 * np.stack([-(-rounds // 2), rounds // 2, -(-rounds // 2)], axis=1)
    assert np.array_equal(rows["tempering/attempted"], expected)
    assert np.all(rows["tempering/accepted"] <= expected)
    assert np.all(np.diff(rows["tempering/round_trips"], axis=0) >= 0)


@pytest.mark.parametrize("kernel", [None, "lookup"])
def test_initial_states_are_those_of_all_replicas(kernel: str | None) -> None:
    states = 2 * np.random.default_rng(0).integers(0, 2, (3, 36)) - 1
    for initial, values in ((states, states), (states[0], states[0]), ("up", np.ones(36))):
        chains = TemperedChains(LATTICE, 3, BETAS, kernel=kernel, initial=initial)
        up = (np.broadcast_to(values, (3, 36)) == 1)[:, None]
        assert np.array_equal(chains.engine.bits()[chains.lanes], np.broadcast_to(up, (3, 4, 36)))


# The same bits


CASES = [
    pytest.param(GLASS, {}, id="dense"),
    pytest.param(GLASS, {"rule": "metropolis", "swap_every": 3}, id="metropolis"),
    pytest.param(LATTICE, {}, id="sparse"),
    pytest.param(LATTICE, {"cluster": True, "swap_every": 2}, id="clusters"),
    pytest.param(bm.models.edwards_anderson((32, 32)), {"cluster": True}, id="clusters-on-threads"),
    pytest.param(bm.models.restricted(12, 9, seed=1), {}, id="layered"),
    pytest.param(LATTICE, {"kernel": "lookup", "cluster": True, "swap_every": 2}, id="lookup"),
]


def assert_same_state(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert value.dtype == second[name].dtype
        assert np.array_equal(value, second[name]), name


@pytest.mark.parametrize(("model", "options"), CASES)
def test_threads_and_pieces_do_not_matter(model: bm.BoltzmannMachine, options: dict[str, Any]) -> None:
    one = TemperedChains(model, 20, BETAS, seed=5, threads=1, **options)
    two = TemperedChains(model, 20, BETAS, seed=5, threads=2, **options)
    expected = one.record(6, 5)
    found = two.record(2, 5)
    two.sweep(2)
    state = two.state()
    other = TemperedChains(model, 20, BETAS, seed=5, threads=2, **options)
    other.sweep(1)
    other.restore(state)
    later = [other.record(1, 3), other.record(3, 5)]
    for name, rows in expected.items():
        assert np.array_equal(np.concatenate([found[name], *(part[name] for part in later)]), rows), name
    assert_same_state(one.state(), other.state())


@pytest.mark.parametrize("n_chains", [1, 2, 5])
@pytest.mark.parametrize("model", [GLASS, LARGER_GLASS, LATTICE, bm.models.restricted(12, 9, seed=1)])
def test_rounds_of_whole_ladders_are_those_one_by_one(
    model: bm.BoltzmannMachine, n_chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few lanes and many, energies of fields and summed anew; threads have blocks of ladders whatever that is worth."""
    bias = model.flat_bias + 0.1 * np.arange(n_chains)[:, None]
    monkeypatch.setattr(lanes_of, "WORTH_A_THREAD", 0.0)
    monkeypatch.setattr(lanes_of, "SHORTEST_BLOCK", 1e-12)

    def ladders(betas: Any) -> TemperedChains:
        options: dict[str, Any] = {"threads": 2, "at_once": 1 << 30, "swap_every": 2, "whole": True}
        return TemperedChains(model, n_chains, betas, seed=5, bias=bias, **options)

    for betas in (BETAS, np.linspace(0.1, 1.5, 17)):
        found, plain = ladders(betas), ladders(betas)
        assert len(found.engine.blocks) >= min(2, n_chains)
        found.sweep(3)
        rows = found.record(7, 3)
        with monkeypatch.context() as patch:
            patch.setattr(TemperingChains, "tempers", lambda *_: False)
            plain.sweep(3)
            expected = plain.record(7, 3)
        assert_same_state(rows, expected)
        assert_same_state(found.state(), plain.state())


@pytest.mark.parametrize(("model", "kernel", "n_chains"), [(LARGER_GLASS, "dense", 160), (LATTICE, "sparse", 300)])
def test_blocks_that_cannot_be_dealt_out_evenly_take_turns(
    model: bm.BoltzmannMachine, kernel: str, n_chains: int
) -> None:
    one, two = (
        TemperedChains(model, n_chains // 4, BETAS, seed=5, threads=1, swap_every=2, whole=True) for _ in range(2)
    )
    betas = np.linspace(0.1, 1.0, 41)
    alone, shared = (make_chains(model, n_chains, kernel=kernel, highest_beta=1.0, seed=3, threads=1) for _ in range(2))
    for engine in (two.engine, shared):
        engine.threads, engine.attempt_seconds = 2, 70.0 * engine.attempt_seconds  # so that they are worth threads
        assert len(engine.blocks) % 2 and engine._n_turns(40, 40) == 2
    for n_samples, thin in ((13, 3), (1, 40)):
        assert_same_state(two.record(n_samples, thin), one.record(n_samples, thin))
        assert_same_state(two.state(), one.state())
    told = [1, 20, 41]
    assert np.array_equal(cool(shared, betas, told), cool(alone, betas, told))
    assert_same_state(shared.state(), alone.state())


@pytest.mark.parametrize(("model", "options"), CASES)
def test_ladders_run_together_or_apart(model: bm.BoltzmannMachine, options: dict[str, Any]) -> None:
    n_first = 32 if options.get("kernel") == "lookup" else 2
    together = TemperedChains(model, n_first + 4, BETAS, seed=5, **options).record(5, 4)
    first = TemperedChains(model, n_first, BETAS, seed=5, **options).record(5, 4)
    second = TemperedChains(model, 4, BETAS, seed=5, first_chain=n_first, **options).record(5, 4)
    for name in ("samples/states", "tempering/round_trips"):
        assert np.array_equal(np.concatenate([first[name], second[name]], axis=1), together[name])
    for name in ("tempering/accepted", "tempering/attempted"):
        assert np.array_equal(first[name] + second[name], together[name])
    energies = np.concatenate([first["tempering/energy"], second["tempering/energy"]], axis=1)
    np.testing.assert_allclose(energies, together["tempering/energy"], rtol=1e-13)


@pytest.mark.parametrize("cluster", [False, True])
def test_a_run_that_was_halted_goes_on_with_the_same_bits(cluster: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chains, other = (TemperedChains(LATTICE, 64, BETAS, seed=1, cluster=cluster) for _ in range(2))
    if cluster:
        monkeypatch.setattr(houdayer, "UNIT_SECONDS", 1e-3)  # so that moves count as long
    else:
        chains.engine.attempt_seconds = 1e-3
    asked: list[int] = []
    chains.sweep(1)
    state = chains.state()
    chains.halt = lambda: len(asked) > 2 or bool(asked.append(1))
    with pytest.raises(Halted):
        chains.sweep(50)
    chains.halt = lambda: False
    chains.restore(state)
    chains.sweep(1)
    other.sweep(2)
    assert_same_state(chains.state(), other.state())


def test_ladders_in_words() -> None:
    """Many ladders of a graph of few neighbours look up; parts of fewer, or cut within words, are refused."""
    options = {"sampler": "tempering", "betas": [0.2, 0.5], "n_sweeps": 4}

    def kernel_of(n_chains: int, **more: object) -> object:
        return machines.calm(bm.sample, LATTICE, n_chains=n_chains, **options, **more).config["sample"]["kernel"]

    assert kernel_of(15) == "sparse"
    assert kernel_of(16) == kernel_of(100) == kernel_of(32, first_chain=64) == "lookup"
    assert kernel_of(1, kernel="lookup") == "lookup"
    for first, n_chains in ((8, 8), (16, 16), (32, 4)):
        with pytest.raises(ValueError, match=f"first_chain = {first}: {first + n_chains} ladders .*multiple of 32"):
            kernel_of(n_chains, first_chain=first)
    with pytest.raises(ValueError, match="ladders come in words of 32; first_chain is 8"):
        kernel_of(8, first_chain=8, kernel="lookup")
    with pytest.raises(ValueError, match=r'kernel="lookup" takes graphs .* a unit has 39 neighbours'):
        bm.sample(GLASS, n_chains=32, kernel="lookup", **options)


def test_flips_of_ladders_that_fill_up_words_do_not_count() -> None:
    chains = TemperedChains(LATTICE, 5, [0.3, 0.4], kernel="lookup", seed=2)
    before = chains.engine.bits()[chains.lanes]
    chains.engine.sweep(1)
    assert chains.n_flips == (before != chains.engine.bits()[chains.lanes]).sum() > 0


@pytest.mark.parametrize("way", ["every decision is close", "one call a sweep", "couplings far apart", "three threads"])
def test_rounds_in_one_call_are_those_of_many(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swaps are those that energies summed in float64 decide, for ladders that fill words and those beyond.

    Three threads share four blocks, of which each has a third more than one.
    """
    model = bm.models.edwards_anderson((4, 4, 3), distribution="gaussian", field=0.2, seed=3)

    def ladders(threads: int = 1) -> TemperedChains:
        betas = np.linspace(0.2, 1.0, 7)
        return TemperedChains(model, 40, betas, kernel="lookup", seed=4, swap_every=2, threads=threads, whole=True)

    plain = ladders()
    monkeypatch.setattr(lookup, "WORTH_A_MEETING", 0.0)
    monkeypatch.setattr(lookup, "WORTH_A_TEAM", 0.0)
    if way == "one call a sweep":
        monkeypatch.setattr(LookupChains, "most_rounds", lambda *_: 0)
    elif way != "three threads":
        monkeypatch.setattr(edges, "ENERGY_ERROR", 10.0 if way == "every decision is close" else 0.0)
    other = ladders(threads=3)
    for chains in (plain, other):
        for n_sweeps in (3, 40, 2, 1, 30):
            chains.sweep(n_sweeps)
    for n_samples, thin in ((5, 4), (2, 3)):
        rows = other.record(n_samples, thin)
        with monkeypatch.context() as patch:
            patch.setattr(LookupChains, "most_rounds", lambda *_: 0)
            assert_same_state(rows, plain.record(n_samples, thin))
    assert all(np.array_equal(array, other.state()[name]) for name, array in plain.state().items())
    assert plain.accepted.sum() > 100
    assert plain.round_trips.sum() > 0
