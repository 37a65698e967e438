"""Whether sparse factors of a machine's response can be had: how wide its graph is, from a search in breadth."""

from __future__ import annotations

import numpy as np

from ..couplings import Couplings
from ..couplings.limits import DENSE_LIMIT

SECONDS = 60.0  # that the factors may take, about
SEPARATOR_SECONDS = 2e-8  # for the cube of the widest level


def widest_level(couplings: Couplings) -> int:
    """The most units at the same distance from one at the edge of the largest connected part.

    Such a level separates the part; factors are dense on a separator, which is what they cost at least on lattices, and
    on graphs that are wider than these.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    indptr, indices, _ = couplings.csr()
    n = couplings.n_units
    graph = csr_array((np.ones(len(indices), np.int8), indices, indptr), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    start = int(np.flatnonzero(label == np.bincount(label).argmax())[0])
    for _ in range(2):  # from anywhere, and from the unit that is farthest from there
        order, before = breadth_first_order(graph, start, directed=False)
        start = int(order[-1])
    level = [0] * n
    for unit, parent in zip(order[1:].tolist(), before[order[1:]].tolist(), strict=True):
        level[unit] = level[parent] + 1
    return int(np.bincount(np.array(level)[order]).max())


def refuse_wide(couplings: Couplings) -> None:
    """Refuse covariances by linear response where they would take sparse factors that are too dense."""
    if couplings.n_units <= DENSE_LIMIT:
        return
    seconds = SEPARATOR_SECONDS * float(widest_level(couplings)) ** 3
    if seconds > SECONDS:
        raise ValueError(
            f"covariances of {couplings.n_units} units by linear response would take about {seconds:.2g} s and cannot "
            'be stopped: these couplings have no narrow separators. Pass moments=False, or use "bethe" or "gibbs".'
        )
