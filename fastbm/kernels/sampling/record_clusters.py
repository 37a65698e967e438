"""Samples of chains that move by clusters: updates, states and energies in one call for many samples.

Chains are updated one after the other. Their samples lie side by side in squares of bits, so that energies are told of
as many at once as a square has rows.
"""

from __future__ import annotations

import numpy as np

from ..ahead import BLOCK, MARKS
from ..arrays import empty
from ..jit import kernel
from ..squares import pick_rows, turn_squares, write_octets
from ..words import QUAD, SIDE
from .clusters import put_back, turn_all, turn_single
from .record_sparse import tell_energies


@kernel
def record_clusters(up, queue, graph, pull, chains, thin, single, energy, room, found):
    """Take samples of one chain after the other, after every `thin` updates.

    Mutates `up` (n_chains, n_units), `queue`, streams, `room`, which `room_of_samples` has made for one group, and
    `found`: rows (n_samples, n_chains, words) uint32, energies (n_samples, n_chains), and what updates return, as many.
    `chains` is (streams, table), and `single` True for `wolff_update`, None for `swendsen_wang_update`, whose arguments
    the first ones are; the other is not compiled. `energy` is (places, gauge, edges, machine): the numbers of all
    units; the bits of those that are turned in `up`, (squares or none, words of a row); and what `tell_energies` takes.
    Cost: that of the updates, and about that of `energies_packed` for as many samples as a square has rows.
    """
    (streams, table), (rows, energies, sums) = chains, found
    (places, gauge, edges, machine), n_chains, n, at = energy, up.shape[0], sums.shape[0], np.int64(BLOCK)
    words, marks, kept = empty(BLOCK, np.uint32), empty(MARKS, np.uint32), room[0][0]
    beside = max(1, SIDE // n)  # chains, whose samples lie side by side
    for start in range(0, n_chains, beside):
        stop = min(start + beside, n_chains)
        for first in range(0, n, SIDE):  # once, or of one chain
            end, lane = min(first + SIDE, n), 0
            for c in range(start, stop):
                ahead = (words, marks, streams[c], table)
                for t in range(first, end):
                    if single is None:
                        sums[t, c], at = turn_all(up[c], queue, graph, pull, ahead, at, thin)
                    else:
                        sums[t, c], at = turn_single(up[c], queue, graph, pull, ahead, at, thin)
                    write_octets(up[c], lane, kept)
                    for s in range(kept.shape[0]):
                        for w in range(QUAD):
                            if gauge.shape[0]:
                                kept[s, lane, w] ^= gauge[s, w]
                            rows[t, c, QUAD * s + w] = kept[s, lane, w]
                    lane += 1
                if end == n:
                    put_back(words, marks, streams[c], at)
                    at = np.int64(BLOCK)
            turn_squares(kept, room[1])
            pick_rows(room[1], places, 0, room[2][0])
            tell_energies(room, lane, start, edges, machine)
            lane = 0
            for c in range(start, stop):
                for t in range(first, end):
                    energies[t, c] = room[5][0, lane]
                    lane += 1
