"""Single-spin sweeps in the order of the units on sparse couplings, with fields that are kept from flip to flip.

Where few attempts are flips, sums over neighbours would give the same field again and again. Fields of one chain lie
side by side, as those of `fastbm.kernels.sampling.dense` do: sixteen units are compared with their limits at once, and
only where one of them flips are they gone through one after the other. The integers, and so all bits, are those of
`fastbm.kernels.sampling.sparse`, whose random numbers are drawn in the same order.
"""

import numpy as np

from ..jit import kernel
from .few import MOST_ROWS, _draw_limits

GROUP = 16  # units that are compared at once


@kernel
def init_kept(fields, turned, up, graph):
    """Compute the fields of all chains from their states. Mutates `fields`, `turned`, both (n_chains, n_units).

    Invariant on exit: fields[c, i] = start[i, c] + the sum of what its neighbours that are up in chain c add, and
    turned[c, i] has all bits where unit i is up, and none elsewhere. `graph` is as for `sweep_sparse`.
    Cost: O(degree) a unit and chain.
    """
    indptr, indices, rises, start = graph
    kind = fields.dtype.type
    for c in range(fields.shape[0]):
        column = min(c, start.shape[1] - 1)
        for i in range(fields.shape[1]):
            turned[c, i] = -kind(up[i, c])
            fields[c, i] = start[i, column]
        for i in range(fields.shape[1]):
            if up[i, c]:
                for k in range(indptr[i], indptr[i + 1]):
                    fields[c, indices[k]] += rises[k]


@kernel
def _visit(bits, field, turned, graph, first, limits, hold):
    """Update units `first` and on, one for each of `limits`; return the number of flips.

    Mutates `bits` (n_units,), `field`, `turned`.
    """
    indptr, indices, rises, _ = graph
    kind = field.dtype.type
    n_flips = 0
    for begin in range(0, limits.shape[0], GROUP):
        n = min(GROUP, limits.shape[0] - begin)
        some, place = limits[begin : begin + n], first + begin
        here, mask = field[place : place + n], turned[place : place + n]
        if n == GROUP:
            wanted = 0
            for q in range(GROUP):
                if hold is None:
                    wanted += np.int32((here[q] > some[q]) != (mask[q] != 0))
                else:  # against the rise of the log-odds
                    wanted += np.int32(kind(kind(here[q] ^ mask[q]) - mask[q]) >= some[q])
            if not wanted:
                continue
        for q in range(n):
            was = mask[q]
            rise = kind(kind(here[q] ^ was) - was)
            flips = (here[q] > some[q]) != (was != 0) if hold is None else rise >= some[q]
            if flips:
                n_flips += 1
                i = np.uint32(place + q)
                mask[q] = ~was
                bits[i] ^= np.uint8(1)
                start, stop = np.uint32(indptr[i]), np.uint32(indptr[i + np.uint32(1)])
                if was:
                    for k in range(start, stop):
                        field[np.uint32(indices[k])] -= rises[k]
                else:
                    for k in range(start, stop):
                        field[np.uint32(indices[k])] += rises[k]
    return n_flips


@kernel
def cool_kept(up, fields, turned, graph, scales, scale, streams, hold):
    """Do a sweep in the order of the units at each of `scales` (n_sweeps,), one chain after the other.

    Mutates `up` (n_units, lanes) uint8, `fields`, `turned`, `scale`, `streams`; returns the number of flips. What
    `fastbm.kernels.sampling.sparse.sweep_sparse` is given with `scale` filled by the same number, with the same bits.
    Invariant: that of `init_kept`.
    Cost: O(1) an attempt, less than a random number of its own takes, plus O(degree) a flip.
    """
    words, limits = np.empty(MOST_ROWS, np.uint32), np.empty(MOST_ROWS, fields.dtype)
    n_flips = 0
    for c in range(fields.shape[0]):
        for t in range(scales.shape[0]):
            scale[c] = scales[t]
            for first in range(0, fields.shape[1], MOST_ROWS):
                m = min(MOST_ROWS, fields.shape[1] - first)
                _draw_limits(streams, c, scale, hold, words[:m], limits[:m])
                n_flips += _visit(up[:, c], fields[c], turned[c], graph, first, limits[:m], hold)
    return n_flips
