"""Many temperatures: swaps between the replicas of a ladder, and resampling of a population that is cooled.

Replicas of a ladder keep their lanes and temperatures move: level[c, r] is where replica r of ladder c stands; the
trips that replicas make along the ladder are counted. In a population a step from beta to beta + step gives replica r
the weight w_r = exp(-step (E_r - least)), and it is resampled to constant size.

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604; Katzgraber, Trebst, Huse and Troyer,
J. Stat. Mech. P03018 (2006), doi:10.1088/1742-5468/2006/03/P03018 (round trips); Kitagawa, J. Comput. Graph. Stat. 5, 1
(1996), doi:10.1080/10618600.1996.10474692 (systematic resampling).
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty, sum_row, zeros
from ..functions import LANES, exp_float64
from ..jit import apart, apart_borrowing, kernel
from ..random import log_of_bits, next_word

FROM_TARGET, _FROM_HOTTEST = np.uint8(1), np.uint8(2)  # 0: has not been at the target yet


@apart_borrowing
def swap_ladder(level, stream, counts, betas, energies, parity, holder):
    """Do what `swap_neighbours` does of a single ladder, rows of whose arrays these are.

    Mutates `holder` (n_betas,) int64 besides.
    """
    n_betas, n_swaps = level.shape[0], 0
    for r in range(n_betas):
        holder[level[r]] = r
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for k in range(parity, n_betas - 1, 2):
        a, b = holder[k], holder[k + 1]
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        counts[0, k] += 1
        if (betas[k] - betas[k + 1]) * (energies[a] - energies[b]) >= np.float64(log_of_bits(word)):
            level[a], level[b] = k + 1, k
            counts[1, k] += 1
            n_swaps += 1
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
    return n_swaps


@apart
def swap_neighbours(level, streams, counts, betas, energies, parity):
    """Try to swap levels k and k + 1 of every ladder, k = `parity`, `parity` + 2, and so on.

    Return the number of swaps. Mutates `level` (n_ladders, n_betas) int64, `streams` (n_ladders, 4) and `counts` (2,
    n_betas - 1): those attempted and those accepted.
    Accepts with min(1, exp((beta_a - beta_b) (E_a - E_b))); `energies` (n_ladders, n_betas) are those of the replicas.
    Invariant: every row of `level` is a permutation; one word a pair is drawn, whatever the energies.
    Cost: O(n_ladders n_betas).
    """
    holder, n_swaps = empty(level.shape[1], np.int64), 0
    for c in range(level.shape[0]):
        n_swaps += swap_ladder(level[c], streams[c], counts, betas, energies[c], parity, holder)
    return n_swaps


@apart_borrowing
def count_round_trips(end, n_round_trips, level):
    """Note which end of the ladder every replica saw last, and count those that came back.

    Mutates `end` (n_ladders, n_betas) uint8, `n_round_trips` (n_ladders,).
    A round trip leads from the target (the last level) to the hottest level and back.  Cost: O(n_ladders n_betas).
    """
    n_ladders, n_betas = level.shape
    for c in range(n_ladders):
        for r in range(n_betas):
            if level[c, r] == 0 and end[c, r] == FROM_TARGET:
                end[c, r] = _FROM_HOTTEST
            elif level[c, r] == n_betas - 1:
                if end[c, r] == _FROM_HOTTEST:
                    n_round_trips[c] += 1
                end[c, r] = FROM_TARGET


@kernel
def sum_weights(energies, least, step):
    """Return sum w and sum w^2.  Cost: one exponential a replica, in vectors: every `LANES`th is summed by itself."""
    totals, squares = zeros(LANES, np.float64), zeros(LANES, np.float64)
    n = energies.shape[0]
    for first in range(0, n - LANES + 1, LANES):
        some = energies[first : first + LANES]
        for k in range(LANES):
            w = exp_float64(-step * (some[k] - least))
            totals[k] += w
            squares[k] += w * w
    for r in range(n // LANES * LANES, n):
        w = exp_float64(-step * (energies[r] - least))
        totals[0] += w
        squares[0] += w * w
    return sum_row(totals), sum_row(squares)


@kernel
def resample_systematic(index, energies, edges, step, uniforms, least, totals):
    """Write the parent of every replica, in increasing order, of populations that are resampled each by itself.

    Mutates `index` (n,) int64, `least` and `totals` (n_populations,), the lowest energy and the sum of the weights of
    each; returns how many replicas have no offspring. Population m is those from edges[m] on, before edges[m + 1].
    With u = uniforms[m] in [0, 1), the parent of its replica c is the first r with w_0 + ... + w_r > (c + u) sum(w) /
    n, so that replica r has n w_r / sum(w) offspring, rounded up or down.  Cost: two exponentials a replica.
    """
    n_parents = 0
    weights = empty(energies.shape[0], np.float64)
    for m in range(uniforms.shape[0]):
        start, n = edges[m], edges[m + 1] - edges[m]
        own = energies[start : start + n]
        lowest = own[0]
        for k in range(1, n):
            lowest = min(lowest, own[k])
        for k in range(n):
            weights[k] = exp_float64(-step * (own[k] - lowest))
        least[m], totals[m] = lowest, sum_weights(own, lowest, step)[0]
        share = totals[m] / n
        r, reached, last = -1, 0.0, -1
        for c in range(n):
            aim = (c + uniforms[m]) * share
            while (reached <= aim or r < 0) and r < n - 1:
                r += 1
                reached += weights[r]
            n_parents += np.int64(r != last)
            last = r
            index[start + c] = start + r
    return energies.shape[0] - n_parents
