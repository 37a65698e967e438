"""Plans of sums in three blocks against what they claim."""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm.exact.blocks import sum as blocks_plan, tree
from fastbm.exact.blocks.prefixes import prefix
from fastbm.exact.blocks.tree import Leaf
from fastbm.exact.integers import IntegerMachine
from fastbm.exact.plan import Wanted
from fastbm.kernels.exact.small_blocks import total_small
from tests.support.blocks import (
    LOG_Z,
    NO_VARIANCE,
    assert_is,
    coarse,
    machine,
    plain,
    plan,
    total,
)
from tests.support.combinations import pairwise
from tests.support.machines import UNITS
from tests.twins import blocks as twins, reference


def states_of(n: int, order: np.ndarray, leaf: Leaf) -> np.ndarray:
    """Which states (by number) a leaf holds."""
    x = np.arange(2**n)
    held = np.ones(2**n, bool)
    for unit, up in zip(order, leaf.up, strict=False):
        held &= (x >> int(unit) & 1) == up
    return held


@pairwise(sign=[-1.0, 0.0], n_held=[0, 3], beta=[0.0, 1.0, 5.0, 100.0])
def test_what_a_plan_claims_of_its_leaves(beta, n_held, sign, monkeypatch):
    """Leaves part the states; those left out weigh nothing; each has tables that lose nothing."""
    monkeypatch.setattr(tree, "DIRECT", 4)
    n = 12
    model = coarse(n, 8.0)
    if sign:
        model = bm.BoltzmannMachine(8.0 * sign * (np.ones((n, n)) - np.eye(n)), model.flat_bias)
    form, truth = IntegerMachine.of(model), plain(model, beta)
    order, leaves = tree.held_order(form), tree.cut(form, beta, n_held)
    if n_held:  # the leaves under all prefixes of two units, each found alone, are the same
        found = [tree.Tree(form, beta, n_held).leaves(prefix(k, 2)) for k in range(4)]
        assert sorted(itertools.chain(*found), key=str) == sorted(leaves, key=str)
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
        assert not tree.is_narrow(form, edge)
        assert tree.is_narrow(form, edge / 8)


def test_without_the_certificate_a_sum_would_be_wrong():
    """Tables that underflow: two thirds of the couplings are against the ground state of each table alone."""
    n = 15
    model = bm.BoltzmannMachine(-1000.0 * (np.ones((n, n)) - np.eye(n)))
    planned = plan(model)
    assert planned.n_pieces > 1 and planned.forecast.seconds < 1
    truth = plain(model)
    assert_is(total(planned), model, 1.0, truth)
    form = planned.form
    assert total_small(form.rises, form.fields, (5, 5, 5), math.ldexp(1.0, 61 - form.exponent))[0] == 0.0


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


@pytest.mark.parametrize("threads", [1, 3, 12])
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
    monkeypatch.setattr(tree, "MOST_LEAVES", 64)
    planned = plan(machine(40, "1000"), n_prefix=0)
    assert planned.forecast.seconds == math.inf and "too wide" in planned.forecast.size
    assert planned.n_pieces == 0


def test_forecasts_grow_with_the_sum_and_fall_with_threads():
    few, more, most = (plan(machine(n, "0.1")).forecast for n in (24, 30, 40))
    assert few.seconds < more.seconds < most.seconds < math.inf
    assert few.n_bytes < more.n_bytes <= most.n_bytes <= 4e9
    assert plan(machine(30, "0.1"), threads=2).forecast.seconds < more.seconds
    assert plan(machine(30, "0.1"), wanted=LOG_Z).forecast.seconds < more.seconds
    assert plan(machine(28, "0.1"), threads=2).leaves == plan(machine(28, "0.1")).leaves


@pytest.mark.parametrize(("scale", "n_held"), [("0.01", 3), ("1", 5), ("30", 3)])
def test_prefixes_make_the_sum(scale, n_held, monkeypatch):
    """Prefixes of three units, one of which may hold nothing that weighs anything."""
    monkeypatch.setattr(blocks_plan, "fewest_held", lambda *_: n_held)
    monkeypatch.setattr(tree, "DIRECT", 4)
    model = machine(12, scale)
    planned = plan(model, n_prefix=3)
    assert planned.n_pieces == 8 and planned.detail == {"held": n_held, "pieces": 8}
    assert_is(total(planned), model, 1.0, plain(model))


@pytest.mark.parametrize(("n", "wanted", "n_pieces"), [(36, LOG_Z, 16), (50, LOG_Z, 1024), (54, NO_VARIANCE, 32768)])
def test_plans_of_large_sums_are_small(n, wanted, n_pieces):
    """Their pieces are counted by the units and by what is wanted; leaves are found by who does a piece."""
    planned = plan(machine(n, "0.3"), wanted=wanted)
    assert (planned.n_pieces, planned.leaves) == (n_pieces, ())
    assert len(pickle.dumps(planned)) < 100_000
    assert plan(machine(n, "10"), wanted=wanted, threads=2).n_pieces == n_pieces
    assert n == 36 or 30.0 < planned.forecast.seconds / n_pieces < 120.0
    assert planned.forecast.n_bytes < 4e9


def test_probes_tell_how_many_leaves_there_are(monkeypatch):
    """The mean over many walks is the number of leaves, within four standard errors."""
    monkeypatch.setattr(tree, "DIRECT", 4)
    form = IntegerMachine.of(machine(12, "60"))
    leaves, whole = tree.cut(form, 1.0, 3), tree.Tree(form, 1.0, 3)
    weights = np.array([probe[1] if (probe := whole.probe(seed)) else 0.0 for seed in range(400)])
    assert abs(weights.mean() - len(leaves)) <= 4 * weights.std() / 20 + 1e-9
    assert len(leaves) > 4
