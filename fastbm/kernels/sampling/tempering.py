"""Many temperatures: swaps between the replicas of a ladder.

Replicas keep their lanes and temperatures move: level[c, r] is where replica r of ladder c stands; the trips that
replicas make along the ladder are counted.

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604; Katzgraber, Trebst, Huse and Troyer,
J. Stat. Mech. P03018 (2006), doi:10.1088/1742-5468/2006/03/P03018 (round trips).
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty
from ..jit import apart, apart_borrowing
from ..random import log_of_bits, next_word

FROM_TARGET, FROM_HOTTEST = np.uint8(1), np.uint8(2)  # 0: has not been at the target yet


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
                end[c, r] = FROM_HOTTEST
            elif level[c, r] == n_betas - 1:
                if end[c, r] == FROM_HOTTEST:
                    n_round_trips[c] += 1
                end[c, r] = FROM_TARGET
