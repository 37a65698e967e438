"""Single-spin sweeps of few chains on dense couplings, one chain after the other: the bits of `dense`.

Chains take turns after some rows, so that couplings that are in the cache serve them all.
"""

import numpy as np

from ..jit import kernel
from .dense import add_row, subtract_row
from .few import MOST_ROWS, _draw_limits

ROW_BYTES = 1 << 19  # of couplings that chains share before the next rows


@kernel
def _visit_dense(up, c, field, rises, sites, limits, hold):
    """Update the units of `sites` of chain `c`; return the number of flips. Mutates `up`, `field`."""
    n_flips = 0
    for p in range(sites.shape[0]):
        i = sites[p]
        bit = up[i, c]
        flips = (field[i] > limits[p]) != bit if hold is None else (-field[i] if bit else field[i]) >= limits[p]
        if flips:
            up[i, c] = bit ^ np.uint8(1)
            n_flips += 1
            if bit:
                subtract_row(field, rises[i])
            else:
                add_row(field, rises[i])
    return n_flips


@kernel
def sweep_dense_few(up, fields, rises, scale, streams, sites, n_sweeps, hold):
    """Update the unit at every entry of `sites` (rows, n), row after row, `n_sweeps` rows, in every chain.

    Mutates `up` (n_units, n_chains) uint8, `fields`, `streams`; returns the number of flips. Arguments and the
    invariant are those of `fastbm.kernels.sampling.dense.sweep_dense`, with which it shares every bit.
    Cost: O(1) an attempt, plus O(n_units) a flip.
    """
    n_rows = min(MOST_ROWS, max(16, ROW_BYTES // (rises.itemsize * rises.shape[1])))
    words, limits = np.empty(n_rows, np.uint32), np.empty(n_rows, fields.dtype)
    n_flips = 0
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for first in range(0, row.shape[0], n_rows):
            some = row[first : first + n_rows]
            m = some.shape[0]
            for c in range(fields.shape[0]):
                _draw_limits(streams, c, scale, hold, words[:m], limits[:m])
                n_flips += _visit_dense(up, c, fields[c], rises, some, limits[:m], hold)
    return n_flips
