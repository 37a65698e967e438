"""Sums over layers against sums over all states with 50 digits and plain sums over one side, and draws from them."""

from __future__ import annotations

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base import rng
from fastbm._base.halting import Halted
from fastbm.exact.layers import sum as layers
from fastbm.exact.layers.form import LARGEST, StateWeights, tabulate
from fastbm.exact.plan import Part, Wanted, combine
from fastbm.kernels.exact import layers as layer_sum
from fastbm.kernels.exact.layers import draw_layers
from fastbm.kernels.functions import multiply_exponentials
from tests.support import layers as layers_helpers, machines
from tests.support.combinations import pairwise
from tests.support.layers import LOG_Z, SCALES, SIZES, assert_matches, machine, plan, source, total
from tests.support.machines import UNITS
from tests.twins import layers as twins, reference

small_blocks = layers_helpers.small_blocks

# Kernels and their twins


@pytest.mark.parametrize(("lo", "hi"), [(-1.0, 1.0), (0.0, 1.0)])
def test_gaps(lo, hi):
    generator = np.random.default_rng(0)
    weights, base = generator.normal(size=(5, 7)), generator.normal(size=7)
    for first, n in ((0, 32), (24, 8), (13, 1), (0, 64)):
        expected = [twins.gaps(first + k, weights.tolist(), base.tolist(), lo, hi) for k in range(n)]
        gaps = tabulate(weights, base, lo, hi, first, n)
        assert gaps == pytest.approx(np.array(expected), rel=0, abs=1e-14)


def test_products_of_factors_neither_overflow_nor_round_away():
    generator = np.random.default_rng(0)
    n_high, n_slots = 19, 40  # more rows than share a tile's factors
    high = np.exp(generator.uniform(-80, 80, (n_high, n_slots)))
    low = np.exp(generator.uniform(-80, 80, (2, n_slots // 8, 8 * layer_sum.LANES)))
    mantissas, heights = np.ones((n_high, 2 * layer_sum.LANES)), np.zeros((n_high, 2 * layer_sum.LANES))
    layer_sum.multiply_factors(mantissas, heights, high, low, np.array([0, 1, 2, 3, 4, 5]))
    assert mantissas.min() >= 1.0 and mantissas.max() < 2.0
    by_slot = low.reshape(2, n_slots, layer_sum.LANES).transpose(0, 2, 1).reshape(-1, n_slots)
    expected = np.array([[twins.log_product(p, q) for q in by_slot.tolist()] for p in high.tolist()])
    assert np.log(mantissas) + heights == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("n", [3, 1100])  # 1100 units: the product is split twice on the way
def test_steep_factors(n):
    generator = np.random.default_rng(0)
    high, low = generator.normal(scale=500, size=(2, n)), generator.normal(scale=0.5, size=(1, n, layer_sum.LANES))
    mantissas, heights = np.ones((2, layer_sum.LANES)), np.zeros((2, layer_sum.LANES))
    layer_sum.multiply_steep(mantissas, heights, high, low, -0.5)
    assert mantissas.min() >= 1.0 and mantissas.max() < 2.0
    expected = [[twins.log_steep(p + q, -0.5) for q in low[0].T] for p in high]
    assert np.log(mantissas) + heights == pytest.approx(np.array(expected), rel=1e-13)


def test_weights_relative_to_the_top():
    generator = np.random.default_rng(0)
    mantissas, heights = generator.uniform(1, 2, (3, 70)), generator.uniform(-1500, 0, (3, 70))
    expected = [[m * math.exp(t + 3.0) for m, t in zip(*row, strict=True)] for row in zip(mantissas, heights)]  # noqa: B905
    multiply_exponentials(mantissas, heights, -3.0)
    assert mantissas == pytest.approx(np.array(expected), rel=1e-14, abs=1e-306)


@pytest.mark.parametrize(("beta", "scale"), [(0.7, 1.0), (1.0, 1e3), (0.0, 1.0)])
def test_conditionals(beta, scale):
    generator = np.random.default_rng(0)
    high, low = generator.normal(scale=scale, size=(3, 70)), generator.normal(scale=scale, size=(4, 70))
    states, roots = np.array([0, 5, 11]), np.array([1.0, 0.5, 2.0])
    rows, energies = np.empty((3, 74)), np.empty((2, 3))
    layer_sum.fill_conditionals(rows, energies, roots, states, high, low, beta, -0.5)
    for k, state in enumerate(states):
        up, mean, spread = twins.conditionals((high[state // 4] + low[state % 4]).tolist(), beta, -0.5)
        assert rows[k, :4].tolist() == [roots[k] * bit for bit in twins.bits(int(state), 4)]
        assert rows[k, 4:] == pytest.approx(roots[k] * np.array(up), rel=1e-13, abs=1e-300)
        assert energies[:, k] == pytest.approx([mean, spread], rel=1e-13, abs=1e-13 * scale)


def test_draws_read_their_stream_as_the_twin_does():
    generator = np.random.default_rng(0)
    weights, low = generator.exponential(size=16), generator.normal(size=(4, 5))
    high, base = generator.normal(size=(2, 5)), generator.normal(size=5)
    streams = np.ascontiguousarray(rng.streams(0, 3).T)
    chains = [reference.xoshiro(stream) for stream in streams.T.copy()]
    odds = [low[r % 4] + base + sum(high[i] for i in range(2) if r >> (2 + i) & 1) for r in range(16)]
    out = np.empty((50, 3, 9), np.uint8)
    draw_layers(out, streams, np.cumsum(weights), low, high, base)
    expected = [[twins.draw(chain, weights.tolist(), odds, 4) for chain in chains] for _ in range(50)]
    assert np.array_equal(out, expected)


# Sums


@pairwise(sizes=SIZES, scale=SCALES, units=UNITS)
def test_all_states_with_50_digits(sizes, scale, units):
    model = machine(sizes, units, scale)
    assert_matches(total(model), model, 1.0)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_any_temperature_and_an_offset(beta, units):
    model = machine((3, 2, 3), units, offset=-7.5)
    assert_matches(total(model, beta), model, beta)
    assert total(model, beta, LOG_Z).log_z == pytest.approx(machines.enumerate_machine(model, beta).log_z, rel=1e-12)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("beta", [1.0, 300.0])
def test_ties(beta, units):
    signs = [np.array([[1, -1, 1, 1], [1, 1, -1, 1], [-1, 1, 1, 1]]), np.array([[1, -1], [-1, 1], [1, 1], [1, -1]])]
    model = bm.BoltzmannMachine(signs, units=units)
    assert_matches(total(model, beta), model, beta)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    "held", [[0, 1, 2], [3, 4], [5, 6, 7], [0, 1, 2, 5, 6, 7], [3, 4, 0, 1, 2], [0, 1, 3, 5, 6, 7], list(range(1, 8))]
)
def test_layers_emptied_by_clamping(held, units):
    whole = machine((3, 2, 3), units, offset=2.0)
    model = whole.condition(held, whole.convention.values(np.arange(len(held)) % 2))
    assert_matches(total(model), model, 1.0)


def test_the_fewer_units_are_enumerated():
    for sizes, summed in (((9, 2), 2), ((2, 9), 2), ((3, 4, 3), 4), ((2, 7, 2), 4), ((4, 1, 1, 3), 4)):
        assert plan(machine(sizes, "spin")).detail == {"summed": summed, "closed": sum(sizes) - summed}


def plain(model: Any, beta: float) -> tuple[float, np.ndarray, np.ndarray, float, float]:
    """log Z, P(up), P(both up), <E> and its variance of a restricted machine, all states of the hidden side in turn."""
    (weights,), (b, c), units = model.weights, model.bias, model.convention
    states = np.array(reference.all_states(len(c), model.units), float)
    field = states @ weights.T + b
    log_w = beta * states @ c + np.logaddexp(beta * units.lo * field, beta * units.hi * field).sum(axis=1)
    log_z = np.logaddexp.reduce(log_w)
    p = np.exp(log_w - log_z)
    up = np.hstack([np.exp(-np.logaddexp(0, -beta * units.span * field)), (states - units.lo) / units.span])
    pairs = (up * p[:, None]).T @ up
    np.fill_diagonal(pairs, p @ up)
    visible = units.lo + units.span * up[:, : len(b)]
    given = -states @ c - (field * visible).sum(axis=1)
    spread = ((field * units.span) ** 2 * up[:, : len(b)] * (1 - up[:, : len(b)])).sum(axis=1)
    energy = p @ given
    return float(log_z), p @ up, pairs, float(energy), float(p @ (spread + (given - energy) ** 2))


def assert_plain(part: Part, model: Any, beta: float) -> None:
    log_z, up, pairs, energy, variance = plain(model, beta)
    assert part.log_z == pytest.approx(log_z, rel=1e-12)
    assert part.up == pytest.approx(up, rel=0, abs=1e-11)
    np.testing.assert_allclose(part.pairs, pairs, rtol=0, atol=1e-11)
    assert part.energy == pytest.approx(energy, rel=1e-11)
    assert part.energy_variance == pytest.approx(variance, rel=1e-10)


@pytest.mark.parametrize(("scale", "n_hidden"), [(0.05, 12), (1.0, 12), (100.0, 11)])
def test_a_wide_machine(scale, n_hidden):
    model = machine((784, n_hidden), "spin" if n_hidden == 12 else "binary", scale)
    steep = plan(model).form.widest(10, 1.0) > LARGEST
    assert not steep.any() if scale <= 1.0 else 0 < steep.sum() < 784
    assert_plain(total(model), model, 1.0)


@pytest.mark.slow
def test_a_wide_machine_of_more_states():
    model = machine((300, 16), "binary", 0.1)
    assert_plain(total(model, threads=2), model, 1.0)


@pytest.mark.parametrize("sizes", [(30, 11), (9, 12, 5)])
def test_a_transposed_machine_gives_the_same(sizes):
    model = machine(sizes, "spin", 0.4)
    turned = bm.BoltzmannMachine([w.T for w in model.weights[::-1]], model.bias[::-1])
    starts = np.cumsum([0, *sizes])
    order = np.concatenate([np.arange(starts[k], starts[k + 1]) for k in range(len(sizes))[::-1]])
    one, other = total(model), total(turned)
    assert one.log_z == pytest.approx(other.log_z, rel=1e-13)
    assert one.pairs[np.ix_(order, order)] == pytest.approx(other.pairs, rel=0, abs=1e-13)
    assert one.energy_variance == pytest.approx(other.energy_variance, rel=1e-12)


@pytest.mark.parametrize("units", UNITS)
def test_both_conventions_agree(units):
    model = machine((40, 11), units, 0.5, offset=3.0)
    one, other = total(model), total(model.to_units("binary" if units == "spin" else "spin"))
    assert one.log_z == pytest.approx(other.log_z, rel=1e-12)
    assert one.pairs == pytest.approx(other.pairs, rel=0, abs=1e-12)
    assert one.energy == pytest.approx(other.energy, rel=1e-12)
    assert one.energy_variance == pytest.approx(other.energy_variance, rel=1e-11)


# How a sum is cut


def assert_same_bits(one: Part, other: Part) -> None:
    assert one.log_z == other.log_z
    assert one.energy == other.energy and one.energy_variance == other.energy_variance
    if one.up is not None:
        assert np.array_equal(one.up, other.up) and np.array_equal(one.pairs, other.pairs)


@pytest.mark.parametrize("wanted", [LOG_Z, Wanted()])
@pytest.mark.parametrize("scale", [0.3, 200.0])
def test_same_bits_for_any_number_of_threads(small_blocks, scale, wanted):
    model = machine((25, 12), "spin", scale)
    first = total(model, 1.0, wanted)
    for threads in (2, 3):
        assert_same_bits(first, total(model, 1.0, wanted, threads))


@pytest.mark.parametrize("wanted", [LOG_Z, Wanted()])
def test_pieces_combine_to_the_whole(small_blocks, monkeypatch, wanted):
    model = machine((25, 12), "binary", 0.8, offset=1.0)
    whole = total(model, 0.9, wanted)
    monkeypatch.setattr(layers, "PIECE_TERMS", 1 << 15)
    monkeypatch.setattr(layers, "PIECE_STATES", 1 << 9)
    planned = plan(model, 0.9, wanted)
    assert planned.n_pieces >= 8
    pieces = [pickle.loads(pickle.dumps(planned)).piece(k, 2) for k in reversed(range(planned.n_pieces))]
    combined = combine(pieces[::-1])
    assert combined.log_z == pytest.approx(whole.log_z, rel=1e-13)
    if wanted.moments:
        assert combined.pairs == pytest.approx(whole.pairs, rel=0, abs=1e-13)
        assert combined.up == pytest.approx(whole.up, rel=0, abs=1e-13)
        assert combined.energy == pytest.approx(whole.energy, rel=1e-12)
        assert combined.energy_variance == pytest.approx(whole.energy_variance, rel=1e-11)


def test_states_that_are_left_out_weigh_nothing():
    generator = np.random.default_rng(0)
    for weights in (np.exp(-generator.exponential(20.0, 5000)), np.ones(64), np.array([1.0, 1e-300]), np.ones(1)):
        weights = weights / weights.sum()
        kept = weights > layers._negligible(weights)
        assert weights[~kept].sum() <= layers.LOST and kept[weights.argmax()]
    assert kept.all() and layers._negligible(np.full(64, 1 / 64)) < 1 / 64
    spread = np.exp2(-np.arange(200.0)) / 2
    assert 55 < (spread > layers._negligible(spread)).sum() < 66


def stop_after(n_looks: int) -> Any:
    looks = itertools.count(1)
    return lambda: next(looks) > n_looks


@pytest.mark.parametrize("wanted", [LOG_Z, Wanted()])
def test_a_sum_can_be_stopped_all_along(small_blocks, wanted):
    planned = plan(machine((25, 12), "spin"), 1.0, wanted)
    looks = itertools.count()
    planned.piece(0, 2, lambda: bool(next(looks) < 0))
    n_looks = next(looks)
    assert n_looks >= 4
    for n in range(n_looks):
        with pytest.raises(Halted):
            planned.piece(0, 2, stop_after(n))


# Forecasts


def test_what_cannot_be_done_has_an_infinite_forecast():
    assert math.isinf(plan(machine((784, 500), "spin")).forecast.seconds)
    assert math.isinf(source(machine((784, 500), "spin")).forecast.seconds)
    assert math.isinf(plan(machine((784, 12), "spin"), max_bytes=1e6).forecast.seconds)
    assert math.isinf(source(machine((50, 40), "spin")).forecast.seconds)
    assert math.isinf(plan(bm.models.sherrington_kirkpatrick(8, seed=0)).forecast.seconds)
    assert math.isinf(plan(machine((1100, 1100), "spin", 0.0)).forecast.seconds)
    assert math.isfinite(plan(machine((50, 40), "spin")).forecast.seconds)


def test_forecasts_grow_with_the_work_and_shrink_with_threads():
    narrow, wide = machine((100, 10), "spin", 0.1), machine((200, 10), "spin", 0.1)
    assert plan(wide).forecast.seconds > 1.5 * plan(narrow).forecast.seconds
    assert plan(narrow).forecast.seconds > plan(narrow, 1.0, LOG_Z).forecast.seconds
    assert plan(wide, threads=2).forecast.seconds == pytest.approx(plan(wide).forecast.seconds / 2)
    assert plan(machine((100, 10), "spin", 1e3)).forecast.seconds > plan(narrow).forecast.seconds
    assert plan(narrow).forecast.size == "2^10 states of layers with 10 of 110 units"


def test_the_tables_of_a_very_wide_machine_stay_small():
    planned = plan(machine((60_000, 8), "binary", 0.01), 1.0, LOG_Z)
    assert planned.n_low < 8 and planned.forecast.n_bytes < 1e9
    assert StateWeights(planned.form, 1.0, planned.n_low).low_gaps.shape[0] == 1 << planned.n_low


def test_kernels_compile_once():
    for sizes, scale in (((25, 12), 0.3), ((3, 2, 3), 1e3), ((4, 3), 1.0)):
        model = machine(sizes, "spin", scale).condition([0], [1])
        total(model)
        source(model).draw(np.ascontiguousarray(rng.streams(0, 3).T), 5, 1)
    kernels = [
        layer_sum.multiply_factors, layer_sum.multiply_steep, multiply_exponentials, layer_sum.fill_conditionals,
        draw_layers,
    ]  # fmt: skip
    assert all(len(getattr(kernel, "signatures", [0])) == 1 for kernel in kernels)
