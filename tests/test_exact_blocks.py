"""Sums in three blocks against sums over all states, and plans against what they claim."""

from __future__ import annotations

import functools
import math
import pickle
import subprocess
import sys
import tracemalloc
from typing import Any

import helpers
import numpy as np
import pytest
import reference
import reference_exact_blocks as twins
import scipy.sparse
from helpers import UNITS

import fastbm as bm
from fastbm.exact import blocks, blocks_passes, blocks_plan
from fastbm.exact.blocks_passes import Large, Small
from fastbm.exact.blocks_plan import Leaf
from fastbm.exact.integers import IntegerMachine
from fastbm.exact.part import Part, combine
from fastbm.exact.plan import Wanted
from fastbm.exact.speeds import Speeds
from fastbm.halting import Halted, never
from fastbm.kernels import blocks as kernels
from fastbm.kernels.descent import descend

end_threads = helpers.end_threads

EPS = 2.0**-52
SCALES = ["1e-12", "1", "30", "1000", "mixed"]
LOG_Z, NO_VARIANCE = Wanted(moments=False, energy_variance=False), Wanted(energy_variance=False)


def numbers(generator: np.random.Generator, scale: str, shape: Any) -> np.ndarray:
    """Normal numbers of one scale, or of all from 1e-12 to 1e3."""
    found = generator.normal(size=shape)
    return found * (10.0 ** generator.uniform(-12, 3, shape) if scale == "mixed" else float(scale))


def machine(n: int, scale: str = "1", units: str = "spin", seed: int = 0, **options: Any) -> bm.BoltzmannMachine:
    generator = np.random.default_rng([seed, n, UNITS.index(units)])
    upper = np.triu(numbers(generator, scale, (n, n)), 1)
    return bm.BoltzmannMachine(upper + upper.T, numbers(generator, scale, n), units=units, **options)


def coarse(n: int, scale: float, units: str = "spin", seed: int = 0, field: float = 1.0) -> bm.BoltzmannMachine:
    """A machine whose couplings are multiples of 1/64, so that no energy rounds in float64."""
    generator = np.random.default_rng([seed, n, UNITS.index(units)])
    upper = np.round(64 * np.triu(generator.normal(scale=scale, size=(n, n)), 1)) / 64
    bias = np.round(64 * generator.normal(scale=field * scale, size=n)) / 64
    return bm.BoltzmannMachine(upper + upper.T, bias, units=units)


def plan(model: Any, beta: float = 1.0, wanted: Wanted | None = None, **options: Any) -> blocks.BlocksSum:
    options = {"threads": 1, "max_bytes": 4e9, "speeds": Speeds()} | options
    return blocks.plan(model, beta, wanted or Wanted(), **options)


def total(planned: blocks.BlocksSum, threads: int = 1) -> Part:
    return combine([planned.piece(k, threads) for k in range(planned.n_pieces)])


def size_of(model: Any) -> float:
    """sum |W|, each pair once, and fields."""
    weights, bias = helpers.parameters(model)
    return float(np.abs(weights).sum() / 2 + np.abs(bias).sum())


def assert_is(part: Part, model: Any, beta: float, truth: Any) -> None:
    """Compare a sum with `twins.Plain`: energies are in units of the couplings, and whatever is given is finite."""
    size = size_of(model)
    close = 1e-11 + 8 * EPS * beta * size
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS)
    np.testing.assert_allclose(part.up, truth.up, rtol=0, atol=close)
    np.testing.assert_allclose(part.pairs, truth.pairs, rtol=0, atol=close)
    assert np.array_equal(part.pairs, part.pairs.T)
    assert np.array_equal(part.pairs.diagonal(), part.up)
    assert part.pairs.min() >= 0 and part.pairs.max() <= 1 + 4 * EPS
    assert part.energy == pytest.approx(truth.energy, rel=1e-12, abs=close * size)
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-9, abs=4 * EPS * size**2)
    assert part.energy_variance >= 0


def enumerated(model: Any, beta: float) -> twins.Plain:
    """The sum over all states with 50 digits."""
    truth = helpers.enumerate_machine(model, beta)
    lo, span = model.convention.lo, model.convention.span
    up = (truth.mean - lo) / span
    pairs = (truth.second_moment - lo * span * (up[:, None] + up) - lo**2) / span**2
    np.fill_diagonal(pairs, up)
    return twins.Plain(truth.log_z, up, pairs, truth.energy, truth.energy_variance, truth.probabilities)


def plain(model: Any, beta: float = 1.0) -> twins.Plain:
    return twins.sum_all(*helpers.parameters(model), model.units, beta, model.offset)


def assert_same_bits(one: Part, other: Part) -> None:
    for name in ("log_z", "energy", "energy_variance", "up", "pairs"):
        helpers.assert_same_values(getattr(one, name), getattr(other, name))


# Sums, against all states with 50 digits


@pytest.mark.parametrize("n", [*range(1, 9), *(pytest.param(n, marks=pytest.mark.slow) for n in range(9, 13))])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("scale", SCALES)
def test_all_states_with_50_digits(n, units, scale):
    model = machine(n, scale, units)
    truth = enumerated(model, 1.0)
    assert_is(total(plan(model)), model, 1.0, truth)
    assert_is(total(plan(model, min_pieces=4)), model, 1.0, truth)
    assert total(plan(model, wanted=LOG_Z)).log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("beta", [0.0, 1e-300, 1e-3, 0.4, 50.0, 1e6])
def test_any_temperature_and_an_offset(beta, units):
    model = machine(6, "1", units, offset=-7.5)
    assert_is(total(plan(model, beta)), model, beta, enumerated(model, beta))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("coupling", [-1000.0, -1.0, 1.0, 1000.0])
@pytest.mark.parametrize("field", [0.0, 1000.0])
def test_ties(coupling, field, units):
    model = bm.BoltzmannMachine(coupling * (np.ones((7, 7)) - np.eye(7)), np.full(7, field), units=units)
    assert_is(total(plan(model)), model, 1.0, enumerated(model, 1.0))


@pytest.mark.parametrize("units", UNITS)
def test_nothing_is_coupled(units):
    for bias in (np.zeros(5), np.array([1e3, -1e3, 30.0, 0.0, 1e-12])):
        model = bm.BoltzmannMachine(np.zeros((5, 5)), bias, units=units)
        assert_is(total(plan(model)), model, 1.0, enumerated(model, 1.0))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    ("beta", "scale"),
    [(1e300, "1e-300"), (1e250, "1e-250"), (1e-300, "1e300"), (1e-200, "1e200"), (1.0, "1e-320"), (0.0, "1e300"),
     (3.0, "1e306"), (1e300, "1e-10"), (1e-308, "4e305"), (1e308, "1e-308")],
)  # fmt: skip
def test_sizes_at_the_ends_of_what_numbers_hold(beta, scale, units):
    model = machine(6, scale, units)
    for min_pieces in (1, 4):
        part, truth = total(plan(model, beta, min_pieces=min_pieces)), enumerated(model, beta)
        size = size_of(model)
        assert part.log_z == pytest.approx(truth.log_z, rel=1e-12)
        np.testing.assert_allclose(part.pairs, truth.pairs, rtol=0, atol=1e-11 + 8 * EPS * min(beta, 1 / size) * size)
        assert part.energy == pytest.approx(truth.energy, rel=1e-12, abs=1e-13 * size + 1e-322)
        assert math.isfinite(part.energy_variance)
        if truth.energy_variance < 1e300:
            assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-9, abs=4 * EPS * size * size)


# Sums of more units, against float64 where no energy rounds


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    "n", [13, 16, pytest.param(18, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0, 30.0, 1000.0])
def test_more_units(n, scale, units):
    model = coarse(n, scale, units)
    truth = plain(model)
    assert_is(total(plan(model)), model, 1.0, truth)


def independent(n_groups: int, n: int, scale: float, seed: int = 0) -> tuple[bm.BoltzmannMachine, twins.Plain]:
    """Groups of units that know nothing of each other, in a random order, and their sum."""
    groups = [coarse(n, scale, seed=seed + k) for k in range(n_groups)]
    truths = [plain(group) for group in groups]
    order = np.random.default_rng(seed).permutation(n_groups * n)
    weights = scipy.sparse.block_diag([helpers.parameters(group)[0] for group in groups]).toarray()
    bias = np.concatenate([group.flat_bias for group in groups])
    up = np.concatenate([truth.up for truth in truths])
    pairs = np.outer(up, up)
    for k, truth in enumerate(truths):
        pairs[k * n : (k + 1) * n, k * n : (k + 1) * n] = truth.pairs
    log_z, energy, variance = (sum(t[k] for t in truths) for k in (0, 3, 4))
    whole = bm.BoltzmannMachine(weights[np.ix_(order, order)], bias[order])
    return whole, twins.Plain(log_z, up[order], pairs[np.ix_(order, order)], energy, variance, np.empty(0))


@pytest.mark.parametrize(
    ("n_groups", "n", "scale"),
    [(2, 11, 0.5), (4, 6, 0.5), (6, 4, 4.0), pytest.param(3, 9, 1.0, marks=pytest.mark.slow),
     pytest.param(3, 10, 0.3, marks=pytest.mark.slow), pytest.param(3, 11, 0.3, marks=pytest.mark.slow)],
)  # fmt: skip
def test_independent_groups(n_groups, n, scale):
    model, truth = independent(n_groups, n, scale)
    planned = plan(model)
    assert n_groups * n - len(planned.leaves[0].up) > blocks.SMALL
    assert_is(total(planned), model, 1.0, truth)
    assert total(plan(model, wanted=LOG_Z)).log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS)


def test_kernels_are_compiled_once():
    total(plan(machine(5)))
    for kernel in (kernels.form_blocks, kernels.weigh_product, kernels.covary_products, kernels.sum_product, descend):
        assert len(kernel.signatures) <= 1


# Tiles


@pytest.fixture
def small_tiles(monkeypatch):
    """Large passes for all sizes, in tiles of up to 4 x 4."""
    monkeypatch.setattr(blocks_passes, "TILE", 2)
    monkeypatch.setattr(blocks_passes, "FILL_ROWS", 3)
    monkeypatch.setattr(blocks, "SMALL", 0)


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("scale", ["1", "mixed"])
def test_tiles_make_the_whole(small_tiles, n, scale):
    model = machine(n, scale)
    truth = enumerated(model, 1.0)
    assert_is(total(plan(model)), model, 1.0, truth)
    assert total(plan(model, wanted=LOG_Z)).log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS)


@pytest.mark.parametrize("n", [3, 10, 12])
def test_large_and_small_passes_agree(n):
    form = IntegerMachine.of(machine(n, "1"))
    sizes, scale = blocks_plan.split(n), math.ldexp(1.0, 61 - form.exponent)
    for wanted in (Wanted(), NO_VARIANCE, LOG_Z):
        (one, low), (other, same) = (blocks._sum(form, sizes, scale, wanted, p) for p in (Small(), Large(2, never)))
        assert low == same
        assert one.log_z == pytest.approx(other.log_z, rel=1e-13)
        assert (one.energy_variance is None) == (not wanted.energy_variance)
        assert (one.pairs is None) == (not wanted.moments)
        if wanted.moments:
            np.testing.assert_allclose(one.pairs, other.pairs, rtol=1e-12)
            assert one.energy == pytest.approx(other.energy, rel=1e-12)
        if wanted.energy_variance:
            assert one.energy_variance == pytest.approx(other.energy_variance, rel=1e-11)
    product = np.random.default_rng(0).normal(size=(2, 8, 8))
    np.testing.assert_allclose(Large(2, never).product(*product), Small().product(*product), rtol=1e-12)


def test_whole_tables_and_pieces_agree():
    model = machine(24, "0.3")
    whole, pieces = total(plan(model), 2), total(plan(model, min_pieces=8))
    assert whole.log_z == pytest.approx(pieces.log_z, rel=1e-13)
    np.testing.assert_allclose(whole.pairs, pieces.pairs, rtol=0, atol=1e-12)
    assert whole.energy == pytest.approx(pieces.energy, rel=1e-12)
    assert whole.energy_variance == pytest.approx(pieces.energy_variance, rel=1e-10)


@pytest.mark.parametrize("wanted", [Wanted(), LOG_Z])
def test_same_bits_for_any_number_of_threads(small_tiles, wanted):
    planned = plan(machine(11, "1"), wanted=wanted)
    first = planned.piece(0, 1)
    for threads in (2, 3):
        assert_same_bits(planned.piece(0, threads), first)


def test_same_bits_for_any_number_of_threads_of_a_table_of_its_own_size():
    planned = plan(machine(23, "0.3"))
    first = planned.piece(0, 1)
    for threads in (2, 3):
        assert_same_bits(planned.piece(0, threads), first)


# Plans


def states_of(n: int, order: np.ndarray, leaf: Leaf) -> np.ndarray:
    """Which states (by number) a leaf holds."""
    x = np.arange(2**n)
    held = np.ones(2**n, bool)
    for unit, up in zip(order, leaf.up, strict=False):
        held &= (x >> int(unit) & 1) == up
    return held


@pytest.mark.parametrize("beta", [0.0, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("n_held", [0, 3])
@pytest.mark.parametrize("sign", [-1.0, 0.0])
def test_what_a_plan_claims_of_its_leaves(beta, n_held, sign, monkeypatch):
    """Leaves part the states; those left out weigh nothing; each has tables that lose nothing."""
    monkeypatch.setattr(blocks_plan, "DIRECT", 4)
    n = 12
    model = coarse(n, 8.0)
    if sign:
        model = bm.BoltzmannMachine(8.0 * sign * (np.ones((n, n)) - np.eye(n)), model.flat_bias)
    form, truth = IntegerMachine.of(model), plain(model, beta)
    order, leaves = blocks_plan.held_order(form), blocks_plan.cut(form, beta, n_held)
    held = [states_of(n, order, leaf) for leaf in leaves]
    assert np.max(np.sum(held, axis=0)) == 1
    assert truth.weights[np.sum(held, axis=0) == 0].sum() < 1e-17
    for leaf, mine in zip(leaves, held, strict=True):
        assert len(leaf.up) >= n_held
        assert not leaf.direct or n - len(leaf.up) <= 4
        rest, free, added = form.condition(order[: len(leaf.up)], np.array(leaf.up))
        own = twins.own_energies(rest.rises.tolist(), rest.fields.tolist(), range(rest.n_units))
        energies = twins.energies_of_blocks(rest.rises.tolist(), rest.fields.tolist(), leaf.sizes(rest.n_units))
        gap = min(own) - sum(twins.lowest(table) for table in energies)
        assert gap == 0 or not leaf.direct
        assert form.unit(beta) * gap < 700 - 40 - rest.n_units * math.log(2)
        assert len(free) == rest.n_units and mine.sum() == 2**rest.n_units
        low_energy = form.base + math.ldexp(min(own) + added, -form.exponent)
        assert low_energy == pytest.approx(float(np.min(model.energy(all_states(n)[mine]))), abs=1e-9)


@functools.cache
def all_states(n: int) -> np.ndarray:
    return np.array(reference.all_states(n, "spin"))


@pytest.mark.parametrize("units", UNITS)
def test_a_narrow_machine_has_no_state_that_is_lost(units):
    """The heights of a state in its three tables never exceed the bound, at couplings of any sign."""
    for seed in range(20):
        form = IntegerMachine.of(coarse(7, 1.0, units, seed, field=seed % 3))
        widest = 0
        for a, b, c in np.ndindex(8, 4, 4):
            if (a, b, c) == (0, 0, 0):
                energies = twins.energies_of_blocks(form.rises.tolist(), form.fields.tolist(), (3, 2, 2))
                least = sum(twins.lowest(table) for table in energies)
            f, g, h = energies
            widest = max(widest, f[a][b] + g[b][c] + h[a][c] - least)
        edge = (700 - 40 - 7 * math.log(2)) / form.unit(1.0) / widest  # beta at which a state can be lost
        assert not blocks_plan.is_narrow(form, edge)
        assert blocks_plan.is_narrow(form, edge / 8)


def test_without_the_certificate_a_sum_would_be_wrong():
    """Tables that underflow: two thirds of the couplings are against the ground state of each table alone."""
    n = 15
    model = bm.BoltzmannMachine(-1000.0 * (np.ones((n, n)) - np.eye(n)))
    planned = plan(model)
    assert planned.n_pieces > 1 and planned.forecast.seconds < 1
    truth = plain(model)
    assert_is(total(planned), model, 1.0, truth)
    form = planned.form
    tables = [
        Small().table(one, math.ldexp(1.0, 61 - form.exponent))
        for one in kernels.form_blocks(form.rises, form.fields, (5, 5, 5))
    ]
    assert Small().total(*tables) == 0.0


@pytest.mark.parametrize("coupling", [-1.0, -10.0, -44.0, -46.0, -100.0])
def test_couplings_where_the_certificate_begins_to_fail(coupling):
    """Machines on both sides of it, ties and all."""
    n = 14
    model = bm.BoltzmannMachine(coupling * (np.ones((n, n)) - np.eye(n)), np.arange(n) / 64)
    assert_is(total(plan(model)), model, 1.0, plain(model))


@pytest.mark.parametrize("wanted", [Wanted(), NO_VARIANCE, LOG_Z])
def test_memory_is_kept_by_holding_units(wanted):
    model = machine(24, "0.3")
    truth = total(plan(model, wanted=wanted))
    for max_bytes in (1e9, 2e6, 6e5):
        planned = plan(model, wanted=wanted, max_bytes=max_bytes)
        assert planned.forecast.n_bytes <= max_bytes
        assert total(planned).log_z == pytest.approx(truth.log_z, rel=1e-13)
    assert planned.detail["held"] > 0
    assert plan(machine(20), max_bytes=2e5).forecast.n_bytes <= 2e5
    assert plan(machine(20), max_bytes=100.0).forecast.seconds == math.inf


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("wanted", [Wanted(), NO_VARIANCE, LOG_Z])
def test_the_forecast_of_memory_is_kept(wanted, threads):
    for n in (22, 24, 25):
        planned = plan(machine(n, "0.2"), wanted=wanted)
        planned.piece(0, threads)
        tracemalloc.start()
        planned.piece(0, threads)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.2 * planned.forecast.n_bytes < peak < planned.forecast.n_bytes


def test_pieces_as_many_as_asked_for():
    for n, min_pieces, expected in ((10, 5, 8), (3, 100, 8), (10, 1, 1)):
        planned = plan(machine(n, "0.1"), min_pieces=min_pieces)
        assert planned.n_pieces == expected
        assert_is(total(planned), machine(n, "0.1"), 1.0, plain(machine(n, "0.1")))


@pytest.mark.parametrize("n", [62, 70, 200, 5000])
def test_sums_out_of_reach_are_refused_without_work(n):
    weights = scipy.sparse.csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(n, n))
    model = bm.BoltzmannMachine(weights)
    tracemalloc.start()
    planned = plan(model, min_pieces=4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert planned.forecast.seconds == math.inf and f"2^{n}" in planned.forecast.size
    assert planned.n_pieces == 0 and planned.detail["pieces"] == 0
    assert peak < 1e6


def test_ranges_too_wide_are_refused(monkeypatch):
    monkeypatch.setattr(blocks_plan, "MOST_LEAVES", 64)
    planned = plan(machine(40, "1000"))
    assert planned.forecast.seconds == math.inf and "too wide" in planned.forecast.size
    assert planned.n_pieces == 0


def test_forecasts_grow_with_the_sum_and_fall_with_threads():
    few, more, most = (plan(machine(n, "0.1")).forecast for n in (24, 30, 40))
    assert few.seconds < more.seconds < most.seconds < math.inf
    assert few.n_bytes < more.n_bytes <= most.n_bytes <= 4e9
    assert plan(machine(30, "0.1"), threads=2).forecast.seconds < more.seconds
    assert plan(machine(30, "0.1"), wanted=LOG_Z).forecast.seconds < more.seconds
    assert plan(machine(40, "0.1"), threads=2).leaves == plan(machine(40, "0.1")).leaves


# Pieces elsewhere, and stops


def test_pieces_can_be_done_in_another_process():
    planned = plan(machine(12, "8"), min_pieces=4)
    code = (
        "import pickle, sys; s = pickle.load(sys.stdin.buffer);"
        "pickle.dump([s.piece(k, 1) for k in range(s.n_pieces)], sys.stdout.buffer)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(planned), stdout=subprocess.PIPE, check=True)
    for k, part in enumerate(pickle.loads(done.stdout)):
        assert_same_bits(part, planned.piece(k, 2))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stop_is_seen_at_every_tile(small_tiles, threads):
    planned = plan(machine(11, "1"))
    asked = []

    def count() -> bool:
        asked.append(None)
        return False

    whole = planned.piece(0, threads, count)
    n_looks = len(asked)
    assert n_looks > 50
    for last in (1, 2, n_looks // 2, n_looks):
        asked.clear()

        def stop(last: int = last) -> bool:
            asked.append(None)
            return len(asked) >= last

        with pytest.raises(Halted):
            planned.piece(0, threads, stop)
        assert len(asked) < last + 2 * threads + 100 * (threads > 1)
    assert_same_bits(planned.piece(0, threads), whole)
