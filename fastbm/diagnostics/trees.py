"""Trees that states of units tell, and what these bound: entropies from above.

A tree q has the pairs of its edges as the states have them, and of all trees the one of the largest sum of mutual
informations is the likeliest. Of other states <-log q> is at least their entropy (Gibbs' inequality).

Chow and Liu, IEEE Trans. Inf. Theory 14, 462 (1968), doi:10.1109/TIT.1968.1054142; Cover and Thomas, Elements of
Information Theory (2006), theorem 2.6.3.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

SEEN_BEFORE = 0.5  # states of either kind of a unit, and half as many of each of a pair, before any was seen


def log_tree(rows: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return log q of `bits` (..., n_units), 0 or 1, by the likeliest tree of `rows` (n_rows, n_units).

    Cost: n_rows n_units^2 multiplications.
    """
    up, both = _frequencies(np.asarray(rows, np.float64))
    first, second = _edges(up, both)
    # log q = sum_i log q_i + sum over edges of log(q_ij / (q_i q_j)), which is a + b x_i + c x_j + d x_i x_j
    one, two = _of_two(up[first]), _of_two(up[second])
    pairs = np.log(_of_four(up[first], up[second], both[first, second]) / (one[:, None] * two[None, :]))
    x, y = bits[..., first], bits[..., second]
    edges = pairs[0, 0].sum() + x @ (pairs[1, 0] - pairs[0, 0]) + y @ (pairs[0, 1] - pairs[0, 0])
    edges = edges + (x & y) @ (pairs[1, 1] + pairs[0, 0] - pairs[1, 0] - pairs[0, 1])
    found: np.ndarray = bits @ np.log(up / (1.0 - up)) + np.log1p(-up).sum() + edges
    return found


def _frequencies(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how often units are up (n_units,) and pairs are, (n_units, n_units), never 0 and never 1."""
    n = len(rows) + 2.0 * SEEN_BEFORE
    return (rows.sum(axis=0) + SEEN_BEFORE) / n, (rows.T @ rows + 0.5 * SEEN_BEFORE) / n


def _of_two(up: np.ndarray) -> np.ndarray:
    return np.stack([1.0 - up, up])


def _of_four(first: np.ndarray, second: np.ndarray, both: np.ndarray) -> np.ndarray:
    """Return the frequencies of the four states of pairs, (2, 2, ...)."""
    return np.array([[1.0 - first - second + both, second - both], [first - both, both]])


def _edges(up: np.ndarray, both: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the edges of the tree of the largest sum of mutual informations."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    four = _of_four(up[:, None], up[None, :], both)
    alone = _of_two(up)
    information = sum(
        xlogy(four[s, t], four[s, t] / (alone[s][:, None] * alone[t][None, :])) for s in (0, 1) for t in (0, 1)
    )
    # edges of weight 0 are none to SciPy: all are lifted by the same, which changes no tree
    costs = np.triu(1.0 + np.max(information, initial=0.0) - information, 1)
    tree = minimum_spanning_tree(costs, overwrite=True).tocoo()
    return tree.row, tree.col
