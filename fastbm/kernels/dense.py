"""Single-spin Gibbs and Metropolis sweeps on dense couplings, with cached local fields.

Glauber, J. Math. Phys. 4, 294 (1963), doi:10.1063/1.1703954; Metropolis et al., J. Chem. Phys. 21, 1087 (1953),
doi:10.1063/1.1699114.

The site loop runs outside and the chain loop inside, so that one row of couplings serves every chain while it is in the
cache. Couplings and fields are integers (fixed point): sums of integers do not drift and do not depend on the order of
the updates, so a cached field equals the recomputed one exactly. Rows are padded to a multiple of 64 and walked in
blocks of 64: the update of a row is then full-width vector code without a scalar tail.
"""

import numpy as np

from .._jit import kernel
from .random import draw_bits, log_float32, log_of_bits, logit_of_bits


@kernel
def init_fields_dense(fields, up, rises, start):
    """Compute the fields of all chains from their states. Mutates `fields` (n_chains, width).

    Invariant on exit: fields[c, i] = start[c, i] + sum_j rises[j, i] up[j, c], where `rises` (n_units, width) is what a
    unit that goes up adds and `start` (n_chains, width) is the field with all units down. Cost: n_units^2 n_chains
    integer additions at most.
    """
    for c in range(fields.shape[0]):
        for i in range(fields.shape[1]):
            fields[c, i] = start[c, i]
        for j in range(rises.shape[0]):
            if up[j, c]:
                for i in range(fields.shape[1]):
                    fields[c, i] += rises[j, i]


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
def _largest_float32(limits):
    """The largest float32 that the integers of `limits` hold: thresholds beyond it decide alike."""
    return np.float32(2147483520.0) if limits.itemsize == 4 else np.float32(9.2233714871e18)


@kernel
def gibbs_sweep_dense(up, fields, rises, scale, streams, sites, n_sweeps):
    """Draw the unit at every entry of `sites` (rows, n_units) from its conditional distribution, row after row,
    `n_sweeps` rows. Mutates `up`, `fields`, `streams`; returns the number of flips.

    `up` (n_units, lanes) uint8 holds the bits, one lane per chain; lanes beyond the chains draw and never flip.
    `scale` (lanes,) float32 turns a threshold in log-odds into the units of the fields.
    Invariant: fields[c] is what `init_fields_dense` gives for column c of `up`.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    bits = np.empty(up.shape[1], np.uint32)
    limits = np.empty(up.shape[1], fields.dtype)
    flips = np.empty(up.shape[1], np.int64)
    most = _largest_float32(limits)
    n_flips = 0
    for t in range(n_sweeps):
        for i in sites[t % sites.shape[0]]:
            draw_bits(streams, bits)
            for lane in range(up.shape[1]):
                # field > limit means field > floor(limit): a cast alone would round towards zero
                limit = np.floor(np.float32(logit_of_bits(bits[lane]) * scale[lane]))
                limits[lane] = min(max(limit, -most), most)
            # the list of chains that flip grows without a branch
            n = 0
            for c in range(fields.shape[0]):
                flips[n] = c
                n += (fields[c, i] > limits[c]) != up[i, c]
            _flip(up, fields, rises[i], i, flips[:n])
            n_flips += n
    return n_flips


@kernel
def metropolis_sweep_dense(up, fields, rises, scale, streams, sites, n_sweeps, hold):
    """Propose to flip the unit at every entry of `sites`; accept with (1 - hold / 2^32) min(1, exp(-beta dE)).
    Mutates `up`, `fields`, `streams`; returns the number of flips.

    Arguments and invariant as for `gibbs_sweep_dense`; `hold` (uint32) is the number of words, of 2^32, at which a
    proposal is dropped whatever it costs.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    bits = np.empty(up.shape[1], np.uint32)
    limits = np.empty(up.shape[1], fields.dtype)
    flips = np.empty(up.shape[1], np.int64)
    most = _largest_float32(limits)
    kept = np.float32(np.float32(4294967296.0) - np.float32(hold)) * np.float32(2.0**-32)
    shift = log_float32(kept)
    n_flips = 0
    for t in range(n_sweeps):
        for i in sites[t % sites.shape[0]]:
            draw_bits(streams, bits)
            for lane in range(up.shape[1]):
                limit = np.float32(min(np.float32(log_of_bits(bits[lane]) - shift), np.float32(0.0)) * scale[lane])
                limits[lane] = most if np.uint32(~bits[lane]) < hold else max(limit, -most)
            n = 0
            for c in range(fields.shape[0]):
                flips[n] = c
                rise = -fields[c, i] if up[i, c] else fields[c, i]
                n += rise >= limits[c]
            _flip(up, fields, rises[i], i, flips[:n])
            n_flips += n
    return n_flips
