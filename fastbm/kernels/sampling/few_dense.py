"""Single-spin sweeps of few chains on dense couplings, one chain after the other: the bits of `dense`.

Chains take turns after some rows, so that couplings that are in the cache serve them all.
"""

import numpy as np

from ..jit import apart_borrowing, borrowing
from .dense import advance_dense, columns_of, move_row
from .few import draw_limits

ROW_BYTES = 1 << 19  # of couplings that chains share before the next rows


@borrowing
def _visit(up, c, field, rises, sites, limits, hold):
    """Update the units of `sites` of chain `c`; return the number of flips. Mutates `up`, `field`."""
    kind, n_columns, n_flips = rises.dtype.type, columns_of(rises), 0
    for p in range(sites.shape[0]):
        i = np.uint32(sites[p])  # what has no sign is looked up without a question
        bit, here = up[i, c], field[i]
        turned = kind(-kind(bit))
        rise = kind(kind(here ^ turned) - turned)  # of the log-odds
        flips = (here > limits[p]) != bit if hold is None else rise >= limits[p]
        if flips:
            up[i, c] = bit ^ np.uint8(1)
            n_flips += 1
            move_row(field, rises[i], turned, n_columns)
    return n_flips


@apart_borrowing
def advance_dense_few(up, chains, sites, n_sweeps, hold, room):
    """Update the unit at every entry of `sites` (rows, n), row after row, `n_sweeps` rows, in every chain.

    Mutates `up` (n_units, n_chains) uint8, fields, streams, and `room` of `few_room`; returns the number of
    flips. Arguments and the invariant are those of `fastbm.kernels.sampling.dense.advance_dense`, with which it shares
    every bit.
    Cost: O(1) an attempt, plus O(n_units) a flip.
    """
    fields, rises, scale, streams = chains
    words, limits = room
    n_rows, n_flips = words.shape[0], 0
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for first in range(0, row.shape[0], n_rows):
            some = row[first : first + n_rows]
            m = some.shape[0]
            for c in range(fields.shape[0]):
                draw_limits(streams, c, scale, hold, words[:m], limits[:m])
                n_flips += _visit(up, c, fields[c], rises, some, limits[:m], hold)
    return n_flips


@apart_borrowing
def advance_either(up, chains, sites, n_sweeps, hold, few, many, room):
    """Do what `advance_dense_few` does of few chains, or `advance_dense` of many; return the number of flips.

    One of `few` and `many` is None, and what that one is for is not compiled, which needs a `room` of its own.
    """
    n_flips = 0
    if few is not None:
        n_flips = advance_dense_few(up, chains, sites, n_sweeps, hold, room)
    if many is not None:
        n_flips = advance_dense(up, chains, sites, n_sweeps, hold, room)
    return n_flips
