"""Single-spin Gibbs and Metropolis sweeps on dense couplings, with cached local fields.

Glauber, J. Math. Phys. 4, 294 (1963), doi:10.1063/1.1703954; Metropolis et al., J. Chem. Phys. 21, 1087 (1953),
doi:10.1063/1.1699114.

The site loop runs outside and the chain loop inside, so that one row of couplings serves every chain while it is in the
cache. Couplings and fields are integers (fixed point): sums of integers do not drift and do not depend on the order of
the updates, so a cached field equals the recomputed one exactly. Rows are padded to a multiple of 64 and walked in
blocks of 64: the update of a row is then full-width vector code without a scalar tail.
"""

import numpy as np

from ..jit import kernel
from .limits import ROWS, gibbs_limits, metropolis_limits


@kernel
def init_fields_dense(fields, up, rises, start):
    """Compute the fields of all chains from their states. Mutates `fields` (n_chains, width).

    Invariant on exit: fields[c, i] = start[c, i] + sum_j rises[j, i] up[j, c], where `rises` (n_units, width) is what a
    unit that goes up adds and `start` (n_chains, width) is the field with all units down. Cost: n_units^2 n_chains
    integer additions at most.
    """
    fields[:] = start
    for j in range(rises.shape[0]):  # each row is read once for all chains
        for c in range(fields.shape[0]):
            if up[j, c]:
                for i in range(fields.shape[1]):
                    fields[c, i] += rises[j, i]


@kernel
def energies_of_fields_dense(up, fields, start, energies):
    """Compute each chain's energy above that of all units down, in the units of the fields.

    Mutates `energies` (n_chains,).
    Invariant on entry: `fields` as `init_fields_dense` gives them; -sum_i x_i (fields_i + start_i) / 2 then counts each
    pair once.  Cost: O(n_units) a chain.
    """
    for c in range(energies.shape[0]):
        total = 0.0
        for i in range(up.shape[0]):
            if up[i, c]:
                total += np.float64(fields[c, i]) + np.float64(start[c, i])
        energies[c] = -0.5 * total


@kernel
def _add_row(field, row, sign):
    for block in range(field.shape[0] // 64):
        for k in range(64):
            field[64 * block + k] += sign * row[64 * block + k]


@kernel
def _flip(up, fields, row, unit, chains):
    """Flip one unit of the chains listed in `chains`. Mutates `up`, `fields`."""
    for k in range(chains.shape[0]):
        c = chains[k]
        sign = -1 if up[unit, c] else 1
        up[unit, c] ^= np.uint8(1)
        _add_row(fields[c], row, sign)


@kernel
def gibbs_sweep_dense(up, fields, rises, scale, streams, sites, n_sweeps):
    """Draw the unit at every entry of `sites` from its conditional distribution.

    `sites` (rows, n) is worked through row after row, `n_sweeps` rows. Mutates `up`, `fields`, `streams`; returns the
    number of flips.

    `up` (n_units, lanes) uint8 holds the bits, one lane per chain; lanes beyond the chains draw and never flip.
    `scale` (lanes,) float32 turns log-odds into the units of the fields.
    Invariant: fields[c] is what `init_fields_dense` gives for column c of `up`.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    limits = np.empty((ROWS, up.shape[1]), fields.dtype)
    flips = np.empty(up.shape[1], np.int64)
    n_flips = 0
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for first in range(0, row.shape[0], ROWS):
            m = min(ROWS, row.shape[0] - first)
            gibbs_limits(streams, scale, limits[:m])
            for p in range(m):
                i, limit = row[first + p], limits[p]
                # the list of chains that flip grows without a branch
                n = 0
                for c in range(fields.shape[0]):
                    flips[n] = c
                    n += (fields[c, i] > limit[c]) != up[i, c]
                _flip(up, fields, rises[i], i, flips[:n])
                n_flips += n
    return n_flips


@kernel
def metropolis_sweep_dense(up, fields, rises, scale, streams, sites, n_sweeps, hold):
    """Propose to flip the unit at every entry of `sites`; accept with (1 - hold / 2^32) min(1, exp(-beta dE)).

    Mutates `up`, `fields`, `streams`; returns the number of flips.
    Arguments and invariant as for `gibbs_sweep_dense`; `hold` as for `metropolis_limits`.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    limits = np.empty((ROWS, up.shape[1]), fields.dtype)
    flips = np.empty(up.shape[1], np.int64)
    n_flips = 0
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for first in range(0, row.shape[0], ROWS):
            m = min(ROWS, row.shape[0] - first)
            metropolis_limits(streams, scale, hold, limits[:m])
            for p in range(m):
                i, limit = row[first + p], limits[p]
                n = 0
                for c in range(fields.shape[0]):
                    flips[n] = c
                    rise = -fields[c, i] if up[i, c] else fields[c, i]
                    n += rise >= limit[c]
                _flip(up, fields, rises[i], i, flips[:n])
                n_flips += n
    return n_flips
