"""Single-spin sweeps of few chains, one chain after the other: the bits of the kernels with chains in lanes.

What random numbers make of an attempt, its limit, needs no state. So a chain's limits for many attempts are made side
by side, and what is left of an attempt is to look at one field. The other half of this is `few_dense`.
"""

import numpy as np

from ..arrays import empty
from ..jit import inlined_borrowing, kernel
from ..random import next_word
from .limits import fill_limits

MOST_ROWS = 512  # attempts whose limits are made together


@inlined_borrowing
def draw_limits(streams, c, scale, hold, words, limits):
    """Draw the next limits of chain `c`. Mutates `streams`, `words`, `limits`."""
    s0, s1, s2, s3 = streams[0, c], streams[1, c], streams[2, c], streams[3, c]
    for p in range(words.shape[0]):
        words[p], s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
    streams[0, c], streams[1, c], streams[2, c], streams[3, c] = s0, s1, s2, s3
    fill_limits(words, scale[c], hold, limits)


@inlined_borrowing
def _visit_sparse(up, c, graph, sites, limits, hold):
    """Update the units of `sites` of chain `c`; return the number of flips. Mutates `up`."""
    indptr, indices, rises, start = graph
    kind = rises.dtype.type
    column = min(c, start.shape[1] - 1)
    n_flips = 0
    for p in range(sites.shape[0]):
        i = np.uint32(sites[p])  # what has no sign is looked up without a question
        field = start[i, column]
        for first in range(np.uint32(indptr[i]), np.uint32(indptr[i + np.uint32(1)]), 4):
            k = np.uint32(first)
            # a unit that is up has all bits of what it adds
            w0 = kind(-kind(up[np.uint32(indices[k]), c])) & rises[k]
            w1 = kind(-kind(up[np.uint32(indices[k + np.uint32(1)]), c])) & rises[k + np.uint32(1)]
            w2 = kind(-kind(up[np.uint32(indices[k + np.uint32(2)]), c])) & rises[k + np.uint32(2)]
            w3 = kind(-kind(up[np.uint32(indices[k + np.uint32(3)]), c])) & rises[k + np.uint32(3)]
            field = kind(field + kind(kind(w0 + w1) + kind(w2 + w3)))
        bit = up[i, c]
        if hold is None:
            flips = np.uint8(field > limits[p]) ^ bit
        else:
            turned = kind(-kind(bit))
            flips = np.uint8(kind(kind(field ^ turned) - turned) >= limits[p])  # rise of the log-odds
        up[i, c] = bit ^ flips
        n_flips += np.int64(flips)
    return n_flips


@kernel
def room_for_sparse(rises):
    """Return room for the words and the limits of some attempts."""
    return empty(MOST_ROWS, np.uint32), empty(MOST_ROWS, rises.dtype)


@inlined_borrowing
def advance_sparse_few(up, graph, scale, streams, sites, n_sweeps, hold, room):
    """Do what `sweep_sparse_few` does, in `room` that `room_for_sparse` has made."""
    words, limits = room
    n_flips = 0
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for first in range(0, row.shape[0], MOST_ROWS):
            some = row[first : first + MOST_ROWS]
            m = some.shape[0]
            for c in range(up.shape[1]):
                draw_limits(streams, c, scale, hold, words[:m], limits[:m])
                n_flips += _visit_sparse(up, c, graph, some, limits[:m], hold)
    return n_flips


@kernel
def sweep_sparse_few(up, graph, scale, streams, sites, n_sweeps, hold):
    """Update the unit at every entry of `sites` (rows, n), row after row, `n_sweeps` rows, in every chain.

    Mutates `up` (n_units, n_chains) uint8, `streams`; returns the number of flips. Arguments are those of
    `fastbm.kernels.sampling.sparse.sweep_sparse`, with which it shares every bit; but units of `graph` have neighbours
    in multiples of four, some of which may add 0.
    Cost: O(degree) an attempt.
    """
    return advance_sparse_few(up, graph, scale, streams, sites, n_sweeps, hold, room_for_sparse(graph[2]))
