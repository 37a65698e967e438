"""Orders of elimination against networkx, and their programs against what they say."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import fastbm as bm
from fastbm.exact.elimination import order as orders
from fastbm.exact.elimination.program import cover, lay_out, neighbours_of
from fastbm.kernels.exact import elimination as kernels
from tests.support.elimination import GRAPHS, lattice


def neighbours(graph: nx.Graph) -> list[set[int]]:
    numbered = nx.convert_node_labels_to_integers(graph, ordering="sorted")
    return [set(numbered[unit]) for unit in range(len(numbered))]


def scopes_of(units: list[int], graph: list[set[int]]) -> list[set[int]]:
    """Units of every step's scope, by joining neighbours."""
    left = [set(others) for others in graph]
    found = []
    for unit in units:
        found.append(set(left[unit]))
        for other in left[unit]:
            left[other] |= left[unit]
            left[other] -= {unit, other}
    return found


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 14), st.integers(0, 40), st.integers(0, 1000))
def test_orders_and_scopes_of_random_graphs(n, m, seed):
    graph = neighbours(nx.gnm_random_graph(n, m, seed=seed))
    by_fill = orders.by_fill(graph)
    by_degree, width = orders.by_degree(graph)
    for units in (by_fill, by_degree, *(units for _, units in orders._sweeps(graph))):
        assert sorted(units) == list(range(n))
        order = orders.evaluate("x", units, graph)
        truth = scopes_of(units, graph)
        assert [{units[k] for k in scope} for scope in order.scopes] == truth
        assert order.n_entries == sum(2 ** len(scope) for scope in truth)
    assert width == max(map(len, scopes_of(by_degree, graph)))
    best, text = orders.best_order(graph)
    assert text == f"width {best.width}"
    assert best.n_entries <= orders.evaluate("x", by_degree, graph).n_entries


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 14), st.integers(0, 40), st.integers(0, 1000))
def test_greedy_orders_take_what_costs_least(n, m, seed):
    graph = neighbours(nx.gnm_random_graph(n, m, seed=seed))
    for units, cost in ((orders.by_degree(graph)[0], len), (orders.by_fill(graph), None)):
        left = nx.Graph([(i, j) for i, others in enumerate(graph) for j in others])
        left.add_nodes_from(range(n))

        def lacking(unit, left=left):
            return sum(not left.has_edge(i, j) for i in left[unit] for j in left[unit] if i < j), left.degree(unit)

        for unit in units:
            costs = {u: left.degree(u) if cost else lacking(u) for u in left}
            assert costs[unit] == min(costs.values())
            left.add_edges_from((i, j) for i in left[unit] for j in left[unit] if i < j)
            left.remove_node(unit)


def narrowest(graph: list[set[int]]) -> orders.Order:
    """The sweep of least width."""
    tried = [orders.evaluate(name, units, graph) for name, units in orders._sweeps(graph)]
    return min((order for order in tried if order is not None), key=lambda order: order.width)


@pytest.mark.parametrize(
    ("shape", "width"), [((7, 7), 7), ((7, 30), 7), ((30, 7), 7), ((4, 4, 9), 16), ((4, 9, 4), 16), ((9, 4, 4), 16)]
)
def test_sweeps_of_lattices(shape, width):
    graph = neighbours_of(bm.models.ising(shape, periodic=False))
    sweep = narrowest(graph)
    assert sweep.width == width
    best, _ = orders.best_order(graph)
    assert best.n_entries <= sweep.n_entries


@pytest.mark.parametrize(
    ("rows", "columns", "wrapped", "width"),
    [(8, 8, (0, 1), 8), (8, 8, (1, 0), 8), (20, 6, (0, 1), 6), (6, 20, (1, 0), 6), (6, 6, (1, 1), 11)],
)
def test_sweeps_of_cylinders_and_tori(rows, columns, wrapped, width):
    graph = neighbours_of(lattice(rows, columns, wrapped=wrapped))
    sweep = narrowest(graph)
    assert sweep.width == width
    best, _ = orders.best_order(graph)
    assert best.n_entries <= sweep.n_entries


def test_fill_wins_where_degree_and_sweeps_do_not(monkeypatch):
    graph = neighbours(nx.random_regular_graph(3, 120, seed=1))
    best, _ = orders.best_order(graph)
    assert best.name == "min-fill"
    monkeypatch.setattr(orders, "FILL_UNITS", 0)
    assert orders.best_order(graph)[0].n_entries > best.n_entries


def test_searches_that_take_too_long_are_given_up(monkeypatch):
    graph = neighbours(nx.random_regular_graph(3, 400, seed=1))
    assert orders.best_order(graph)[0] is None
    assert orders.best_order(graph)[1].startswith("width ")
    monkeypatch.setattr(orders, "MOST_WORK", 2000)
    assert orders.best_order(graph) == (None, "width above 30")


@pytest.mark.parametrize("name", GRAPHS)
def test_programs_hold_every_table_apart(name):
    graph = neighbours(GRAPHS[name])
    best, _ = orders.best_order(graph)
    program = lay_out(best)
    assert sorted(program.cliques[program.steps[:, kernels.START]]) == list(range(len(graph)))
    live: dict[int, range] = {}
    for k, step in enumerate(program.steps):
        size, at = 1 << step[kernels.WIDTH], step[kernels.MESSAGE]
        own = range(at, at + size)
        assert at >= 0 and at + size <= program.n_held
        assert sum(map(len, live.values())) == program.heights[k].sum()
        assert all(own.stop <= other.start or other.stop <= own.start for other in live.values())
        clique = program.cliques[step[kernels.START] : step[kernels.START] + step[kernels.WIDTH] + 1]
        child = step[kernels.CHILD]
        while child >= 0:
            row = program.steps[child]
            span = slice(row[kernels.START] + 1, row[kernels.START] + 1 + row[kernels.WIDTH])
            assert (clique[program.places[span]] == program.cliques[span]).all() and program.places[span][0] == 0
            live.pop(child)
            child = row[kernels.SIBLING]
        if step[kernels.WIDTH]:
            live[k] = own
    assert not live


def test_segments_hold_all_steps_within_their_size():
    program = lay_out(orders.best_order(neighbours_of(lattice(6, 6)))[0])
    for most in (1, 70, 300, 10**6):
        cut = program.cut(most)
        assert cut.marks[0] == 0 and cut.marks[-1] == 36 and sorted(cut.marks) == list(cut.marks)
        for first, stop in cut.segments:
            sizes = cut.sizes[first:stop]
            assert sizes.sum() <= most or stop == first + 1
            assert (cut.steps[first:stop, kernels.CHANCE] == np.cumsum(sizes) - sizes).all()


def test_cover_has_a_part_in_every_pair():
    pairs = np.array([[0, 1], [0, 2], [3, 4], [2, 4], [0, 7]])
    assert all(set(pair) & set(cover(pairs)) for pair in pairs.tolist())
    assert cover(pairs[:2]) == (0,) and cover(pairs[:0]) == ()
