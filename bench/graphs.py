"""Graphs of the families of the G-set, the usual instances of maximum cut (made by Rinaldi's generator `rudy`).

The cut of spins s is (sum of the weights - sum of w_ij s_i s_j over the edges) / 2: its maximum is the ground state of
couplings -w.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import Delaunay

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # i < j, and the weight

FAMILIES = {
    "degree 48": "random graph of degree 48",
    "degree 20": "random graph of degree 20",
    "torus": "±1 torus",
    "planar": "union of two planar graphs",
    "degree 5": "random graph of degree 5",
}
SIDES = {800: (25, 32), 2000: (40, 50)}  # of tori


def edges(family: str, n_nodes: int, seed: int) -> Edges:
    """Return the edges of a graph; weights are 1, those of tori ±1.

    Random graphs have as many edges, drawn without replacement, as their mean degree says. A planar graph is the
    Delaunay triangulation of random points.
    """
    rng = np.random.default_rng([n_nodes, seed, *family.encode()])
    if family == "torus":
        sites = np.arange(n_nodes).reshape(SIDES[n_nodes])
        pairs = np.concatenate([np.stack([sites, np.roll(sites, -1, axis)], -1).reshape(-1, 2) for axis in (0, 1)])
        pairs = _distinct(pairs, n_nodes)
        return pairs[:, 0], pairs[:, 1], rng.choice([-1.0, 1.0], len(pairs))
    if family == "planar":
        pairs = _distinct(np.concatenate([_triangulated(n_nodes, rng) for _ in range(2)]), n_nodes)
    else:
        above = np.stack(np.triu_indices(n_nodes, 1), -1)
        n_edges = n_nodes * int(family.removeprefix("degree ")) // 2
        pairs = above[np.sort(rng.choice(len(above), n_edges, replace=False))]
    return pairs[:, 0], pairs[:, 1], np.ones(len(pairs))


def _triangulated(n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    corners = Delaunay(rng.random((n_nodes, 2))).simplices
    return np.concatenate([corners[:, ends] for ends in ([0, 1], [1, 2], [0, 2])])


def _distinct(pairs: np.ndarray, n_nodes: int) -> np.ndarray:
    pairs = np.sort(pairs, axis=1)
    keys = np.unique(pairs[:, 0] * np.int64(n_nodes) + pairs[:, 1])
    return np.stack([keys // n_nodes, keys % n_nodes], -1)
