"""Trees that states of units tell, and what these bound: entropies from above.

A tree q has the pairs of its edges as the states have them, and of all trees the one of the largest sum of mutual
informations is the likeliest. Of other states <-log q> is at least their entropy (Gibbs' inequality).

Chow and Liu, IEEE Trans. Inf. Theory 14, 462 (1968), doi:10.1109/TIT.1968.1054142; Cover and Thomas, Elements of
Information Theory (2006), theorem 2.6.3.
"""

from __future__ import annotations

import numpy as np

SEEN_BEFORE = 0.5  # states of either kind of a unit, and half as many of each of a pair, before any was seen


def log_tree(rows: np.ndarray, bits: np.ndarray, pairs: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
    """Return log q of `bits` (..., n_units), 0 or 1, by the likeliest tree of `rows` (n_rows, n_units).

    Edges are among `pairs`, (k,) indices each, or all pairs. Cost: n_rows multiplications a pair.
    """
    rows = np.asarray(rows, np.float64)
    n_rows, n_units = rows.shape
    first, second = np.triu_indices(n_units, 1) if pairs is None else pairs
    both = (rows.T @ rows)[first, second] if pairs is None else np.einsum("ti,ti->i", rows[:, first], rows[:, second])
    up = (rows.sum(axis=0) + SEEN_BEFORE) / (n_rows + 2.0 * SEEN_BEFORE)
    four = _of_four(up[first], up[second], (both + 0.5 * SEEN_BEFORE) / (n_rows + 2.0 * SEEN_BEFORE))
    gains = np.log(four / (_of_two(up[first])[:, None] * _of_two(up[second])[None, :]))
    edges = _edges(first, second, (four * gains).sum(axis=(0, 1)), n_units)
    # log q = sum_i log q_i + sum over edges of log(q_ij / (q_i q_j)), which is a + b x_i + c x_j + d x_i x_j
    gains, x, y = gains[:, :, edges], bits[..., first[edges]], bits[..., second[edges]]
    found: np.ndarray = bits @ np.log(up / (1.0 - up)) + np.log1p(-up).sum() + gains[0, 0].sum()
    found = found + x @ (gains[1, 0] - gains[0, 0]) + y @ (gains[0, 1] - gains[0, 0])
    return found + (x & y) @ (gains[1, 1] + gains[0, 0] - gains[1, 0] - gains[0, 1])


def _of_two(up: np.ndarray) -> np.ndarray:
    return np.stack([1.0 - up, up])


def _of_four(first: np.ndarray, second: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Return the frequencies of the four states of pairs, (2, 2, n_pairs)."""
    return np.array([[1.0 - first - second + both, second - both], [first - both, both]])


def _edges(first: np.ndarray, second: np.ndarray, information: np.ndarray, n_units: int) -> np.ndarray:
    """Return which pairs are the edges of the tree, or forest, of the largest sum of mutual informations."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    if not len(first):
        return np.empty(0, np.int64)
    # places in order of information, from 1 on, in place of it: no two are equal, and edges of weight 0 are none
    order = np.argsort(-information, kind="stable")
    places = np.empty(len(first), np.float64)
    places[order] = np.arange(1.0, len(first) + 1.0)
    tree = minimum_spanning_tree(csr_array((places, (first, second)), shape=(n_units, n_units)))
    edges: np.ndarray = order[tree.data.astype(np.int64) - 1]
    return edges
