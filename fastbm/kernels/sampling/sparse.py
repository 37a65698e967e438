"""Single-spin Gibbs and Metropolis sweeps on sparse couplings.

Chains lie in lanes: a neighbour's bits are one contiguous row, and all inner loops run over lanes, so that field,
random numbers and comparison are full-width vector code. Fields are summed anew at every attempt, in the same integers
as in `fastbm.kernels.sampling.dense`: both kernels give the same bits.

Glauber, J. Math. Phys. 4, 294 (1963), doi:10.1063/1.1703954; Metropolis et al., J. Chem. Phys. 21, 1087 (1953),
doi:10.1063/1.1699114.
"""

import numpy as np

from ..arrays import copy_row, empty, zeros
from ..jit import apart_borrowing, inlined, kernel
from .limits import ROWS, gibbs_limits, metropolis_limits


@kernel
def sweep_sparse(up, graph, scale, streams, sites, n_sweeps, hold, n_chains):
    """Update the unit at every entry of `sites` (rows, n), row after row, `n_sweeps` rows.

    Mutates `up` (n_units, lanes) uint8, `streams`; returns the number of flips in the first `n_chains` lanes.
    Where `hold` is None, units are drawn from their conditional distribution; else flips are proposed, and accepted
    with (1 - hold / 2^32) min(1, exp(-beta dE)). `graph` is (indptr, indices, rises, start): what
    each neighbour that is up adds, and the field with all units down, (n_units, 1) or (n_units, lanes). `scale` and
    `hold` as for `fastbm.kernels.sampling.limits`.
    Cost: O(degree lanes) an attempt, vectorised over lanes.
    """
    room = room_of_lanes(graph[2], up.shape[1])
    return sweep_sparse_within(up, graph, scale, streams, sites, n_sweeps, hold, n_chains, room)


@inlined
def room_of_lanes(rises, lanes):
    """Return the room that sweeps of chains in lanes need: limits, a field, and flips."""
    return empty((ROWS, lanes), rises.dtype), empty(lanes, rises.dtype), zeros(lanes, np.int32)


@apart_borrowing
def sweep_sparse_within(up, graph, scale, streams, sites, n_sweeps, hold, n_chains, room):
    """Do what `sweep_sparse` does, with the room of `room_of_lanes`, which takes longer to make than few attempts."""
    indptr, indices, rises, start = graph
    kind, lanes = rises.dtype.type, up.shape[1]
    limits, field, moved = room
    n_flips = 0
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for first in range(0, row.shape[0], ROWS):
            m = min(ROWS, row.shape[0] - first)
            if hold is None:
                gibbs_limits(streams, scale, limits[:m])
            else:
                metropolis_limits(streams, scale, hold, limits[:m])
            for p in range(m):
                i = row[first + p]
                if start.shape[1] == 1:
                    here = start[i, 0]
                    for lane in range(lanes):
                        field[lane] = here
                else:
                    copy_row(field, start[i])
                # four neighbours at a time: checks before vector code are paid once for four
                k, last = indptr[i], indptr[i + 1]
                while k + 4 <= last:
                    w0, w1, w2, w3 = rises[k], rises[k + 1], rises[k + 2], rises[k + 3]
                    r0, r1, r2, r3 = up[indices[k]], up[indices[k + 1]], up[indices[k + 2]], up[indices[k + 3]]
                    for lane in range(lanes):
                        low = w0 * kind(r0[lane]) + w1 * kind(r1[lane])
                        field[lane] += low + (w2 * kind(r2[lane]) + w3 * kind(r3[lane]))
                    k += 4
                while k < last:
                    w, r = rises[k], up[indices[k]]
                    for lane in range(lanes):
                        field[lane] += w * kind(r[lane])
                    k += 1
                bits, limit = up[i], limits[p]
                if hold is None:
                    for lane in range(lanes):
                        bit = np.uint8(field[lane] > limit[lane])
                        moved[lane] += np.int32(bit ^ bits[lane])
                        bits[lane] = bit
                else:
                    for lane in range(lanes):
                        rise = -field[lane] if bits[lane] else field[lane]
                        flip = np.uint8(rise >= limit[lane])
                        bits[lane] ^= flip
                        moved[lane] += np.int32(flip)
        for lane in range(n_chains):
            n_flips += moved[lane]
        moved[:] = 0
    return n_flips
