"""Elimination against sums with 50 digits, belief propagation, transfer matrices and closed forms."""

from __future__ import annotations

import math
import pickle

import networkx as nx
import numpy as np
import pytest

import fastbm as bm
from fastbm import lattice as known
from fastbm._base.halting import Halted
from fastbm.exact.elimination import tables
from fastbm.machine.couplings import Sparse
from tests.support.combinations import each, pairwise
from tests.support.elimination import GRAPHS, every_pair, lattice, on_graph, plan, summed
from tests.support.machines import KINDS, UNITS, enumerate_machine, machine, parameters
from tests.twins import elimination as twin

EPS = np.finfo(float).eps


def assert_agrees(model: bm.BoltzmannMachine, beta: float = 1.0, **wanted) -> None:
    """Compare all that one sum gives with the sum over all states; without `pairs` those that are coupled."""
    planned = plan(model, beta, **wanted)
    part, truth = planned.piece(0, 1), enumerate_machine(model, beta)
    weights, bias = parameters(model)
    size = np.abs(weights).sum() + np.abs(bias).sum() + abs(model.offset)
    lo, span = model.convention.lo, model.convention.span
    up = (truth.states - lo) / span
    p = (truth.probabilities[:, None] * up).T @ up
    near = 1e-11 + 8 * EPS * beta * np.abs(weights).sum()
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS * (1 + beta * size))
    assert summed(model, beta, moments=False).log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS)
    assert part.up == pytest.approx(np.diag(p), rel=0, abs=near)
    if planned.named_pairs is None:
        assert part.pairs == pytest.approx(p, rel=0, abs=near)
    else:
        i, j = planned.named_pairs.T
        assert set(zip(*np.nonzero(np.triu(weights)), strict=True)) <= set(zip(i, j, strict=True))
        assert part.pairs == pytest.approx(p[i, j], rel=0, abs=near)
    assert part.energy == pytest.approx(truth.energy, rel=1e-12, abs=near * size)
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=10 * near, abs=1e-14 * near * size**2)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_couplings(kind, units):
    model = machine(kind, units, offset=0.3)
    for beta in (0.0, 0.8):
        assert_agrees(model, beta)
        assert_agrees(model, beta, pairs=every_pair(model.n_units))


@each(name=GRAPHS, units=UNITS)
def test_every_kind_of_graph(name, units):
    assert_agrees(on_graph(GRAPHS[name], units, offset=-2.0), 0.9)


@pairwise(name=["grid", "ring", "parts"], scale=[1e-300, 1e-12, 1.0, 30.0, 1e3], units=UNITS)
def test_couplings_of_any_size(name, scale, units):
    assert_agrees(on_graph(GRAPHS[name], units, scale=scale))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e3])
def test_states_that_tie(scale):
    weights = scale * np.array(nx.to_numpy_array(GRAPHS["grid"]))
    weights[0, 1] = weights[1, 0] = -scale  # frustrated
    assert_agrees(bm.BoltzmannMachine(weights))
    mixed = weights * np.where(np.arange(9)[:, None] * np.arange(9) % 2, 1e-9, 1.0)
    assert_agrees(bm.BoltzmannMachine(mixed, np.full(9, 0.5 * scale)))


def test_tiny_couplings_at_a_huge_beta():
    model = on_graph(GRAPHS["grid"], scale=1.0, seed=2)
    tiny = bm.BoltzmannMachine(model.couplings.scaled(1e-200), model.bias * 1e-200)
    part, same = summed(tiny, 1e200), summed(model)
    assert part.log_z == pytest.approx(same.log_z, rel=1e-12)
    assert part.up == pytest.approx(same.up, rel=1e-12)


def test_log_odds_that_overflow_are_not_tried():
    planned = plan(bm.BoltzmannMachine([[0.0, 1e200], [1e200, 0.0]]), 1e200)
    assert planned.forecast.seconds == math.inf


@pytest.mark.parametrize("n", [13, 15])
def test_wide_steps_of_a_dense_machine(n):
    generator = np.random.default_rng(n)
    weights = np.triu(generator.normal(size=(n, n)) / 3, 1)
    model = bm.BoltzmannMachine(weights + weights.T, generator.normal(size=n), units="binary")
    truth, part = twin.enumerate_all(weights + weights.T, model.bias, "binary", 1.0), summed(model)
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-13)
    assert part.pairs == pytest.approx(truth.pairs, abs=1e-13)
    assert part.energy == pytest.approx(truth.energy, rel=1e-12)
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-11)


def test_scattered_reads_of_wide_steps():
    model = on_graph(nx.random_regular_graph(9, 18, seed=2), scale=0.3)
    planned = plan(model)
    assert planned.detail["width"] > 11
    part, truth = planned.piece(0, 1), twin.enumerate_all(*parameters(model), "spin", 1.0)
    i, j = planned.named_pairs.T
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-13)
    assert part.pairs == pytest.approx(truth.pairs[i, j], abs=1e-13)
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-11)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(5, 4), (3, 8), (12, 6), (30, 3)])
def test_lattices_against_transfer_matrices(rows, columns, wrapped):
    model = lattice(rows, columns, wrapped=(False, wrapped))
    for beta in (0.1, 0.44, 2.0):
        truth = twin.transfer_log_z(rows, columns, beta, wrapped=wrapped)
        assert summed(model, beta, moments=False).log_z == pytest.approx(truth, rel=1e-12)
    step = 1e-4
    slope = [twin.transfer_log_z(rows, columns, 0.4 + d, wrapped=wrapped) for d in (-step, 0.0, step)]
    part = summed(model, 0.4)
    assert part.energy == pytest.approx((slope[0] - slope[2]) / (2 * step), rel=1e-5)
    assert part.energy_variance == pytest.approx((slope[0] - 2 * slope[1] + slope[2]) / step**2, rel=1e-3)
    assert part.up == pytest.approx(np.full(rows * columns, 0.5), abs=1e-12)


@pytest.mark.parametrize("sides", [(4, 4), (5, 5), (4, 7), (7, 4)])
def test_tori_against_kaufman(sides):
    for beta in (0.0, 0.2, known.CRITICAL_BETA, 1.5):
        part = summed(lattice(*sides, wrapped=(True, True)), beta)
        assert part.log_z == pytest.approx(known.kaufman_log_z(*sides, beta), rel=1e-12)
        assert part.pairs == pytest.approx(np.full(len(part.pairs), part.pairs.mean()), abs=0.5)
    across = part.pairs.reshape(-1)
    assert part.energy == pytest.approx(-(4 * across - 1).sum(), rel=1e-12)


@pytest.mark.parametrize(("n", "beta"), [(4, 0.3), (10, 1.0), (1000, 0.7), (50, 40.0)])
def test_rings_against_the_closed_form(n, beta):
    model = bm.BoltzmannMachine(on_graph(nx.cycle_graph(n)).couplings.with_arrays([np.ones(n)]))
    part = summed(model, beta)
    t = math.tanh(beta)
    truth = n * (beta + math.log1p(math.exp(-2 * beta))) + math.log1p(t**n)
    product = (t + t ** (n - 1)) / (1 + t**n)
    assert part.log_z == pytest.approx(truth, rel=1e-13)
    assert 4 * part.pairs - 1 == pytest.approx(np.full(n, product), abs=1e-12)
    assert part.energy == pytest.approx(-n * product, rel=1e-12)
    each = (1 - t * t) * (1 + (n - 1) * t ** (n - 2)) / (1 + t**n)
    slope = each - product * n * t ** (n - 1) * (1 - t * t) / (1 + t**n)
    assert part.energy_variance == pytest.approx(n * slope, rel=1e-9, abs=1e-12)


def test_tree_against_belief_propagation():
    n = 3000
    generator = np.random.default_rng(5)
    parents = np.array([0, *(generator.integers(max(0, k - 20), k) for k in range(1, n))])
    couplings, bias = generator.normal(size=n), generator.normal(size=n)
    pairs = Sparse.of_pairs(n, np.arange(1, n), parents[1:], couplings[1:])
    log_z, means, products = twin.believe(parents.tolist(), couplings.tolist(), bias.tolist(), 0.8)
    planned = plan(bm.BoltzmannMachine(pairs, bias), 0.8)
    part = planned.piece(0, 1)
    assert planned.detail["width"] == 1
    assert part.log_z == pytest.approx(log_z, rel=1e-13)
    assert 2 * part.up - 1 == pytest.approx(np.array(means), abs=1e-12)
    whole = dict(zip(map(tuple, planned.named_pairs.tolist()), part.pairs, strict=True))
    both = np.array([whole[parents[k], k] for k in range(1, n)])
    found = 4 * both - 2 * part.up[1:] - 2 * part.up[parents[1:]] + 1
    assert found == pytest.approx(np.array(products[1:]), abs=1e-12)


def test_chosen_pairs_by_both_ways():
    model = lattice(4, 6)
    pairs = np.array([[0, 23], [3, 17], [3, 5], [1, 2]])
    planned = plan(model, 0.6, pairs=pairs)
    named = planned.named_pairs
    assert named.tolist() == sorted([*model.couplings.edges.tolist(), [0, 23], [3, 17], [3, 5]])
    assert not planned.given


def test_many_chosen_pairs_from_conditioned_machines():
    chain = on_graph(nx.path_graph(60), scale=2.0)
    many = plan(chain, pairs=every_pair(60)[::7])
    assert many.detail["n_conditioned"] == len(many.given) > 5
    found = dict(zip(map(tuple, many.named_pairs.tolist()), many.piece(0, 1).pairs, strict=True))
    for pair in every_pair(60)[::7][::20]:
        one = plan(chain, pairs=pair[None])
        assert not one.given
        alone = dict(zip(map(tuple, one.named_pairs.tolist()), one.piece(0, 1).pairs, strict=True))
        assert found[tuple(pair.tolist())] == pytest.approx(alone[tuple(pair.tolist())], rel=1e-12)


def test_all_pairs_from_conditioned_machines():
    model = on_graph(nx.path_graph(12), scale=1.0)
    planned = plan(model, pairs=every_pair(12))
    truth = twin.enumerate_all(*parameters(model), "spin", 1.0)
    assert planned.named_pairs is None
    assert planned.piece(0, 1).pairs == pytest.approx(truth.pairs, abs=1e-13)
    wide = on_graph(nx.path_graph(40), scale=1.0, seed=1)
    planned = plan(wide, pairs=every_pair(40))
    assert planned.given
    whole = planned.piece(0, 1).pairs
    assert np.isfinite(whole).all() and (whole == whole.T).all()
    ends = plan(wide, pairs=np.array([[0, 39]]))
    assert ends.named_pairs[1].tolist() == [0, 39]
    assert whole[0, 39] == pytest.approx(ends.piece(0, 1).pairs[1], rel=1e-12)


def test_segments_change_no_bit_and_keep_memory():
    model = on_graph(nx.grid_2d_graph(9, 11), scale=1.0)
    whole, cut = plan(model), plan(model, max_bytes=0)
    assert whole.detail["n_segments"] == 1 < cut.detail["n_segments"]
    assert cut.forecast.n_bytes < whole.forecast.n_bytes and cut.forecast.seconds > whole.forecast.seconds
    one, other = whole.piece(0, 1), cut.piece(0, 1)
    assert one.log_z == other.log_z and one.energy_variance == other.energy_variance
    assert (one.up == other.up).all() and (one.pairs == other.pairs).all()


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(tables, "RANGE", 1 << 10)
    monkeypatch.setattr(tables, "CALL", 1 << 9)
    for model in (on_graph(nx.grid_2d_graph(12, 13)), on_graph(nx.random_regular_graph(4, 40, seed=1))):
        planned = plan(model)
        assert planned.detail["width"] > 11
        parts = [planned.piece(0, threads) for threads in (1, 2, 3)]
        for part in parts[1:]:
            assert part.log_z == parts[0].log_z and part.energy == parts[0].energy
            assert part.energy_variance == parts[0].energy_variance
            assert (part.up == parts[0].up).all() and (part.pairs == parts[0].pairs).all()
        monkeypatch.undo()
        same = planned.piece(0, 1)
        assert same.log_z == parts[0].log_z
        assert same.pairs == pytest.approx(parts[0].pairs, abs=1e-14)
        monkeypatch.setattr(tables, "RANGE", 1 << 10)


def test_stops_where_asked(monkeypatch):
    monkeypatch.setattr(tables, "CALL", 1 << 9)
    planned = plan(lattice(13, 13))
    asked = 0

    def halt() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    with pytest.raises(Halted):
        planned.piece(0, 2, halt)
    assert asked == 6


def test_plans_can_be_pickled():
    planned = plan(lattice(4, 5), pairs=np.array([[0, 19]]))
    same = pickle.loads(pickle.dumps(planned))
    assert same.piece(0, 1).log_z == planned.piece(0, 1).log_z
    assert same.detail == planned.detail and same.n_pieces == 1


def test_only_what_is_wanted_is_done():
    model = lattice(5, 5)
    part = summed(model, 0.5, moments=False)
    assert part.up is part.pairs is part.energy is part.energy_variance is None
    without = summed(model, 0.5, energy_variance=False)
    assert without.energy_variance is None
    assert without.energy == summed(model, 0.5).energy


def test_too_wide_machines_are_forecast_not_done():
    dense = bm.models.sherrington_kirkpatrick(60, seed=1)
    planned = plan(dense)
    assert planned.forecast.seconds == math.inf and planned.forecast.size == "width 59"
    assert planned.detail == {} and planned.named_pairs is None
    with pytest.raises(ValueError, match="elimination cannot do this sum: width 59"):
        planned.piece(0, 1)
    cube = plan(bm.models.ising((12, 12, 12)))
    assert cube.forecast.seconds == math.inf and cube.forecast.size == "width above 100"
    wide = plan(lattice(28, 28), moments=False)
    assert wide.detail["width"] == 28 and wide.forecast.n_bytes > 4e9


@pytest.mark.parametrize(("wrapped", "width", "moments"), [((False, False), 25, False), ((False, True), 22, True)])
def test_the_widths_that_must_fit_do(wrapped, width, moments):
    planned = plan(lattice(width, width, wrapped=wrapped), moments=moments)
    assert planned.detail["width"] == width and planned.forecast.n_bytes < 4e9
