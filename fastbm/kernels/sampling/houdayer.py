"""Houdayer's cluster move between two replicas at the same temperature, on any graph and with any couplings.

The overlap q_i = s_i^1 s_i^2 is -1 where replicas differ. The cluster of a random such unit, connected through units
that differ, changes places between them; the sum of their energies, and q, stay as they are.

Houdayer, Eur. Phys. J. B 22, 479 (2001), doi:10.1007/PL00011151; Zhu, Ochoa and Katzgraber, Phys. Rev. Lett. 115,
077201 (2015), doi:10.1103/PhysRevLett.115.077201.
"""

import numpy as np

from ..arrays import empty
from ..jit import kernel
from .clusters import draw_word, index_of

_VISITED = np.uint8(2)


@kernel
def _random_difference(up, a, b, stream):
    """Return a random unit at which lanes a and b differ, or -1 (and no word drawn) where they are equal."""
    n_different = 0
    for i in range(up.shape[0]):
        n_different += up[i, a] != up[i, b]
    if n_different == 0:
        return -1
    left = index_of(draw_word(stream), n_different)
    for i in range(up.shape[0]):
        if up[i, a] != up[i, b]:
            if left == 0:
                return i
            left -= 1
    return -1


@kernel
def _exchange(up, i, a, b):
    """Swap unit i of two lanes that differ in it, and mark it as visited."""
    up[i, a], up[i, b] = np.uint8(up[i, b] | _VISITED), up[i, a]


@kernel
def houdayer_move(up, indptr, indices, a, b, queue, stream):
    """Exchange one cluster between lanes `a` and `b` of `up`, and return its size, 0 where the lanes are equal.

    Mutates `up`, `queue`, `stream`.
    `up` (n_units, lanes) uint8 holds the bits; the graph lists couplings that are not 0; `queue` (n_units,) int32 is
    work space.
    Invariant: the sum of the two energies, and where the lanes differ.
    Cost: O(n_units + bonds that touch the cluster).
    """
    first = _random_difference(up, a, b, stream)
    if first < 0:
        return 0
    queue[0] = first
    _exchange(up, first, a, b)
    done, size = 0, 1
    while done < size:
        i = queue[done]
        done += 1
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if (up[j, a] ^ up[j, b]) == 1:  # a unit that was visited gives 3
                _exchange(up, j, a, b)
                queue[size] = j
                size += 1
    for k in range(size):
        up[queue[k], a] &= np.uint8(1)
    return size


@kernel
def houdayer_pairs(up, indptr, indices, pairs, streams):
    """Make one Houdayer move for every pair of lanes. Mutates `up`, `streams`; returns the clusters' sizes (m,) int64.

    `pairs` (m, 2) int64 names lanes of equal temperature; stream k is column k of `streams` (4, at least m).
    Invariant: as for `houdayer_move`. Pairs are taken in their order, so that they may share lanes.
    Cost: O(n_units + bonds) a pair.
    """
    queue = empty(up.shape[0], np.int32)
    sizes = empty(pairs.shape[0], np.int64)
    for k in range(pairs.shape[0]):
        sizes[k] = houdayer_move(up, indptr, indices, pairs[k, 0], pairs[k, 1], queue, streams[:, k])
    return sizes
