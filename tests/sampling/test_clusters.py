"""Cluster updates against their twins, against enumeration, and against the exact lattice; bits and refusals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import diagnostics, lattice
from fastbm._base import rng
from fastbm._base.halting import Halted
from fastbm.kernels.ahead import BLOCK, MARKS, leaps
from fastbm.kernels.graph import fix_gauge
from fastbm.kernels.random import draw_bits, logit_of_bits
from fastbm.kernels.sampling import clusters as moves
from fastbm.kernels.sampling.clusters import draw_word, next_ahead, put_back, swendsen_wang_update
from fastbm.sampling.chains import start_bits
from fastbm.sampling.clusters import RULES, ClusterChains, bond_cuts
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import SURE, enumerate_machine, g_test
from tests.twins import clusters as twins, reference

THIN = {"wolff": 48, "swendsen-wang": 8}  # sweeps between samples that are as good as independent
GENERATOR = np.random.default_rng(5)


def symmetric(n: int, edges: dict[tuple[int, int], float]) -> np.ndarray:
    weights = np.zeros((n, n))
    for (i, j), value in edges.items():
        weights[i, j] = weights[j, i] = value
    return weights


def random_ferromagnet(n: int, density: float = 1.0, scale: float = 0.4, seed: int = 1) -> np.ndarray:
    generator = np.random.default_rng(seed)
    kept = np.triu(generator.random((n, n)) < density, 1) * generator.uniform(0.1, scale, (n, n))
    return kept + kept.T


def mattis(n: int, **settings: Any) -> np.ndarray:
    signs = np.where(np.arange(n) % 3 == 1, -1, 1)
    return random_ferromagnet(n, **settings) * np.outer(signs, signs)


RING = symmetric(7, {(i, (i + 1) % 7): 0.5 for i in range(7)})
PARTS = symmetric(7, {(0, 3): 0.8, (1, 4): -0.6, (4, 6): 0.3})  # units 2 and 5 stand alone
WEIGHTS = {
    "ring": RING,
    "ferromagnet": random_ferromagnet(6),
    "mattis": mattis(7, density=0.6, scale=0.7),
    "parts": PARTS,
}
FIELDS = {
    "none": lambda n: np.zeros(n),
    "uniform": lambda n: np.full(n, 0.3),
    "random": lambda n: np.cos(3.0 * np.arange(n)),
}


def machine(weights: str, field: str, units: str = "spin") -> bm.BoltzmannMachine:
    matrix = WEIGHTS[weights]
    return bm.BoltzmannMachine(matrix, FIELDS[field](len(matrix))).to_units(units)


def make(model: bm.BoltzmannMachine, rule: str, n_chains: int = 1, **settings: Any) -> ClusterChains:
    """Chains as `make_chains` makes them."""
    given = {"beta": 1.0, "seed": 0, "threads": 1, "first": 0, "initial": "random", "burn_in": 0} | settings
    seed, first, initial = given["seed"], given.pop("first"), given.pop("initial")
    up = start_bits(initial, model.n_units, n_chains, seed, first, model.convention)
    streams = rng.streams(seed, n_chains, first=first)
    bias = given.pop("bias", model.flat_bias)
    return ClusterChains(model.couplings, bias, model.convention, up, streams, rule=rule, **given)


def unpack(packed: np.ndarray, n_units: int) -> np.ndarray:
    return np.unpackbits(packed, axis=-1, count=n_units, bitorder="little")


def sample(model: bm.BoltzmannMachine, rule: str, **settings: Any) -> np.ndarray:
    """25600 states as bits, (64, 400, n_units)."""
    chains = make(model, rule, 400, **settings)
    chains.sweep(4 * THIN[rule])
    return unpack(chains.record(64, THIN[rule])["samples/states"], model.n_units)


# Words


def test_words_are_those_of_the_lanes() -> None:
    stream = rng.streams(3, 1)[0].copy()
    lanes, bits = stream[:, None].copy(), np.empty((50, 1), np.uint32)
    for row in bits:
        draw_bits(lanes, row)
    assert [int(draw_word(stream)) for _ in range(50)] == bits[:, 0].tolist()
    assert np.array_equal(stream, lanes[:, 0])


def room() -> tuple[np.ndarray, np.ndarray]:
    """Room for words made ahead."""
    return np.empty(BLOCK, np.uint32), np.empty(MARKS, np.uint32)


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_tie_of_the_upper_half_is_broken_by_the_next_word(shift: int) -> None:
    stream = rng.streams(4, 1)[0]
    first, second = itertools.islice(reference.xoshiro(stream), 2)
    graph = bm.models.ising((2,), periodic=False).couplings.csr()[:2]
    for cut, joined in (
        ((first << 32) + second + shift, shift > 0),
        ((first + 1) << 32, True),
        ((first << 32) - 1, False),
    ):
        up, queue, cuts = np.ones(2, np.uint8), np.empty(3, np.int32), np.array([cut], np.uint64)
        total = swendsen_wang_update(up, queue, (*graph, cuts), np.empty(0), stream.copy(), leaps(), 1)
        assert total == (4.0 if joined else 2.0)


@pytest.mark.parametrize("n", [0, 1, 700, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_words_made_ahead_are_put_back(n: int) -> None:
    stream, block, at = rng.streams(4, 1)[0].copy(), room(), BLOCK
    words = reference.xoshiro(stream.tolist())
    for _ in range(n):
        word, at = next_ahead(*block, stream, leaps(), at)
        assert word == next(words)
    put_back(*block, stream, at)
    assert draw_word(stream) == next(words)


def test_a_cluster_without_a_field_goes_up_with_the_sign_of_its_logit() -> None:
    for word in (0, 1, 2**30, *range(2**31 - 300, 2**31 + 300), 2**32 - 1):
        assert (np.uint32(word) < moves.DOWN) == (logit_of_bits(np.uint32(word)) < 0)


def test_indices_reach_both_ends() -> None:
    stream = rng.streams(5, 1)[0].copy()
    assert sorted({int(moves.index_of(draw_word(stream), 5)) for _ in range(200)}) == [0, 1, 2, 3, 4]
    assert {int(moves.index_of(draw_word(stream), 1)) for _ in range(20)} == {0}


@pytest.mark.parametrize(
    "strength", [0.0, 1e-300, 1e-15, 1e-3, 0.5, 0.7 - 1e-16, 0.7, 1.0, 20.0, 44.0, 44.5, 1e6, np.inf]
)
def test_bond_probabilities_are_right_in_both_tails(strength: float) -> None:
    cut = int(bond_cuts(np.array([strength]))[0])
    exact = twins.in_64_digits(twins.bond_probability(0.5, strength)) if np.isfinite(strength) else 2**64 - 1
    assert 0 <= cut < 2**64
    assert abs(cut - exact) <= max(1, min(exact, 2**64 - exact) // 2**51)


# Twins


@pairwise(rule=RULES, weights=WEIGHTS, field=FIELDS)
def test_updates_are_those_of_the_twin(rule: str, weights: str, field: str) -> None:
    model, beta = machine(weights, field), 0.7
    matrix, bias = machines.parameters(model)
    chains = make(model, rule, 3, beta=beta, seed=8)
    gauge = next(g for g in reversed(twins.gauges(matrix)) if g == tuple(twins.first_is_up(matrix, g)))
    states = [[2 * int(bit) - 1 for bit in row] for row in chains.bits()]
    words = [reference.xoshiro(stream) for stream in rng.streams(8, 3)]
    for _ in range(60):
        found = chains.record(1, 1)["clusters/size"][0]
        for c, state in enumerate(states):
            if rule == "wolff":
                size = float(twins.wolff(state, matrix, bias, beta, words[c]))
            else:
                sizes = twins.swendsen_wang(state, matrix, bias, beta, words[c], gauge)
                size = sum(s * s for s in sizes) / len(state)
            assert found[c] == pytest.approx(size, rel=1e-15)
        assert np.array_equal(2 * chains.bits().astype(int) - 1, states)


# Distributions: p-values above 1e-6, so a right sampler fails one of these 60 tests once in 16000 changes of its stream


@pairwise(rule=RULES, weights=WEIGHTS, field=FIELDS, units=machines.UNITS)
def test_samples_have_the_boltzmann_distribution(rule: str, weights: str, field: str, units: str) -> None:
    model = machine(weights, field, units)
    assert g_test(sample(model, rule, beta=0.8, seed=3), enumerate_machine(model, 0.8).probabilities) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_ten_units_strongly_coupled(rule: str) -> None:
    model = bm.BoltzmannMachine(mattis(10, density=0.5, scale=1.0), 0.2 * np.sin(np.arange(10.0)))
    _, log_p = machines.log_joint(*machines.parameters(model), "spin", 1.0)
    assert g_test(sample(model, rule, seed=5), np.exp(log_p)) > SURE


@pairwise(rule=RULES, n=[1, 2, 5], field=[0.0, 0.7])
def test_units_without_couplings(rule: str, n: int, field: float) -> None:
    model = bm.BoltzmannMachine(np.zeros((n, n)), np.full(n, field))
    states = sample(model, rule, initial="up")
    assert g_test(states, enumerate_machine(model).probabilities) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_units_that_always_move_together(rule: str) -> None:
    """Nothing is ever rejected, and yet the chain has no period."""
    model = bm.BoltzmannMachine(symmetric(3, {(0, 1): 1e6, (1, 2): -1e6}))
    states = sample(model, rule, initial=np.array([1, 1, -1]))
    share = (states == [1, 1, 0]).all(axis=-1).mean()
    assert ((states == [1, 1, 0]).all(axis=-1) | (states == [0, 0, 1]).all(axis=-1)).all()
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(64 * 400)  # five sigma


@pytest.mark.parametrize("rule", RULES)
def test_every_chain_has_its_own_temperature(rule: str) -> None:
    model, betas = machine("mattis", "random", "binary"), [0.0, 0.4, 1.3]
    chains = make(model, rule, 1200, beta=np.tile(betas, 400))
    chains.sweep(4 * THIN[rule])
    states = unpack(chains.record(64, THIN[rule])["samples/states"], model.n_units)
    for k, beta in enumerate(betas):
        assert g_test(states[:, k::3], enumerate_machine(model, beta).probabilities) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_every_chain_has_its_own_field(rule: str) -> None:
    n, streams = 5, rng.streams(2, 800)
    weights, fields = mattis(n), np.array([np.full(n, 0.4), -np.arange(n) / 4])
    model = bm.BoltzmannMachine(weights)
    up = start_bits("random", n, 800, 2, 0, model.convention)
    chains = ClusterChains(
        model.couplings,
        np.tile(fields, (400, 1)),
        model.convention,
        up,
        streams,
        beta=1.0,
        rule=rule,
        seed=2,
        threads=1,
    )
    chains.sweep(4 * THIN[rule])
    recorded = chains.record(64, THIN[rule])
    states = unpack(recorded["samples/states"], n)
    for k, bias in enumerate(fields):
        one = bm.BoltzmannMachine(weights, bias)
        assert g_test(states[:, k::2], enumerate_machine(one).probabilities) > SURE
        np.testing.assert_allclose(
            recorded["samples/energy"][:, k::2], one.energy(2.0 * states[:, k::2] - 1), atol=1e-12
        )


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("rule", RULES)
def test_cluster_sizes_measure_the_squared_magnetisation(rule: str, weights: str) -> None:
    """Without a field two units are equal, in the gauge, more often than not by how often they share a cluster."""
    model, beta = machine(weights, "none"), 0.6
    second = np.abs(enumerate_machine(model, beta).second_moment)
    chains = make(model, rule, 400, beta=beta)
    chains.sweep(4 * THIN[rule])
    sizes = chains.record(64, THIN[rule])["clusters/size"]
    error = sizes.std() / np.sqrt(sizes.size)
    assert abs(sizes.mean() - second.sum() / model.n_units) < 5 * error  # false-alarm rate 6e-7


# The lattice at its critical point


def kaufman_energy(side: int, beta: float, step: float = 1e-4) -> float:
    return -(lattice.kaufman_log_z(side, side, beta + step) - lattice.kaufman_log_z(side, side, beta - step)) / (
        2 * step
    )


@pytest.mark.parametrize(("rule", "n_sweeps"), [("wolff", 4000), ("swendsen-wang", 1500)])
def test_critical_lattice(rule: str, n_sweeps: int) -> None:
    """Energies agree with Kaufman's within four standard errors (false-alarm rate 6e-5).

    tau_int of |m| is 2.3 clusters (1.3 sweeps of the lattice) or 3.0 sweeps, and that of m is 1/2: no memory.
    """
    side, beta = 16, lattice.CRITICAL_BETA
    chains = make(bm.models.ising((side, side)), rule, 32, beta=beta, seed=1)
    chains.sweep(500)
    recorded = chains.record(n_sweeps, 1)
    energy, size = recorded["samples/energy"], recorded["clusters/size"]
    assert abs(energy.mean() - kaufman_energy(side, beta)) < 4 * diagnostics.standard_error(energy)
    magnetisation = 2 * unpack(recorded["samples/states"], side**2).mean(axis=-1) - 1
    assert diagnostics.tau_int(np.abs(magnetisation)) < 4
    assert diagnostics.tau_int(magnetisation) < 0.6
    square = (side * magnetisation) ** 2
    error = diagnostics.standard_error(square) + diagnostics.standard_error(size)
    assert abs(square.mean() - size.mean()) < 4 * error


def test_single_spins_are_slow_at_the_critical_point() -> None:
    """On the same lattice tau_int of |m| is 29 sweeps and that of m about 1000 with sequential Gibbs updates."""
    model = bm.models.ising((16, 16))
    run = bm.sample(model, beta=lattice.CRITICAL_BETA, n_chains=32, n_sweeps=12000, burn_in=500)
    assert diagnostics.tau_int(np.abs(run.magnetisation)) > 20
    assert diagnostics.tau_int(run.magnetisation) > 300


# Energies, samples, states


@pytest.mark.parametrize("units", machines.UNITS)
@pytest.mark.parametrize("rule", RULES)
def test_energies_are_those_of_the_states(rule: str, units: str) -> None:
    model = machine("mattis", "random", units)
    chains = make(model, rule, 9, beta=0.5)
    recorded = chains.record(5, 2)
    values = model.convention.values(unpack(recorded["samples/states"], model.n_units), np.float64)
    np.testing.assert_allclose(recorded["samples/energy"], model.energy(values) - model.offset, atol=1e-12)
    np.testing.assert_allclose(chains.energies(), recorded["samples/energy"][-1], rtol=0, atol=1e-12)
    assert np.array_equal(chains.packed(), recorded["samples/states"][-1])
    assert np.array_equal(chains.bits(), unpack(recorded["samples/states"][-1], model.n_units))
    assert (chains.n_swept, chains.n_chains, chains.n_units) == (10, 9, 7)
    assert recorded.keys() - {"samples/states", "samples/energy"} == chains.streams.keys()
    assert chains.streams["clusters/size"].shape == (9,)
    assert chains.detail["kernel"] == rule


def test_layered_machines() -> None:
    model = machines.machine("restricted", "binary")
    blocks = [np.abs(block) for block in model.weights]
    model = bm.BoltzmannMachine(blocks, model.flat_bias, units="binary")
    assert g_test(sample(model, "swendsen-wang"), enumerate_machine(model).probabilities) > SURE


@pytest.mark.parametrize("rule", RULES)
def test_huge_fields_and_couplings_do_no_harm(rule: str) -> None:
    model = bm.BoltzmannMachine(1e150 * random_ferromagnet(4), np.array([1e150, -1e150, 0.0, 1e-300]))
    chains = make(model, rule, 8, beta=1e200)
    chains.sweep(50)
    assert np.isfinite(chains.energies()).all()
    assert set(np.unique(chains.bits())) <= {0, 1}


# Bits


@pytest.mark.parametrize("rule", RULES)
def test_bits_do_not_depend_on_threads_or_company(rule: str) -> None:
    model = bm.models.ising((12, 12), field=0.01)
    one, two = (make(model, rule, 13, beta=0.42, threads=threads).record(40, 10) for threads in (1, 2))
    parts = [make(model, rule, n, beta=0.42, first=first).record(40, 10) for first, n in ((0, 1), (1, 5), (6, 7))]
    for name, array in one.items():
        assert array.tobytes() == two[name].tobytes()
        assert array.tobytes() == np.concatenate([part[name] for part in parts], axis=1).tobytes()


@pytest.mark.parametrize("rule", RULES)
def test_a_stopped_run_goes_on_as_if_it_had_not_been(rule: str) -> None:
    model = machine("mattis", "random", "binary")
    whole = make(model, rule, 5, burn_in=4)
    whole.sweep(4)
    expected = whole.record(3, 7)
    first, again = make(model, rule, 5, burn_in=4), make(model, rule, 5, burn_in=4, seed=99)
    first.sweep(2)
    first.sweep(2)
    start = first.record(1, 7)
    first.sweep(3)
    again.restore({name: array.copy() for name, array in first.state().items()})
    first.sweep(5)
    assert again.n_swept == 14
    parts = [start, again.record(1, 4), again.record(1, 7)]
    for name, array in expected.items():
        assert array.tobytes() == np.concatenate([part[name] for part in parts]).tobytes()
    for name, array in whole.state().items():
        assert np.array_equal(array, again.state()[name]), name


def test_kernels_have_one_compiled_signature() -> None:
    kernels = (moves.wolff_updates, moves.swendsen_wang_updates, fix_gauge)
    for rule, weights, field in itertools.product(RULES, WEIGHTS, FIELDS):
        make(machine(weights, field), rule, 2, beta=[0.0, 1.0]).record(2, 2)
    assert all(len(getattr(kernel, "signatures", [0])) == 1 for kernel in kernels)


@pytest.mark.parametrize("rule", RULES)
def test_long_sweeps_are_broken_off_and_short_ones_are_not(rule: str) -> None:
    chains = make(bm.models.ising((64, 64)), rule, 2)
    start = chains.state()
    chains.halt = lambda: True
    chains.sweep(1)
    with pytest.raises(Halted):
        chains.sweep(10_000)
    chains.restore(start)
    chains.halt = lambda: False
    chains.sweep(1)
    assert chains.n_swept == 1


# Frustration


@pytest.mark.parametrize("rule", RULES)
def test_frustration_is_refused(rule: str) -> None:
    model = bm.BoltzmannMachine(symmetric(5, {(0, 1): 1.0, (1, 4): 1.0, (2, 4): -1.0, (1, 2): 1.0}))
    text = rf'sampler="{rule}" needs couplings without frustration; the loop through units 2 and 4 .*"tempering"'
    with pytest.raises(ValueError, match=text):
        make(model, rule)
