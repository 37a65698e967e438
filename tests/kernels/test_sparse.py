"""Sparse sweeps and energies against their twins, the same path flip by flip; colours of graphs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fastbm.kernels.energy import energies_packed, energies_sparse, fill_energies_few
from fastbm.kernels.graph import colour_units
from fastbm.kernels.sampling.sparse import sweep_sparse
from tests.twins import reference, sampling as slow

RULES = ["gibbs", "metropolis"]
UNITS = ["spin", "binary"]
FRACTION = 2.0**-16  # couplings are multiples of it, so that fixed point holds them exactly
FIXED = {np.int32: 2.0**20, np.int64: 2.0**40}
FEW = settings(derandomize=True, max_examples=25, deadline=None)


class Machine(NamedTuple):
    """A random machine on a random graph; `bias` (lanes, n) or (1, n)."""

    weights: np.ndarray
    bias: np.ndarray
    units: str

    @classmethod
    def draw(cls, n: int, units: str, seed: int, *, density: float = 0.4, n_biases: int = 1) -> Machine:
        generator = np.random.default_rng(seed)
        weights = np.triu(generator.normal(size=(n, n)) * (generator.random((n, n)) < density), 1)
        bias = generator.normal(scale=0.3, size=(n_biases, n))
        weights, bias = (np.round(x / FRACTION) * FRACTION for x in (weights, bias))
        return cls(weights + weights.T, bias, units)

    def bias_of(self, lane: int) -> np.ndarray:
        return self.bias[lane if len(self.bias) > 1 else 0]

    @property
    def csr(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, columns = np.nonzero(self.weights)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(self.weights)))])
        return indptr, columns.astype(np.int32), self.weights[rows, columns]

    def graph(self, dtype) -> tuple[np.ndarray, ...]:
        lo, hi = reference.VALUES[self.units]
        indptr, indices, values = self.csr
        start = (self.bias + lo * self.weights.sum(axis=1)).T * FIXED[dtype]
        rises = np.rint((hi - lo) * values * FIXED[dtype]).astype(dtype)
        return indptr, indices, rises, np.ascontiguousarray(np.rint(start).astype(dtype))


class Lanes(NamedTuple):
    up: np.ndarray
    streams: np.ndarray

    @classmethod
    def draw(cls, n: int, lanes: int, seed: int) -> Lanes:
        generator = np.random.default_rng(seed)
        up = generator.integers(0, 2, (n, lanes), dtype=np.uint8)
        return cls(up, generator.integers(1, 2**32, (4, lanes), dtype=np.uint32))

    def sweep(self, machine, beta, sites, n_sweeps, rule="gibbs", hold=0, dtype=np.int32, n_chains=None) -> int:
        lo, hi = reference.VALUES[machine.units]
        scale = np.broadcast_to(FIXED[dtype] / (np.asarray(beta) * (hi - lo)), self.up.shape[1]).astype(np.float32)
        rows, used = np.ascontiguousarray(sites, np.int32), self.up.shape[1] if n_chains is None else n_chains
        held = None if rule == "gibbs" else np.uint32(hold)
        return sweep_sparse(self.up, machine.graph(dtype), scale, self.streams, rows, n_sweeps, held, used)


def assert_is_the_twin(machine: Machine, lanes: Lanes, betas, sites, n_sweeps, rule, hold=0, dtype=np.int32) -> None:
    """States, flips, and one word an attempt from every stream."""
    lo, hi = reference.VALUES[machine.units]
    before, twins = lanes.up.copy(), [reference.xoshiro(stream) for stream in lanes.streams.T.tolist()]
    n_flips, expected = lanes.sweep(machine, betas, sites, n_sweeps, rule, hold, dtype), 0
    for c, words in enumerate(twins):
        state, arguments = [hi if bit else lo for bit in before[:, c]], (machine.weights, machine.bias_of(c))
        for t in range(n_sweeps):
            row = sites[t % len(sites)].tolist()
            if hold:
                expected += slow.sweep_held(state, *arguments, machine.units, betas[c], words, row, hold)
            else:
                expected += reference.sweep(state, *arguments, machine.units, betas[c], words, row, rule)
        assert lanes.up[:, c].tolist() == [int(value == hi) for value in state]
        ahead = reference.xoshiro(lanes.streams[:, c].tolist())
        assert [next(ahead) for _ in range(4)] == [next(words) for _ in range(4)]
    assert n_flips == expected


@pytest.mark.parametrize("dtype", FIXED)
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(("rule", "hold"), [("gibbs", 0), ("metropolis", 0), ("metropolis", 1 << 28)])
def test_path_is_that_of_the_twin(rule, hold, units, dtype):
    machine, betas = Machine.draw(23, units, seed=1, n_biases=5), np.array([0.1, 0.5, 1.0, 2.0, 7.0])
    sites = np.random.default_rng(2).integers(0, 23, (10, 23))
    assert_is_the_twin(machine, Lanes.draw(23, 5, seed=3), betas, sites, 15, rule, hold, dtype)


@FEW
@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from(RULES),
    st.sampled_from(UNITS),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.booleans(),
    st.integers(0, 2**16),
    st.data(),
)
def test_path_is_that_of_the_twin_for_any_graph(n, n_lanes, rule, units, density, bias_per_lane, seed, data):
    row = st.lists(st.integers(0, n - 1), min_size=1, max_size=2 * n + 17)
    sites = np.array(data.draw(row))[None]
    machine = Machine.draw(n, units, seed, density=density, n_biases=n_lanes if bias_per_lane else 1)
    assert_is_the_twin(machine, Lanes.draw(n, n_lanes, seed), np.ones(n_lanes), sites, 3, rule)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("n_lanes", [1, 15, 17, 64])
def test_a_chain_does_not_depend_on_the_number_of_lanes(rule, n_lanes):
    machine, sites = Machine.draw(20, "binary", seed=4), np.random.default_rng(5).integers(0, 20, (30, 20))
    together, alone = Lanes.draw(20, 65, seed=6), Lanes.draw(20, 65, seed=6)
    alone = Lanes(*(np.ascontiguousarray(array[:, :n_lanes]) for array in alone))
    for lanes in (together, alone):
        lanes.sweep(machine, 1.0, sites, 30, rule)
    assert np.array_equal(alone.up, together.up[:, :n_lanes])
    assert np.array_equal(alone.streams, together.streams[:, :n_lanes])


def test_flips_of_the_chains_alone_are_counted():
    machine, sites = Machine.draw(20, "spin", seed=7), np.arange(20)[None]
    for n_chains in (0, 3, 16):
        lanes = Lanes.draw(20, 16, seed=8)
        before = lanes.up.copy()
        n_flips = lanes.sweep(machine, 0.5, sites, 1, n_chains=n_chains)
        assert n_flips == (before != lanes.up)[:, :n_chains].sum()


@pytest.mark.parametrize("rule", RULES)
def test_cutting_a_run_into_calls_changes_nothing(rule):
    machine, sites = Machine.draw(19, "spin", seed=9), np.arange(19)[None]
    whole, parts = Lanes.draw(19, 8, seed=10), Lanes.draw(19, 8, seed=10)
    n_flips = whole.sweep(machine, 1.0, sites, 30, rule)
    assert sum(parts.sweep(machine, 1.0, sites, part, rule) for part in (1, 0, 12, 17)) == n_flips
    assert np.array_equal(whole.up, parts.up)


@pytest.mark.parametrize("dtype", FIXED)
@pytest.mark.parametrize("rule", RULES)
def test_fields_at_the_end_of_the_type_do_not_wrap(rule, dtype):
    most = np.iinfo(dtype).max - (256 if dtype == np.int32 else 2**62)
    start = np.array([[most], [-most]], dtype)
    graph = (np.zeros(3, np.int64), np.zeros(0, np.int32), np.zeros(0, dtype), start)
    lanes, scale = Lanes.draw(2, 16, seed=11), np.full(16, 0.01, np.float32)
    hold, sites = None if rule == "gibbs" else np.uint32(1 << 28), np.array([[0, 1]], np.int32)
    sweep_sparse(lanes.up, graph, scale, lanes.streams, sites, 100, hold, 16)
    assert lanes.up[0].all()
    assert not lanes.up[1].any()


# Energies


@FEW
@given(st.integers(1, 12), st.sampled_from([1, 16, 33]), st.sampled_from(UNITS), st.booleans(), st.integers(0, 2**16))
def test_energies_are_those_of_the_twin(n, lanes, units, bias_per_lane, seed):
    machine = Machine.draw(n, units, seed, n_biases=lanes if bias_per_lane else 1)
    up, energies = Lanes.draw(n, lanes, seed).up, np.empty(lanes)
    lo, hi = reference.VALUES[units]
    about = (machine.csr, np.ascontiguousarray(machine.bias.T), (float(lo), float(hi - lo)))
    energies_sparse(up, *about, energies)
    few = np.empty(lanes)
    fill_energies_few(up, *about, np.empty(lanes), few)
    assert few.tolist() == energies.tolist()
    packed, side_by_side = np.zeros((n, 2, 4), np.uint8), np.empty(64)
    packed.reshape(n, 8)[:, : -(-lanes // 8)] = np.packbits(up, axis=1, bitorder="little")
    for lane in range(lanes if bias_per_lane else 1):
        energies_packed(packed.view(np.uint32)[..., 0], about[0], about[1][:, lane], about[2], side_by_side)
        own = slice(lane, lane + 1) if bias_per_lane else slice(lanes)
        assert side_by_side[own].tolist() == energies[own].tolist()
    states = np.where(up, hi, lo).T.tolist()
    exact = [reference.energy(state, machine.weights, machine.bias_of(c)) for c, state in enumerate(states)]
    np.testing.assert_allclose(energies, exact, rtol=0, atol=1e-13 * n * n)


# Colours


def colours_of(n: int, edges: list[tuple[int, int]]) -> list[int]:
    both = sorted([*edges, *((j, i) for i, j in edges)])
    indptr = np.concatenate([[0], np.cumsum(np.bincount([i for i, _ in both], minlength=n))]).astype(np.int64)
    colours = np.full(n, 99, np.int32)
    colour_units(indptr, np.array([j for _, j in both], np.int32), colours)
    return colours.tolist()


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.integers(1, 12), st.data())
def test_neighbours_differ_in_colour_and_two_colours_are_enough_where_they_can_be(n, data):
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
    edges = data.draw(st.lists(pairs, unique=True)) if n > 1 else []
    colours = colours_of(n, edges)
    assert slow.is_proper(colours, edges)
    assert set(colours) == set(range(max(colours) + 1))
    degrees = np.bincount(np.array(edges, int).ravel(), minlength=n)
    assert max(colours) <= degrees.max()
    if slow.is_bipartite(n, edges):
        assert max(colours) <= 1


def grid(rows: int, columns: int) -> list[tuple[int, int]]:
    """Edges of a periodic lattice, each once."""
    place = {(r, c): r * columns + c for r in range(rows) for c in range(columns)}
    pairs = {
        tuple(sorted((place[r, c], place[(r + dr) % rows, (c + dc) % columns])))
        for r, c in place for dr, dc in ((0, 1), (1, 0))
    }  # fmt: skip
    return sorted((i, j) for i, j in pairs if i != j)


@pytest.mark.parametrize(("sides", "n_colours"), [((4, 6), 2), ((2, 2), 2), ((8, 8), 2), ((1, 7), 3), ((5, 4), 3)])
def test_colours_of_lattices(sides, n_colours):
    edges = grid(*sides)
    colours = colours_of(sides[0] * sides[1], edges)
    assert slow.is_proper(colours, edges)
    assert max(colours) + 1 == n_colours or (n_colours == 3 and max(colours) + 1 <= 4)


def test_colours_of_trees_layers_and_cliques():
    tree = [((k - 1) // 2, k) for k in range(1, 40)]
    assert max(colours_of(40, tree)) == 1
    layers = [(i, j) for i in range(4) for j in range(4, 7)] + [(j, k) for j in range(4, 7) for k in range(7, 9)]
    assert colours_of(9, layers) == [0] * 4 + [1] * 3 + [0] * 2
    clique = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    assert sorted(colours_of(6, clique)) == list(range(6))
    assert colours_of(5, []) == [0] * 5


def test_one_compiled_signature_for_each_type_of_fields():
    def run_all(n):
        machine, lanes = Machine.draw(n, "spin", seed=12), Lanes.draw(n, 16, seed=13)
        for dtype in FIXED:
            for rule in RULES:
                lanes.sweep(machine, 1.0, np.zeros((1, n)), 1, rule, dtype=dtype)
        energies_sparse(lanes.up, machine.csr, np.zeros((n, 1)), (-1.0, 2.0), np.empty(16))
        colours_of(n, [])

    kernels = (sweep_sparse, energies_sparse, colour_units)
    run_all(5)
    before = [list(getattr(kernel, "signatures", [])) for kernel in kernels]
    run_all(1)
    assert [list(getattr(kernel, "signatures", [])) for kernel in kernels] == before
