"""Annealed importance sampling on sparse couplings; see `fastbm.kernels.anneal_dense`. Both give the same bits."""

import numpy as np

from .._jit import kernel
from .anneal_dense import scale_of
from .anneal_limits import tilted_limits
from .limits import ROWS


@kernel
def anneal_sparse(up, sums, graph, base, path, streams, sites):
    """Weigh and sweep at every step of `path`. Mutates `up` (n_units, lanes) uint8, `sums`, `streams`.

    `graph` is (indptr, indices, rises, start): what each neighbour that is up adds, and the field (n_units,) with all
    units down. All else, and the invariant, as for `anneal_dense`.
    Cost: O(degree lanes) an attempt, vectorised over lanes.
    """
    gains, tilts, log_w = sums
    indptr, indices, rises, start = graph
    kind, lanes = rises.dtype.type, up.shape[1]
    limits = np.empty((ROWS, lanes), rises.dtype)
    pulls = np.empty(ROWS, np.float32)
    field = np.empty(lanes, rises.dtype)
    for s in range(path.shape[0]):
        step, t, unit = path[s, 0], path[s, 1], path[s, 2]
        for lane in range(lanes):
            log_w[lane] += step * (unit * np.float64(gains[lane]) - tilts[lane])
        scale = scale_of(t * unit)
        for first in range(0, sites.shape[0], ROWS):
            m = min(ROWS, sites.shape[0] - first)
            for p in range(m):
                pulls[p] = (1.0 - t) * base[sites[first + p]]
            tilted_limits(streams, pulls, scale, limits[:m])
            for p in range(m):
                i, limit = sites[first + p], limits[p]
                here = start[i]
                for lane in range(lanes):
                    field[lane] = here
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
                bits, tilt = up[i], base[i]
                for lane in range(lanes):
                    bit = np.uint8(field[lane] > limit[lane])
                    change = np.int64(bit) - np.int64(bits[lane])
                    gains[lane] += change * np.int64(field[lane])
                    tilts[lane] += np.float64(change) * tilt
                    bits[lane] = bit
