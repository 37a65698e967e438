"""Sums in three blocks against sums over all states."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg

import fastbm as bm
from fastbm._base.halting import Halted, never
from fastbm.exact.blocks import passes, sum as blocks, tree
from fastbm.exact.blocks.passes import Passes
from fastbm.exact.integers import IntegerMachine
from fastbm.exact.plan import Wanted
from fastbm.kernels.exact import blocks as kernels
from fastbm.kernels.exact.gray import descend
from tests.support import machines
from tests.support.blocks import (
    EPS,
    LOG_Z,
    NO_VARIANCE,
    SCALES,
    assert_is,
    assert_same_bits,
    coarse,
    enumerated,
    machine,
    plain,
    plan,
    size_of,
    total,
)
from tests.support.combinations import each, pairwise
from tests.support.machines import UNITS
from tests.twins import blocks as twins

# Sums, against all states with 50 digits


@pairwise(n=range(1, 9), units=UNITS, scale=SCALES)
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


@pairwise(field=[0.0, 1000.0], coupling=[-1000.0, -1.0, 1.0, 1000.0], units=UNITS)
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


@each(n=[13, 16, 13, 13, 16], scale=[0.1, 1.0, 8.0, 30.0, 1000.0], units=UNITS)
def test_more_units(n, scale, units):
    model = coarse(n, scale, units)
    truth = plain(model)
    assert_is(total(plan(model)), model, 1.0, truth)


def independent(n_groups: int, n: int, scale: float, seed: int = 0) -> tuple[bm.BoltzmannMachine, twins.Plain]:
    """Groups of units that know nothing of each other, in a random order, and their sum."""
    groups = [coarse(n, scale, seed=seed + k) for k in range(n_groups)]
    truths = [plain(group) for group in groups]
    order = np.random.default_rng(seed).permutation(n_groups * n)
    weights = scipy.linalg.block_diag(*(machines.parameters(group)[0] for group in groups))
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
    held = len(planned.leaves[0].up) if planned.leaves else planned.n_held
    assert n_groups * n - held > blocks.SMALL
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
    monkeypatch.setattr(passes, "TILE", 2)
    monkeypatch.setattr(passes, "FILL_ROWS", 3)
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
    sizes, scale = tree.split(n), math.ldexp(1.0, 61 - form.exponent)
    for wanted in (Wanted(), NO_VARIANCE, LOG_Z):
        one, low = blocks._sum_small(form, sizes, scale, wanted)
        other, same = blocks._sum(form, sizes, scale, wanted, Passes(2, never))
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
    np.testing.assert_allclose(Passes(2, never).product(*product), product[0] @ product[1], rtol=1e-12)


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
