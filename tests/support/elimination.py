"""Machines on graphs, and short ways to plan eliminations."""

from __future__ import annotations

import networkx as nx
import numpy as np

import fastbm as bm
from fastbm.exact.elimination import sum
from fastbm.exact.elimination.sum import EliminationSum
from fastbm.exact.plan import Part, Speeds, Wanted
from fastbm.machine.couplings import Sparse

SPEEDS = Speeds()
GRAPHS = {
    "one unit": nx.empty_graph(1),
    "no couplings": nx.empty_graph(3),
    "ring": nx.cycle_graph(8),
    "chain": nx.path_graph(8),
    "star": nx.star_graph(7),
    "tree": nx.balanced_tree(2, 2),
    "grid": nx.grid_2d_graph(3, 3),
    "cylinder": nx.grid_2d_graph(2, 4, periodic=(False, True)),
    "random": nx.gnm_random_graph(9, 14, seed=3),
    "parts": nx.disjoint_union_all([nx.cycle_graph(3), nx.path_graph(4), nx.empty_graph(1)]),
    "complete": nx.complete_graph(7),
}


def on_graph(
    graph: nx.Graph, units: str = "spin", *, scale: float = 1.0, bias: float = 0.5, seed: int = 0, offset: float = 0.0
) -> bm.BoltzmannMachine:
    """A machine with normal couplings on the edges of a graph."""
    generator = np.random.default_rng(seed)
    n = graph.number_of_nodes()
    edges = np.array(nx.convert_node_labels_to_integers(graph, ordering="sorted").edges, int).reshape(-1, 2)
    made = Sparse.of_pairs(n, edges[:, 0], edges[:, 1], generator.normal(scale=scale, size=len(edges)))
    return bm.BoltzmannMachine(made, generator.normal(scale=bias, size=n) * scale, units=units, offset=offset)


def lattice(
    rows: int, columns: int, *, wrapped: tuple[bool, bool] = (False, False), coupling: float = 1.0
) -> bm.BoltzmannMachine:
    """Spins on a square lattice, open or periodic from row to row and along the rows."""
    site = np.arange(rows * columns).reshape(rows, columns)
    starts, ends = [], []
    for axis, periodic in enumerate(wrapped):
        kept = np.arange(site.shape[axis] - (not periodic))
        starts.append(site.take(kept, axis).ravel())
        ends.append(np.roll(site, -1, axis).take(kept, axis).ravel())
    i, j = np.concatenate(starts), np.concatenate(ends)
    return bm.BoltzmannMachine(Sparse.of_pairs(site.size, i, j, np.full(len(i), coupling)))


def every_pair(n: int) -> np.ndarray:
    """All pairs i < j."""
    return np.stack(np.triu_indices(n, 1), axis=1)


def plan(
    model: bm.BoltzmannMachine, beta: float = 1.0, *, threads: int = 1, max_bytes: float = 4e9, **wanted
) -> EliminationSum:
    """Plan a sum; `wanted` are the arguments of `Wanted`."""
    return sum.plan(model, beta, Wanted(**wanted), threads=threads, max_bytes=max_bytes, speeds=SPEEDS)


def summed(model: bm.BoltzmannMachine, beta: float = 1.0, **wanted) -> Part:
    """Do a sum on one thread."""
    return plan(model, beta, **wanted).piece(0, 1)
