"""Dense sweeps against their twin (the same path, flip by flip) and against the exact distribution (G-tests)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm.kernels.sampling.dense import (
    advance_dense,
    are_blocks_faster,
    enter_block,
    init_fields_dense,
    leave_block,
    room_of_fields,
    visit_units,
)
from fastbm.sampling.engine.dense import dense_room
from tests.support.combinations import pairwise
from tests.twins import reference

RULES, UNITS = ["gibbs", "metropolis"], ["spin", "binary"]
FIELD_TYPES = [np.int32, np.int64]
FRACTION = 2.0**-16  # couplings are multiples of it, so that fixed point holds them exactly
FIXED = {np.int32: 2.0**20, np.int64: 2.0**40}
FALSE_ALARM = 1e-4  # of one G-test, over seeds


class Machine(NamedTuple):
    """A random machine whose couplings fixed point holds exactly."""

    weights: np.ndarray
    bias: np.ndarray
    units: str

    @classmethod
    def draw(cls, n: int, units: str, seed: int, scale: float = 1.0) -> Machine:
        generator = np.random.default_rng(seed)
        scale *= 1.0 if units == "spin" else 3.0
        weights = np.triu(generator.normal(scale=scale / np.sqrt(n), size=(n, n)), 1)
        weights, bias = (np.round(x / FRACTION) * FRACTION for x in (weights, generator.normal(scale=0.3, size=n)))
        return cls(weights + weights.T, bias, units)


class Lanes(NamedTuple):
    """What the sweeps work on."""

    up: np.ndarray
    fields: np.ndarray
    rises: np.ndarray
    start: np.ndarray
    scale: np.ndarray
    streams: np.ndarray

    def sweep(self, sites: np.ndarray, n_sweeps: int, rule: str = "gibbs", hold: int = 0) -> int:
        visits = np.ascontiguousarray(sites, np.int32), n_sweeps, None if rule == "gibbs" else np.uint32(hold)
        chains = self.fields, self.rises, self.scale, self.streams
        return advance_dense(self.up, chains, *visits, dense_room(self.up, self.fields))

    def recomputed(self) -> np.ndarray:
        up = self.up[:, : len(self.start)].T.astype(self.rises.dtype)
        return self.start + up @ self.rises


def lanes_of(
    machine: Machine, up: np.ndarray, streams: np.ndarray, betas, dtype=np.int32, n_chains=None, apart: int = 0
) -> Lanes:
    """Fixed point: fields in steps of 1 / FIXED, rows padded to a multiple of 64, and `apart` columns more."""
    n, n_lanes = up.shape
    lo, hi = reference.VALUES[machine.units]
    n_chains = n_lanes if n_chains is None else n_chains
    width = -(-n // 64) * 64 + apart
    rises = np.zeros((n, width), dtype)
    rises[:, :n] = np.rint((hi - lo) * machine.weights * FIXED[dtype])
    start = np.zeros((n_chains, width), dtype)
    start[:, :n] = np.rint((machine.bias + lo * machine.weights.sum(axis=1)) * FIXED[dtype])
    scale = np.broadcast_to(FIXED[dtype] / (np.asarray(betas) * (hi - lo)), n_lanes).astype(np.float32)
    fields = np.empty((n_chains, width), dtype)
    init_fields_dense(fields, up, rises, start, room_of_fields(fields))
    return Lanes(up, fields, rises, start, scale, streams)


def random_streams(n_lanes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 2**32, (4, n_lanes), dtype=np.uint32)


def random_bits(n: int, n_lanes: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, n_lanes), dtype=np.uint8)


def site_rows(order: str, n: int, rows: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    if order == "sequential":
        return np.arange(n)[None, :]
    if order == "permuted":
        return np.array([generator.permutation(n) for _ in range(rows)])
    return generator.integers(0, n, (rows, n))


def twin_sweeps(machine: Machine, bits, words, beta: float, sites: np.ndarray, n_sweeps: int, rule: str):
    """Run one chain slowly; return its bits and its flips."""
    lo, hi = reference.VALUES[machine.units]
    state = [hi if bit else lo for bit in bits]
    flips = 0
    for t in range(n_sweeps):
        row = sites[t % len(sites)].tolist()
        flips += reference.sweep(state, machine.weights, machine.bias, machine.units, beta, words, row, rule)
    return [int(value == hi) for value in state], flips


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("dtype", FIELD_TYPES)
def test_path_is_that_of_the_twin(rule, units, dtype):
    n, n_sweeps, betas = 11, 25, np.array([0.1, 0.5, 1.0, 2.0, 7.0])
    machine = Machine.draw(n, units, seed=1)
    streams, before = random_streams(5, seed=2), random_bits(n, 5, seed=3)
    sites = site_rows("random", n, 10, seed=4)
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    lanes = lanes_of(machine, before.copy(), streams, betas, dtype)
    n_flips = lanes.sweep(sites, n_sweeps, rule)
    twins = [twin_sweeps(machine, before[:, c], words[c], betas[c], sites, n_sweeps, rule) for c in range(5)]
    assert lanes.up.T.tolist() == [bits for bits, _ in twins]
    assert n_flips == sum(flips for _, flips in twins)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ["sequential", "permuted", "random"])
@pytest.mark.parametrize("dtype", FIELD_TYPES)
def test_path_of_many_chains_is_that_of_the_twin(rule, order, dtype):
    # fields of so many bytes are moved once a block of attempts, until flips become rare
    n, n_lanes, n_chains, n_sweeps, looked_at = 150, 160, 150, 3, (0, 77, 149)
    machine, betas = Machine.draw(n, "spin", seed=43), np.full(n_lanes, 0.4)
    streams, before = random_streams(n_lanes, seed=44), random_bits(n, n_lanes, seed=45)
    words = [reference.xoshiro(streams[:, c].tolist()) for c in looked_at]
    lanes = lanes_of(machine, before.copy(), streams, betas, dtype, n_chains, apart=64)
    sites = site_rows(order, n, n_sweeps, seed=46)
    lanes.sweep(sites, n_sweeps, rule)
    assert np.array_equal(lanes.up[:, n_chains:], before[:, n_chains:])
    for c, stream in zip(looked_at, words, strict=True):
        assert lanes.up[:, c].tolist() == twin_sweeps(machine, before[:, c], stream, 0.4, sites, n_sweeps, rule)[0]
    assert np.array_equal(lanes.fields, lanes.recomputed())


@settings(derandomize=True, max_examples=20, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from(RULES),
    st.sampled_from(UNITS),
    st.integers(0, 2**16),
    st.data(),
)
def test_path_is_that_of_the_twin_for_any_size_and_sites(n, n_lanes, rule, units, seed, data):
    row = st.lists(st.integers(0, n - 1), min_size=n, max_size=n)
    sites = np.array(data.draw(st.lists(row, min_size=1, max_size=3)))
    machine = Machine.draw(n, units, seed)
    streams, before = random_streams(n_lanes, seed), random_bits(n, n_lanes, seed + 1)
    words = [reference.xoshiro(stream) for stream in streams.T.tolist()]
    lanes = lanes_of(machine, before.copy(), streams, 1.0)
    lanes.sweep(sites, 7, rule)
    for c in range(n_lanes):
        assert lanes.up[:, c].tolist() == twin_sweeps(machine, before[:, c], words[c], 1.0, sites, 7, rule)[0]


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("dtype", FIELD_TYPES)
def test_initial_fields_are_those_of_the_twin(units, dtype):
    machine = Machine.draw(70, units, seed=5)
    up = random_bits(70, 3, seed=6)
    lanes = lanes_of(machine, up, random_streams(3, seed=7), 1.0, dtype)
    lo, hi = reference.VALUES[units]
    for c in range(3):
        state = np.where(up[:, c], hi, lo)
        exact = [reference.field(state, i, machine.weights, machine.bias) * FIXED[dtype] for i in range(70)]
        assert lanes.fields[c, :70].tolist() == exact
    assert not lanes.fields[:, 70:].any()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("n", [63, 64, 130])
def test_cached_fields_never_drift(rule, dtype, n):
    lanes = lanes_of(
        Machine.draw(n, "spin", seed=8), random_bits(n, 16, seed=9), random_streams(16, seed=10), 0.5, dtype
    )
    assert lanes.sweep(site_rows("permuted", n, 20, seed=11), 1000, rule) > 10_000
    assert np.array_equal(lanes.fields, lanes.recomputed())


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_lanes", [1, 2, 15, 65])
def test_a_chain_does_not_depend_on_the_number_of_lanes(rule, n_lanes):
    n, machine = 20, Machine.draw(20, "binary", seed=12)
    streams, before, sites = (
        random_streams(65, seed=13),
        random_bits(n, 65, seed=14),
        site_rows("random", n, 30, seed=15),
    )
    together = lanes_of(machine, before.copy(), streams.copy(), 1.0)
    together.sweep(sites, 30, rule)
    alone = lanes_of(machine, before[:, :n_lanes].copy(), streams[:, :n_lanes].copy(), 1.0)
    alone.sweep(sites, 30, rule)
    assert np.array_equal(alone.up, together.up[:, :n_lanes])
    assert np.array_equal(alone.streams, together.streams[:, :n_lanes])


def test_lanes_beyond_the_chains_draw_and_never_flip():
    n, machine = 20, Machine.draw(20, "spin", seed=16)
    streams, before = random_streams(16, seed=17), random_bits(20, 16, seed=18)
    padded = lanes_of(machine, before.copy(), streams.copy(), 0.5, n_chains=10)
    whole = lanes_of(machine, before.copy(), streams.copy(), 0.5)
    sites = site_rows("sequential", n, 1, seed=0)
    padded.sweep(sites, 20)
    whole.sweep(sites, 20)
    assert np.array_equal(padded.up[:, :10], whole.up[:, :10])
    assert np.array_equal(padded.up[:, 10:], before[:, 10:])
    assert np.array_equal(padded.streams, whole.streams)


@pytest.mark.parametrize("rule", RULES)
def test_cutting_a_run_into_calls_changes_nothing(rule):
    machine, sites = Machine.draw(9, "spin", seed=19), site_rows("sequential", 9, 1, seed=0)
    streams, before = random_streams(8, seed=20), random_bits(9, 8, seed=21)
    whole = lanes_of(machine, before.copy(), streams.copy(), 1.0)
    parts = lanes_of(machine, before.copy(), streams.copy(), 1.0)
    n_flips = whole.sweep(sites, 30, rule)
    assert sum(parts.sweep(sites, part, rule) for part in (1, 0, 12, 17)) == n_flips
    for one, other in zip(whole, parts, strict=True):
        assert np.array_equal(one, other)


def test_a_held_proposal_is_dropped_by_each_chain_for_itself():
    machine, streams = Machine(np.zeros((6, 6)), np.zeros(6), "spin"), random_streams(64, seed=23)
    lanes = lanes_of(machine, np.ones((6, 64), np.uint8), streams.copy(), 1.0)
    n_flips = lanes.sweep(np.arange(6)[None], 500, "metropolis", hold=1 << 28)
    attempts = 500 * 6 * 64
    expected = attempts * 15 / 16
    assert abs(n_flips - expected) < 4 * np.sqrt(attempts * 15 / 256)  # false alarm 6e-5
    assert len(np.unique(lanes.up, axis=1).T) > 30  # chains that began alike have parted
    always = lanes_of(machine, np.ones((6, 64), np.uint8), streams.copy(), 1.0)
    assert always.sweep(np.arange(6)[None], 50, "metropolis") == 50 * 6 * 64


def sampled_counts(lanes: Lanes, sites: np.ndarray, rule: str, n_samples: int, thin: int, hold: int = 0) -> np.ndarray:
    n = len(lanes.up)
    lanes.sweep(sites, 60, rule, hold)
    counts = np.zeros(2**n, int)
    for _ in range(n_samples):
        lanes.sweep(sites, thin, rule, hold)
        counts += np.bincount((1 << np.arange(n)) @ lanes.up.astype(int), minlength=2**n)
    return counts


@pairwise(rule=RULES, units=UNITS, order=["sequential", "permuted", "random"], dtype=FIELD_TYPES)
def test_samples_have_the_exact_distribution(rule, units, order, dtype):
    # 57,344 samples, 20 sweeps apart in 8,192 chains and so independent; 7 tests: a false alarm in 1400 seeds
    n, n_chains, beta = 7, 8_192, 0.8
    machine = Machine.draw(n, units, seed=25, scale=0.8)
    lanes = lanes_of(machine, random_bits(n, n_chains, seed=26), random_streams(n_chains, seed=27), beta, dtype)
    counts = sampled_counts(lanes, site_rows(order, n, 200, seed=28), rule, n_samples=7, thin=20)
    exact = reference.enumerate_states(machine.weights, machine.bias, units, beta=beta)
    assert reference.g_test(counts, exact.probabilities) > FALSE_ALARM


def test_holding_leaves_the_distribution_as_it_is():
    n, n_chains = 7, 16_384
    machine = Machine.draw(n, "spin", seed=25, scale=0.8)
    lanes = lanes_of(machine, random_bits(n, n_chains, seed=26), random_streams(n_chains, seed=27), 0.8)
    sites = site_rows("random", n, 200, seed=28)
    counts = sampled_counts(lanes, sites, "metropolis", n_samples=7, thin=20, hold=1 << 28)
    exact = reference.enumerate_states(machine.weights, machine.bias, "spin", beta=0.8)
    assert reference.g_test(counts, exact.probabilities) > FALSE_ALARM


def test_the_g_test_would_see_five_percent_in_beta():
    n, n_chains = 7, 16_384
    machine = Machine.draw(n, "spin", seed=25, scale=0.8)
    lanes = lanes_of(machine, random_bits(n, n_chains, seed=26), random_streams(n_chains, seed=27), 0.8)
    counts = sampled_counts(lanes, site_rows("sequential", n, 1, seed=0), "gibbs", n_samples=7, thin=20)
    wrong = reference.enumerate_states(machine.weights, machine.bias, "spin", beta=0.84)
    assert reference.g_test(counts, wrong.probabilities) < 1e-8


@pytest.mark.parametrize("rule", RULES)
def test_units_that_no_row_visits_condition_the_others(rule):
    # 32,768 independent chains; a false alarm in 5000 seeds over both rules
    n, n_chains = 5, 32_768
    machine = Machine.draw(n, "spin", seed=29)
    up = random_bits(n, n_chains, seed=30)
    up[1], up[3] = 1, 0
    lanes = lanes_of(machine, up, random_streams(n_chains, seed=31), 1.0)
    sites = np.array([[0, 4, 2, 4, 0], [2, 0, 2, 4, 4]])
    counts = sampled_counts(lanes, sites, rule, n_samples=1, thin=40)
    exact = reference.enumerate_states(machine.weights, machine.bias, "spin", clamp={1: 1, 3: -1})
    codes = (exact.states == 1) @ (1 << np.arange(n))
    assert counts.sum() == counts[codes].sum()
    assert reference.g_test(counts[codes], exact.probabilities) > FALSE_ALARM


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("log_odds", [0.0, 1.5, -4.0, 8.0, -10.0])
def test_one_unit_has_its_probability_to_the_tails(log_odds, dtype):
    # a lone unit forgets itself in one sweep, so that these are 2^21 independent draws
    # 4.5 standard errors in 10 tests: a false alarm in 15,000 seeds
    n_chains, n_sweeps = 2**15, 64
    machine = Machine(np.zeros((1, 1)), np.array([log_odds]), "binary")
    lanes = lanes_of(machine, np.zeros((1, n_chains), np.uint8), random_streams(n_chains, seed=32), 1.0, dtype)
    n_up = 0
    for _ in range(n_sweeps):
        lanes.sweep(np.zeros((1, 1), int), 1)
        n_up += int(lanes.up.sum())
    p, n_draws = reference.sigmoid(log_odds), n_chains * n_sweeps
    assert abs(n_up - n_draws * p) < 4.5 * np.sqrt(n_draws * p * (1 - p))


def test_sequential_metropolis_on_a_flat_model_has_period_two():
    machine = Machine(np.zeros((8, 8)), np.zeros(8), "spin")
    before = random_bits(8, 16, seed=33)
    lanes = lanes_of(machine, before.copy(), random_streams(16, seed=34), 1.0)
    sites = site_rows("sequential", 8, 1, seed=0)
    for t in range(1, 7):
        assert lanes.sweep(sites, 1, "metropolis") == before.size
        assert np.array_equal(lanes.up, before ^ (t % 2))


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("beta", [1.0, 1e20])
def test_metropolis_accepts_ties_at_any_temperature(beta, dtype):
    # the first word drawn is the largest, whose logarithm is 0: nothing is in favour of the flip, and it is made
    streams = np.repeat(np.array([[2**32 - 1], [5], [6], [1]], np.uint32), 4, axis=1)
    machine = Machine(np.zeros((1, 1)), np.zeros(1), "spin")
    lanes = lanes_of(machine, np.array([[0, 1, 0, 1]], np.uint8), streams, beta, dtype)
    assert lanes.sweep(np.zeros((1, 1), int), 1, "metropolis") == 4
    assert lanes.up.tolist() == [[1, 0, 1, 0]]


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("rule", RULES)
def test_infinite_temperature_forgets_the_couplings(rule, dtype):
    # the largest scale there is stands for beta = 0: Gibbs draws fair bits, Metropolis accepts everything
    n, n_chains = 4, 32_768
    lanes = lanes_of(
        Machine.draw(n, "spin", seed=35), random_bits(n, n_chains, seed=36), random_streams(n_chains, 37), 1, dtype
    )
    lanes.scale[:] = np.finfo(np.float32).max
    flips = lanes.sweep(np.array([[0, 1, 2, 3]]), 1, rule)
    assert np.array_equal(lanes.fields, lanes.recomputed())
    if rule == "metropolis":
        assert flips == lanes.up.size
    else:
        codes = (1 << np.arange(n)) @ lanes.up.astype(int)
        assert reference.g_test(np.bincount(codes, minlength=16), np.full(16, 1 / 16)) > FALSE_ALARM


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("rule", RULES)
def test_zero_temperature_only_goes_down(rule, dtype):
    n, n_chains = 12, 64
    machine = Machine.draw(n, "spin", seed=38)
    lanes = lanes_of(machine, random_bits(n, n_chains, seed=39), random_streams(n_chains, seed=40), 1e9, dtype)
    sites = site_rows("permuted", n, 50, seed=41)
    heights = []
    for t in range(30):
        values = 2.0 * lanes.up - 1
        heights.append([reference.energy(values[:, c], machine.weights, machine.bias) for c in range(n_chains)])
        lanes.sweep(sites[t : t + 1], 1, rule)
    assert np.all(np.diff(heights, axis=0) <= 0)
    state = 2.0 * lanes.up - 1
    assert np.all(state * (machine.weights @ state + machine.bias[:, None]) >= 0)


@pytest.mark.parametrize("dtype", FIELD_TYPES)
@pytest.mark.parametrize("rule", RULES)
def test_fields_at_the_end_of_the_type_do_not_wrap(rule, dtype):
    # one pair whose fields reach the type's end: the strong coupling decides, whatever the temperature's threshold
    most = np.iinfo(dtype).max - 10
    lanes = Lanes(
        np.zeros((2, 64), np.uint8), np.zeros((64, 64), dtype), np.zeros((2, 64), dtype), np.zeros((64, 64), dtype),
        np.full(64, 0.01, np.float32), random_streams(64, seed=42),
    )  # fmt: skip
    lanes.start[:, 0], lanes.start[:, 1] = most, -most
    lanes.fields[:] = lanes.start
    lanes.sweep(np.array([[0, 1]]), 5, rule)
    assert lanes.up[0].all()
    assert not lanes.up[1].any()


def test_one_compiled_signature_for_each_type_of_fields():
    arguments = (Machine.draw(3, "spin", seed=1), random_bits(3, 4, seed=1), random_streams(4, seed=1), 1.0)
    for dtype, rule in ((dtype, rule) for dtype in FIELD_TYPES for rule in RULES):
        lanes_of(*arguments, dtype).sweep(np.array([[0, 1, 2]]), 1, rule)
    kernels = init_fields_dense, advance_dense, are_blocks_faster, enter_block, visit_units, leave_block
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    for dtype in FIELD_TYPES:
        alone = Machine.draw(1, "spin", seed=1), random_bits(1, 1, seed=1), random_streams(1, seed=1)
        lanes_of(*alone, 1.0, dtype).sweep(np.array([[0]]), 1, "metropolis")
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
