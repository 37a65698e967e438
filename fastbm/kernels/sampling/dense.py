"""Single-spin Gibbs and Metropolis sweeps on dense couplings, with cached local fields.

Glauber, J. Math. Phys. 4, 294 (1963), doi:10.1063/1.1703954; Metropolis et al., J. Chem. Phys. 21, 1087 (1953),
doi:10.1063/1.1699114.

The site loop runs outside and the chain loop inside, so that one row of couplings serves every chain while it is in the
cache. Couplings and fields are integers (fixed point): sums of integers do not drift and do not depend on the order of
the updates, so a cached field equals the recomputed one exactly. Rows are padded to a multiple of 64 and walked in
blocks of 64: the update of a row is then full-width vector code without a scalar tail.
"""

import numpy as np

from ..jit import borrowing, kernel
from ..rows import copy_row
from .limits import ROWS, gibbs_limits, metropolis_limits


@kernel
def init_fields_dense(fields, up, rises, start):
    """Compute the fields of all chains from their states. Mutates `fields` (n_chains, width).

    Invariant on exit: fields[c, i] = start[c, i] + sum_j rises[j, i] up[j, c], where `rises` (n_units, width) is what a
    unit that goes up adds and `start` (1 or n_chains, width) is the field with all units down. Cost: n_units^2 n_chains
    integer additions at most.
    """
    for c in range(fields.shape[0]):
        copy_row(fields[c], start[min(c, start.shape[0] - 1)])
    for j in range(rises.shape[0]):  # each row is read once for all chains
        for c in range(fields.shape[0]):
            if up[j, c]:
                for i in range(fields.shape[1]):
                    fields[c, i] += rises[j, i]


@borrowing
def add_row(field, row):
    """Add a row of couplings, padded to a multiple of 64, to a field. Mutates `field`."""
    for block in range(field.shape[0] // 64):
        for k in range(64):
            field[64 * block + k] += row[64 * block + k]


@borrowing
def subtract_row(field, row):
    """Subtract a row of couplings, padded to a multiple of 64, from a field. Mutates `field`."""
    for block in range(field.shape[0] // 64):
        for k in range(64):
            field[64 * block + k] -= row[64 * block + k]


@borrowing
def _flip(up, fields, row, unit, chains):
    """Flip one unit of the chains listed in `chains`. Mutates `up`, `fields`."""
    for k in range(chains.shape[0]):
        c = chains[k]
        if up[unit, c]:
            subtract_row(fields[c], row)
        else:
            add_row(fields[c], row)
        up[unit, c] ^= np.uint8(1)


def dense_room(up, fields):
    """Return room for the limits of some attempts and for a list of chains."""
    return np.empty((ROWS, up.shape[1]), fields.dtype), np.empty(up.shape[1], np.int64)


room_for_dense = kernel(dense_room)


@borrowing
def advance_dense(up, chains, sites, n_sweeps, hold, room):
    """Do what `sweep_dense` does, in `room` that `room_for_dense` has made.

    `chains` is (fields, rises, scale, streams).
    """
    fields, rises, scale, streams = chains
    limits, flips = room
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
                i, limit = row[first + p], limits[p]
                # the list of chains that flip grows without a branch
                n = 0
                if hold is None:
                    for c in range(fields.shape[0]):
                        flips[n] = c
                        n += (fields[c, i] > limit[c]) != up[i, c]
                else:
                    for c in range(fields.shape[0]):
                        flips[n] = c
                        rise = -fields[c, i] if up[i, c] else fields[c, i]
                        n += rise >= limit[c]
                _flip(up, fields, rises[i], i, flips[:n])
                n_flips += n
    return n_flips


@kernel
def sweep_dense(up, fields, rises, scale, streams, sites, n_sweeps, hold):
    """Update the unit at every entry of `sites` (rows, n), row after row, `n_sweeps` rows.

    Mutates `up`, `fields`, `streams`; returns the number of flips. Where `hold` is None, units are drawn from their
    conditional distribution; else flips are proposed, and accepted with (1 - hold / 2^32) min(1, exp(-beta dE)), `hold`
    as for `metropolis_limits`.

    `up` (n_units, lanes) uint8 holds the bits, one lane per chain; lanes beyond the chains draw and never flip.
    `scale` (lanes,) float32 turns log-odds into the units of the fields.
    Invariant: fields[c] is what `init_fields_dense` gives for column c of `up`.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    room = room_for_dense(up, fields)
    return advance_dense(up, (fields, rises, scale, streams), sites, n_sweeps, hold, room)
