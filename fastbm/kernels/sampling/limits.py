"""Random limits of single-spin updates: what a unit's field is compared with, drawn before the state is looked at.

A unit goes up by Gibbs where its field (in log-odds at beta = 1) exceeds logit(u) / beta, and flips by Metropolis where
the rise of log-odds that the flip brings is at least log(u) / beta. Limits are integers in the units of the fields.
Rows of limits for several attempts are drawn in one call: the checks before vector code are then paid once.
"""

import numpy as np

from ..jit import apart_borrowing, inlined, kernel
from ..random import log_float32, log_of_bits, logit_of_bits, next_word

ROWS = 16  # attempts whose limits are drawn together


@kernel
def largest_float32(limits):
    """Return the largest float32 that the integers of `limits` hold: limits beyond it decide alike."""
    return np.float32(2147483520.0) if limits.itemsize == 4 else np.float32(9.2233714871e18)


@inlined
def gibbs_limit(word, scale, most):
    """Return the limit of a Gibbs update, as float32; `scale` turns log-odds into the units of the fields."""
    # field > limit means field > floor(limit): a cast alone would round towards zero
    limit = np.floor(np.float32(logit_of_bits(word) * scale))
    return min(max(limit, -most), most)


@inlined
def shift_of(hold):
    """Return the logarithm of the part of the proposals that is not dropped."""
    return log_float32(np.float32(np.float32(4294967296.0) - np.float32(hold)) * np.float32(2.0**-32))


@inlined
def metropolis_limit(word, scale, shift, most):
    """Return the limit of a Metropolis update that is not dropped, as float32; `shift` is `shift_of(hold)`.

    What is dropped is for the caller to see: a choice in here would keep its loop from being vector code.
    """
    return max(np.float32(min(np.float32(log_of_bits(word) - shift), np.float32(0.0)) * scale), -most)


@kernel
def fill_limits(words, scale, hold, limits):
    """Write the limits that the words of one chain make; `hold` is None by Gibbs. Mutates `limits`.

    Cost: one logarithm an entry.
    """
    most = largest_float32(limits)
    if hold is None:
        for p in range(words.shape[0]):
            limits[p] = gibbs_limit(words[p], scale, most)
    else:
        shift = shift_of(hold)
        for p in range(words.shape[0]):
            limit = metropolis_limit(words[p], scale, shift, most)
            limits[p] = most if np.uint32(~words[p]) < hold else limit


@apart_borrowing
def gibbs_limits(streams, scale, limits):
    """Draw limits of Gibbs updates: a field goes up where it is larger. Mutates `streams`, `limits` (rows, lanes).

    `scale` (lanes,) float32 turns log-odds into the units of the fields.  Cost: one draw and one logarithm an entry.
    """
    most = largest_float32(limits)
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for row in range(limits.shape[0]):
        for lane in range(limits.shape[1]):
            word, s0[lane], s1[lane], s2[lane], s3[lane] = next_word(s0[lane], s1[lane], s2[lane], s3[lane])
            limits[row, lane] = gibbs_limit(word, scale[lane], most)


@apart_borrowing
def metropolis_limits(streams, scale, hold, limits):
    """Draw limits of Metropolis updates: a flip is made where its rise is at least the limit.

    That is at most 0, or the largest number where the proposal is dropped. Mutates `streams`, `limits` (rows, lanes).
    `hold` (uint32) is the number of words, of 2^32, at which a proposal is dropped whatever it costs.  Cost: as
    `gibbs_limits`.
    """
    most, shift = largest_float32(limits), shift_of(hold)
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for row in range(limits.shape[0]):
        for lane in range(limits.shape[1]):
            word, s0[lane], s1[lane], s2[lane], s3[lane] = next_word(s0[lane], s1[lane], s2[lane], s3[lane])
            limit = metropolis_limit(word, scale[lane], shift, most)
            limits[row, lane] = most if np.uint32(~word) < hold else limit
