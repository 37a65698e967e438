"""Trees that states tell: held against networkx and conditional frequencies, and against exact entropies."""

from __future__ import annotations

import itertools
from typing import Any

import networkx as nx
import numpy as np

import fastbm as bm
from fastbm.diagnostics.trees import log_tree


def slow_log_tree(rows: np.ndarray, bits: np.ndarray, pairs: Any = None) -> np.ndarray:
    """Unit by unit from a root, each given the one that it hangs on; a pair's table begins with a quarter each."""
    n = rows.shape[1]
    tables = {}
    graph = nx.Graph()
    for i, j in itertools.combinations(range(n), 2) if pairs is None else zip(*pairs, strict=True):
        table = np.full((2, 2), 0.25)
        for row in rows:
            table[row[i], row[j]] += 1.0
        tables[i, j] = table = table / table.sum()
        alone = np.outer(table.sum(axis=1), table.sum(axis=0))
        graph.add_edge(i, j, weight=float((table * np.log(table / alone)).sum()))
    tree = nx.maximum_spanning_tree(graph)
    up = (rows.sum(axis=0) + 0.5) / (len(rows) + 1.0)
    found = np.where(bits[:, 0], np.log(up[0]), np.log(1.0 - up[0]))
    for parent, child in nx.dfs_edges(tree, 0):
        table = tables[min(parent, child), max(parent, child)]
        table = table if parent < child else table.T
        table = table / table.sum(axis=1, keepdims=True)
        found += np.log(table[bits[:, parent], bits[:, child]])
    return found


def test_the_likeliest_tree_is_found_and_is_a_distribution() -> None:
    generator = np.random.default_rng(1)
    rows = generator.integers(0, 2, (40, 6)).astype(np.uint8)
    rows[:, 3], rows[:, 5] = rows[:, 0], 1  # two alike, and one that never changes
    states = np.array(list(itertools.product((0, 1), repeat=6)), np.uint8)
    found = log_tree(rows, states)
    np.testing.assert_allclose(found, slow_log_tree(rows, states), rtol=1e-10)
    assert abs(np.exp(found).sum() - 1.0) < 1e-12
    assert log_tree(rows[:, :1], states[:, :1]).shape == (64,)  # one unit has no edge
    chain = np.arange(5), np.arange(1, 6)  # the only pairs that may be edges, and all of them are
    np.testing.assert_allclose(log_tree(rows, states, chain), slow_log_tree(rows, states, chain), rtol=1e-10)


def test_trees_bound_entropies_and_are_near_those_of_trees() -> None:
    for seed, model in enumerate((bm.models.random_tree(12, seed=3), bm.models.sherrington_kirkpatrick(12, seed=3))):
        draws = bm.sample(model, "exact", n_chains=1, n_sweeps=40_000, seed=seed).states[:, 0] > 0
        rows, others = draws[::2].astype(np.uint8), draws[1::2].astype(np.uint8)
        gap = -log_tree(rows, others).mean() - bm.infer(model, "exact").entropy
        assert -0.03 < gap < (0.03 if seed == 0 else 3.0)  # three errors of 20,000 draws
        assert seed == 0 or gap > 0.1
