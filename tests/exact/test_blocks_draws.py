"""Draws by the tables of three blocks: kernels against their twins, draws against the exact distribution."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm._base.halting import Halted
from fastbm.exact.blocks import draws, tree
from fastbm.exact.blocks.draws import BlocksSource
from fastbm.exact.blocks.tree import Leaf
from fastbm.exact.integers import IntegerMachine
from fastbm.exact.plan import Forecast, Speeds
from fastbm.kernels.exact.blocks import draw_blocks, draw_uniforms, find
from tests.support import machines
from tests.support.combinations import pairwise
from tests.support.machines import UNITS
from tests.twins import blocks as twins, reference

ANY = Forecast(1.0, 1.0, "")


def machine(n: int, units: str = "spin", scale: float = 0.5, seed: int = 0) -> bm.BoltzmannMachine:
    """Couplings and biases are multiples of 1/64: energies do not round."""
    generator = np.random.default_rng([seed, n, UNITS.index(units)])
    upper = np.round(64 * np.triu(generator.normal(scale=scale, size=(n, n)), 1)) / 64
    bias = np.round(64 * generator.normal(scale=scale, size=n)) / 64
    return bm.BoltzmannMachine(upper + upper.T, bias, units=units)


def source(model: Any, beta: float = 1.0, **options: Any) -> BlocksSource:
    options = {"threads": 1, "max_bytes": 4e9, "speeds": Speeds()} | options
    return draws.source(model, beta, **options)


def streams(n_chains: int, seed: int = 0, first: int = 0) -> np.ndarray:
    return np.ascontiguousarray(rng.streams(seed, n_chains, first=first).T)


def settings(n_held: int) -> list[tuple[int, ...]]:
    return list(itertools.product((0, 1), repeat=n_held))


def cut_by(model: Any, leaves: list[Leaf], beta: float = 1.0) -> BlocksSource:
    """A source of leaves of one's own."""
    return BlocksSource(IntegerMachine.of(model), beta, tuple(leaves), ANY)


# Kernels


def test_uniforms_take_two_words_each_in_the_order_of_a_chains_draws():
    state = streams(3)
    words = [reference.xoshiro(column) for column in state.T.copy()]
    uniforms = np.empty((5, 3, 4))
    draw_uniforms(state, uniforms)
    expected = np.array([[[twins.uniform(chain) for _ in range(4)] for _ in range(5)] for chain in words])
    assert np.array_equal(uniforms, expected.transpose(1, 0, 2))
    rest = np.empty((1, 3, 1))
    draw_uniforms(state, rest)
    assert rest[0, :, 0].tolist() == [twins.uniform(chain) for chain in words]
    assert uniforms.min() > 0


@pytest.mark.parametrize(
    "cumulative",
    [[1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.75, 0.75], [0.0, 1.0, 1.0, 3.0, 3.0], [1.0, 2.0, 3.0, 4.0]],
)
def test_find_at_edges_ties_and_weights_of_nothing(cumulative):
    array = np.array(cumulative)
    edges = [0.0, *cumulative]
    levels = {*edges, *(np.nextafter(x, 9) for x in edges), *(np.nextafter(x, 0) for x in edges), 0.3, 0.6, 2.5}
    weights = np.diff(array, prepend=0.0)
    for level in sorted(level for level in levels if level <= cumulative[-1]):
        assert find(array, level) == twins.find(cumulative, level)
        assert weights[find(array, level)] > 0


@pytest.mark.parametrize("sizes", [(3, 2, 2), (1, 1, 1), (0, 0, 3), (2, 1, 0)])
def test_settings_that_uniforms_stand_for(sizes):
    generator = np.random.default_rng(0)
    a, b, c = (2**k for k in sizes)
    f, g, h = (
        generator.exponential(size=shape) * (generator.random(shape) < 0.7) for shape in ((a, b), (b, c), (a, c))
    )
    f[:, 0], g[0], h[0, 0] = 1.0, 0.5, 1.0  # something is left
    by_ac = np.cumsum((f @ g) * h, axis=1)
    uniforms = np.vstack(
        [generator.random((300, 3)), list(itertools.product([1e-17, 0.5, 1 - 2.0**-53, 1.0], repeat=3))]
    )
    found = np.empty(uniforms.shape, np.int64)
    draw_blocks(uniforms, np.cumsum(by_ac[:, -1]), by_ac, f, np.ascontiguousarray(g.T), found)
    expected = [twins.draw(u, f.tolist(), g.tolist(), h.tolist()) for u in uniforms.tolist()]
    agree = np.all(found == expected, axis=1)
    assert agree[:300].all()  # at an edge the two sums may round to either side
    assert all(f[x, y] * g[y, z] * h[x, z] > 0 for x, y, z in found.tolist())


# The distribution


@pairwise(beta=[0.0, 1.0], n=[1, 2, 3, 6, 9], units=UNITS)
def test_all_states(n, units, beta):
    model = machine(n, units)
    drawn = source(model, beta).draw(streams(10, seed=n), 10_000, 2)
    assert drawn.shape == (10_000, 10, n) and drawn.dtype == np.uint8
    assert machines.g_test(drawn, machines.enumerate_machine(model, beta).probabilities) > machines.SURE


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("n_held", [1, 3, 8])
def test_several_leaves(n_held, direct):
    model = machine(8, scale=0.7)
    cut = cut_by(model, [Leaf(up, direct) for up in settings(n_held)])
    drawn = cut.draw(streams(10, seed=n_held), 10_000, 2)
    assert machines.g_test(drawn, machines.enumerate_machine(model).probabilities) > machines.SURE


def test_leaves_of_several_lengths():
    model = machine(7, scale=0.7)
    leaves = [Leaf((1,)), Leaf((0, 1), direct=True), Leaf((0, 0, 1)), Leaf((0, 0, 0), direct=True)]
    drawn = cut_by(model, leaves).draw(streams(10), 10_000, 1)
    assert machines.g_test(drawn, machines.enumerate_machine(model).probabilities) > machines.SURE


def test_large_tables(monkeypatch):
    monkeypatch.setattr(draws, "SMALL", 0)
    model = machine(8, scale=0.7)
    for drawing in (source(model), cut_by(model, [Leaf(up) for up in settings(2)])):
        drawn = drawing.draw(streams(10, seed=1), 10_000, 2)
        assert machines.g_test(drawn, machines.enumerate_machine(model).probabilities) > machines.SURE


def test_a_machine_whose_tables_would_underflow():
    """Ties of +-1000 that frustrate: C(14, 7) ground states, all alike and nothing else."""
    n = 14
    model = bm.BoltzmannMachine(-1000.0 * (np.ones((n, n)) - np.eye(n)))
    cut = source(model)
    assert len(cut._leaves) > 1
    drawn = cut.draw(streams(10), 10_000, 2)
    assert np.all(drawn.sum(axis=2) == n // 2)
    counts = np.bincount(np.unique(machines.codes(drawn), return_inverse=True)[1])
    assert len(counts) == math.comb(n, n // 2)
    assert reference.g_test(counts, np.full(len(counts), 1 / len(counts))) > machines.SURE


@pytest.mark.parametrize(
    ("n", "scale", "units"), [(13, 0.3, "spin"), (16, 0.5, "binary"), (14, 8.0, "spin"), (16, 0.2, "spin")]
)
def test_moments_over_many_draws(n, scale, units):
    """100,000 draws: at 4 standard errors a right sampler fails once in 16,000 numbers."""
    model = machine(n, units, scale)
    truth = twins.sum_all(*machines.parameters(model), units, 1.0)
    drawn = source(model).draw(streams(20), 5_000, 2).reshape(-1, n).astype(float)
    pairs = drawn.T @ drawn / len(drawn)
    error = np.sqrt(np.clip(truth.pairs * (1 - truth.pairs), 0, None) / len(drawn))
    assert np.all(np.abs(pairs - truth.pairs) <= 4 * error + 3 / len(drawn))


@pytest.mark.slow
def test_moments_of_a_large_machine():
    n_groups, n = 4, 6
    groups = [machine(n, seed=seed) for seed in range(n_groups)]
    weights = np.kron(np.eye(n_groups), np.ones((n, n)))
    for k, group in enumerate(groups):
        weights[k * n : (k + 1) * n, k * n : (k + 1) * n] = machines.parameters(group)[0]
    weights *= np.kron(np.eye(n_groups), np.ones((n, n)))
    order = np.random.default_rng(0).permutation(n_groups * n)
    bias = np.concatenate([group.flat_bias for group in groups])
    model = bm.BoltzmannMachine(weights[np.ix_(order, order)], bias[order])
    drawn = source(model).draw(streams(20), 50_000, 2)
    truth = np.concatenate([machines.enumerate_machine(group).mean for group in groups])[order]
    error = np.sqrt((1 - truth**2) / drawn[..., 0].size)
    assert np.all(np.abs(2 * drawn.mean(axis=(0, 1)) - 1 - truth) <= 4 * error)
    for k, group in enumerate(groups):
        mine = [int(np.flatnonzero(order == k * n + i)[0]) for i in range(n)]
        assert machines.g_test(drawn[..., mine], machines.enumerate_machine(group).probabilities) > machines.SURE


def test_a_level_that_rounds_to_the_whole_goes_to_a_leaf_of_some_weight():
    model = bm.BoltzmannMachine(np.zeros((4, 4)), [-1000.0, 0.5, 0.0, 0.0])
    cut = cut_by(model, [Leaf((0,)), Leaf((1,))])  # the second weighs nothing
    cut.draw(streams(1), 1, 1)
    states = cut._states(np.ones((1, 4)), 1, lambda: False)
    assert states[0, 0] == 0


@pytest.mark.parametrize(("beta", "scale"), [(1e300, 1e-300), (1e-300, 1e300), (0.0, 1e300)])
def test_extreme_temperatures(beta, scale):
    model = machine(6)
    weights, bias = machines.parameters(model)
    model = bm.BoltzmannMachine(scale * weights, scale * bias)
    drawn = source(model, beta).draw(streams(10), 1_000, 1)
    assert machines.g_test(drawn, machines.enumerate_machine(model, beta).probabilities) > machines.SURE


def test_only_the_ground_state_is_left_when_it_is_cold():
    model = machine(6)
    ground = np.argmax(machines.enumerate_machine(model, 1e6).probabilities)
    assert np.all(machines.codes(source(model, 1e6).draw(streams(10), 1_000, 1)) == ground)


# Bits


def test_same_bits_however_draws_chains_and_threads_are_split(monkeypatch):
    model = machine(10)
    leaves = [Leaf(up) for up in settings(2)]
    whole = cut_by(model, leaves)
    state = streams(5)
    drawn = whole.draw(state, 40, 1)
    for threads in (2, 3):
        assert np.array_equal(cut_by(model, leaves).draw(streams(5), 40, threads), drawn)
    again = streams(5)
    assert np.array_equal(np.concatenate([whole.draw(again, k, 2) for k in (1, 0, 17, 22)]), drawn)
    assert np.array_equal(again, state)
    apart = [whole.draw(streams(k, first=first), 40, 1) for first, k in ((0, 2), (2, 1), (3, 2))]
    assert np.array_equal(np.concatenate(apart, axis=1), drawn)
    monkeypatch.setattr(draws, "DRAWS", 7)
    monkeypatch.setattr(draws, "ROWS", 3)
    assert np.array_equal(whole.draw(streams(5), 40, 3), drawn)


def test_large_tables_have_the_same_bits_on_any_number_of_threads():
    model = machine(22, scale=0.2)
    drawn = source(model).draw(streams(3), 50, 1)
    for threads in (2, 3):
        assert np.array_equal(source(model, threads=threads).draw(streams(3), 50, threads), drawn)


# Stops and limits


@pytest.mark.parametrize("last", [1, 2, 5, 12])
def test_a_stop_leaves_streams_as_they_were(last, monkeypatch):
    monkeypatch.setattr(draws, "DRAWS", 20)
    model = machine(9)
    cut, state = cut_by(model, [Leaf(up) for up in settings(1)]), streams(2)
    before, asked = state.copy(), []

    def stop() -> bool:
        asked.append(None)
        return len(asked) >= last

    with pytest.raises(Halted):
        cut.draw(state, 100, 1, stop)
    assert len(asked) == last
    assert np.array_equal(state, before)
    expected = cut_by(model, [Leaf(up) for up in settings(1)]).draw(streams(2), 100, 1)
    assert np.array_equal(cut.draw(state, 100, 1), expected)


def test_sources_out_of_reach_are_refused_without_work(monkeypatch):
    monkeypatch.setattr(tree, "MOST_LEAVES", 64)
    for model, options in (
        (bm.BoltzmannMachine(np.zeros((62, 62))), {}),
        (machine(30, scale=1000.0), {}),
        (machine(24), {"max_bytes": 1e6}),
        (machine(10), {"max_bytes": 100.0}),
    ):
        refused = source(model, **options)
        assert refused.forecast.seconds == math.inf
        assert refused.draw_seconds > 0
        assert ("too wide a range" in refused.forecast.size) == (model.n_units == 30)


def test_forecasts():
    few, more, most = (source(machine(n, scale=0.1)) for n in (12, 24, 36))
    assert few.forecast.seconds < more.forecast.seconds < most.forecast.seconds < math.inf
    assert few.forecast.n_bytes < more.forecast.n_bytes < most.forecast.n_bytes < 4e9
    assert few.draw_seconds < more.draw_seconds < most.draw_seconds
    held = source(machine(14, scale=30.0)).forecast
    assert math.isfinite(held.seconds) and held.n_bytes > 8 * 2 ** (14 - tree.DIRECT)
