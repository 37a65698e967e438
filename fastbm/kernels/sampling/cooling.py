"""Sweeps whose temperature is another one at every sweep, many of them in one call.

Between temperatures of small machines there is less work than a call takes. Where few attempts are flips, sums over
neighbours on sparse couplings would give the same field again and again: `cool_kept` keeps the fields of a chain side
by side, as `fastbm.kernels.sampling.dense` does. Sixteen units are compared with their limits at once, and only where
one of them flips are they gone through one after the other. The integers, the random numbers and so all bits are those
of `fastbm.kernels.sampling.sparse`.
"""

import numpy as np

from ..arrays import empty
from ..jit import kernel
from .few import MOST_ROWS, draw_limits, sweep_sparse_few
from .few_dense import advance_either
from .layer_energies import weigh_layers
from .layered import sweep_layers
from .multispin import spread_thresholds, sweep_multispin
from .sparse import sweep_sparse

GROUP = 16  # units that are compared at once


@kernel
def cool_dense(up, chains, scales, sites, hold, few, many, room):
    """Do a sweep at each of `scales` (n_sweeps,). Mutates `up`, what `chains` has, `room`; returns the flips.

    `sites` is one row of units for all sweeps, or one for each. One of `few`, for chains that are swept one after the
    other, and `many` is None, and what that one is for is not compiled, which needs arguments of their own.
    All else, and the cost, is that of `fastbm.kernels.sampling.dense.advance_dense` or its form for few chains.
    """
    scale, one, n_flips = chains[2], np.int64(1), 0
    for t in range(scales.shape[0]):
        scale[:] = scales[t]
        row = t % sites.shape[0]
        n_flips += advance_either(up, chains, sites[row : row + 1], one, hold, few, many, room)
    return n_flips


@kernel
def cool_sparse(up, chains, scales, sites, hold, few, many, n_chains):
    """Do what `cool_dense` does, by `fastbm.kernels.sampling.sparse.sweep_sparse` or its form for few chains.

    `chains` is (graph, scale, streams).
    """
    (graph, scale, streams), n_flips = chains, 0
    for t in range(scales.shape[0]):
        scale[:] = scales[t]
        row = t % sites.shape[0]
        if few is not None:
            n_flips += sweep_sparse_few(up, graph, scale, streams, sites[row : row + 1], 1, hold)
        if many is not None:
            n_flips += sweep_sparse(up, graph, scale, streams, sites[row : row + 1], 1, hold, n_chains)
    return n_flips


@kernel
def cool_layers(values, chains, machine, room, hold, scales, ends, weighing, energies):
    """Do a sweep at each of `scales` (n_sweeps,); return the number of flips.

    Mutates `energies` (n_ends, n_chains), those after so many sweeps as `ends`, which increase, tell; and what
    `sweep_layers` and `weigh_layers` do; `weighing` is what the latter takes as `told` and `summed`.
    """
    (told, summed), row, flips = weighing, 0, 0
    for t in range(scales.shape[0]):
        chains[1][:] = scales[t]
        flips += sweep_layers(values, chains, machine, room, hold, 1)
        if row < ends.shape[0] and ends[row] == t + 1:
            weigh_layers(values, machine[0], room[1], told, summed, energies[row])
            row += 1
    return flips


@kernel
def cool_multispin(up, graph, scales, streams, sites, hold, n_words, room):
    """Do a sweep at each of `scales` (n_sweeps, 2, 4, 1) uint64; return the number of flips.

    Mutates `up`, `streams` and `room`, what `spread_thresholds` writes of each of `scales`; `sites` is one row of units
    for all sweeps, or one for each.
    All else, and the cost, is that of `fastbm.kernels.sampling.multispin.sweep_multispin`.
    """
    (tables, thresholds), n, n_flips = room, sites.shape[1], 0
    for t in range(scales.shape[0]):
        spread_thresholds(tables, thresholds, scales[t])
        both = tables[0], thresholds[0], tables[1], thresholds[1]
        row = t % sites.shape[0]
        n_flips += sweep_multispin(up, graph, both, streams, sites, row * n, (row + 1) * n, hold, n_words)
    return n_flips


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
    words, limits = empty(MOST_ROWS, np.uint32), empty(MOST_ROWS, fields.dtype)
    n_flips = 0
    for c in range(fields.shape[0]):
        for t in range(scales.shape[0]):
            scale[c] = scales[t]
            for first in range(0, fields.shape[1], MOST_ROWS):
                m = min(MOST_ROWS, fields.shape[1] - first)
                draw_limits(streams, c, scale, hold, words[:m], limits[:m])
                n_flips += _visit(up[:, c], fields[c], turned[c], graph, first, limits[:m], hold)
    return n_flips
