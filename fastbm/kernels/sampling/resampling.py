"""Steps of a population of replicas as bits: resampling, sweeps and energies, in one call a thread.

Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130.
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row, empty
from ..barrier import arrive, meet, wait_at
from ..jit import kernel
from ..words import write_rows
from .multispin import FIRST, LEVELS, WORDS, count_unsatisfied, spread_thresholds, sweep_multispin


@kernel
def resample_multispin(chains, saved, parents, visits, model, found, orders, team):
    """Give replicas the states of others, sweep them and count their energies, in a thread's part of the blocks.

    Mutates `chains`, (words (n_blocks, n_units, 16), streams (n_blocks, 64)) uint32; `saved`, (rows (2, n_chains,
    words) uint32, of whole squares, and the room of `write_rows`); `found`, (totals (n_blocks, 512), flips
    (n_threads,)) int64. Returns how often the threads have met.
    Replica c gets the state that rows[a, parents[c]] holds, and then writes its own to rows[1 - a, c]. `orders` is
    (n_sweeps, a, first block, one after the last), int64; `visits` (sites, hold) and `model` (graph, numbers, edges,
    signs) are as for `sweep_multispin`, `spread_thresholds` and `count_unsatisfied`, `numbers` those of every block.
    `team` is (counters of the barrier and of each thread, how often all have met, the thread's number, the number of
    threads). They meet before and after: thread 0 then returns, others go on with what stands in `orders` at the next
    meeting, until n_sweeps is below 0. In between all have as much to do: where blocks cannot be dealt out evenly, one
    of them is begun by the next thread, before all else, and ended by this one, after all else (McNaughton, Management
    Science 6, 1 (1959), doi:10.1287/mnsc.6.1.1).
    Cost: that of the sweeps, and about 12 vector operations for 512 bits.
    """
    (ups, streams), (sites, hold), (graph, numbers, edges, signs), (totals, flips) = chains, visits, model, found
    rows, room = saved
    counter, n_met, shard, n_shards = team
    tables, thresholds = empty((2, FIRST * LEVELS * WORDS), np.uint32), empty((2, LEVELS * WORDS), np.uint64)
    some, words = empty((32 * WORDS, rows.shape[2]), np.uint32), empty((32 * rows.shape[2], WORDS), np.uint32)
    while True:
        n_met = meet(counter, n_met, n_shards)
        n_sweeps, a, start, stop = orders[0], orders[1], orders[2], orders[3]
        if n_sweeps < 0:
            return n_met
        n_blocks = stop - start
        first, last = -(-n_blocks * shard // n_shards), -(-n_blocks * (shard + 1) // n_shards)  # of the blocks to end
        begun, left = first * n_shards - n_blocks * shard, last * n_shards - n_blocks * (shard + 1)
        for b in range(first - np.int64(begun > 0), last):
            k, done, to_do = start + b, 0, n_sweeps
            place = 32 * WORDS * k
            n = min(32 * WORDS, parents.shape[0] - place)
            if b < first:
                to_do = n_sweeps * begun // n_shards
            if b == last - 1 and left:
                done = n_sweeps * left // n_shards
                wait_at(counter.ctypes.data + counter.itemsize * (2 + shard), n_met // 2 + 1)
            else:
                for c in range(n):
                    copy_row(some[c], rows[a, parents[place + c]])
                write_rows(some, words, False, room)  # which is its own inverse
                for i in range(ups.shape[1]):
                    copy_row(ups[k, i], words[i])
            spread_thresholds(tables, thresholds, numbers[k])
            both = tables[0], thresholds[0], tables[1], thresholds[1]
            flips[shard] += sweep_multispin(ups[k], graph, both, streams[k], sites, to_do - done, hold, n >> 5)
            if b >= first:
                write_rows(ups[k], rows[1 - a, place : place + n], False, room)
                count_unsatisfied(ups[k], edges, signs, totals[k])
            if n_shards > 1 and b == first - np.int64(begun > 0):  # once in a step, whether anyone waits for it or not
                arrive(counter.ctypes.data + counter.itemsize * (1 + shard))
        n_met = meet(counter, n_met, n_shards)
        if not shard:
            return n_met
