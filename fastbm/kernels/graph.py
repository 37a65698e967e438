"""What updates ask of a graph: colours, so that no two neighbours share one, and a gauge that makes it a ferromagnet.

Colours are given greedily, in the order of a breadth-first search: each unit takes the smallest colour that no
neighbour has. Graphs of two colours (lattices with even sides, trees, layers) get two.

The gauge turns units so that no coupling is negative, where couplings are not frustrated: Mattis, Phys. Lett. A 56, 421
(1976), doi:10.1016/0375-9601(76)90396-0; Toulouse, Commun. Phys. 2, 115 (1977).
"""

from __future__ import annotations

import numpy as np

from .arrays import empty, zeros
from .jit import kernel


@kernel
def colour_units(indptr, indices, colours):
    """Colour all units of a graph. Mutates `colours` (n_units,) int32.

    Invariant on exit: neighbours have different colours, 0, 1, ...  Cost: O(n_edges).
    """
    n_units = colours.shape[0]
    colours[:] = -1
    queue = empty(n_units, np.int32)
    met = zeros(n_units, np.bool_)
    taken_by = np.full(n_units + 1, -1, np.int32)  # the last unit for which a colour was taken
    for seed in range(n_units):
        if met[seed]:
            continue
        head, tail = 0, 1
        queue[0] = seed
        met[seed] = True
        while head < tail:
            i = queue[head]
            head += 1
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if colours[j] >= 0:
                    taken_by[colours[j]] = i
                if not met[j]:
                    met[j] = True
                    queue[tail] = j
                    tail += 1
            colour = 0
            while taken_by[colour] == i:
                colour += 1
            colours[i] = colour


@kernel
def fix_gauge(signs, queue, indptr, indices, values):
    """Fix signs such that signs[i] signs[j] values[k] > 0 along every tree of a breadth-first search.

    Mutates `signs` (n_units,) int8, `queue` (n_units,) int32; returns the first edge (i, j) found to break the rule, or
    (-1, -1).
    Invariant: on entry signs are 0. If an edge is returned, it closes a frustrated loop; each connected part's first
    unit has sign 1.
    Cost: O(n_units + edges).
    """
    for root in range(signs.shape[0]):
        if signs[root]:
            continue
        signs[root] = 1
        queue[0] = root
        done, stop = 0, 1
        while done < stop:
            i = queue[done]
            done += 1
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                wanted = signs[i] if values[k] > 0 else -signs[i]
                if signs[j] == 0:
                    signs[j] = wanted
                    queue[stop] = j
                    stop += 1
                elif signs[j] != wanted:
                    return np.int64(i), np.int64(j)
    return np.int64(-1), np.int64(-1)
