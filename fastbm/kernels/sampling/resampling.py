"""Steps of a population of replicas as bits: resampling, sweeps and energies, in one call a thread.

Replicas may be ladders, whose neighbouring temperatures exchange states after every sweep, many times in one call.

Hukushima and Iba, AIP Conf. Proc. 690, 200 (2003), doi:10.1063/1.1632130; Hukushima and Nemoto, J. Phys. Soc. Jpn. 65,
1604 (1996), doi:10.1143/JPSJ.65.1604.
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row, empty
from ..barrier import arrive, meet, wait_at
from ..functions import exp_float64
from ..jit import apart_borrowing, kernel
from ..words import write_rows
from .multispin import FIRST, LEVELS, WORDS, count_unsatisfied, spread_thresholds, sweep_multispin
from .tempering import FROM_HOTTEST, FROM_TARGET


@kernel
def resample_multispin(chains, saved, parents, visits, model, found, ladders, orders, team):
    """Give replicas the states of others, sweep them and count their energies, in a thread's part of the blocks.

    Mutates `chains`, (words (n_blocks, n_units, 16), streams (n_blocks, 64)) uint32; `saved`, (rows (2, n_chains,
    words) uint32, of whole squares, and the room of `write_rows`); `found`, (totals (n_blocks, 512), flips
    (n_threads,)) int64. Returns how often the threads have met.
    Replica c gets the state that rows[a, parents[c]] holds, and then writes its own to rows[1 - a, c]. `orders` is
    (n_sweeps, a, first block, one after the last, swaps that are to follow, each but the last with a step after it),
    int64: where there are swaps, `a` and `parents` are those of the next step on exit, and `ladders` as `swap_levels`
    takes and mutates them. `visits` (sites, hold) and `model` (graph, numbers, edges, signs) are as for
    `sweep_multispin`, `spread_thresholds` and `count_unsatisfied`, `numbers` those of every block.
    `team` is (counters of the barrier and of each thread, how often all have met, the thread's number, the number of
    threads). They meet before and after: thread 0 then returns, others go on with what stands in `orders` at the next
    meeting, until n_sweeps is below 0. In between all have as much to do: where blocks cannot be dealt out evenly, one
    of them is begun by the next thread, before all else, and ended by this one, after all else (McNaughton, Management
    Science 6, 1 (1959), doi:10.1287/mnsc.6.1.1).
    Cost: that of the sweeps, and about 12 vector operations for 512 bits.
    """
    (ups, streams), (sites, hold), (graph, numbers, edges, signs), (totals, flips) = chains, visits, model, found
    n_sites = sites.shape[1]
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
            k, done, to_do = start + b, 0, n_sweeps * n_sites
            place = 32 * WORDS * k
            n = min(32 * WORDS, parents.shape[0] - place)
            if b < first:
                to_do = to_do * begun // n_shards
            if b == last - 1 and left:
                done = to_do * left // n_shards
                wait_at(counter.ctypes.data + counter.itemsize * (2 + shard), n_met // 2 + 1)
            else:
                for c in range(n):
                    copy_row(some[c], rows[a, parents[place + c]])
                write_rows(some, words, False, room)  # which is its own inverse
                for i in range(ups.shape[1]):
                    copy_row(ups[k, i], words[i])
            spread_thresholds(tables, thresholds, numbers[k])
            both = tables[0], thresholds[0], tables[1], thresholds[1]
            flips[shard] += sweep_multispin(ups[k], graph, both, streams[k], sites, done, to_do, hold, n >> 5)
            if b >= first:
                write_rows(ups[k], rows[1 - a, place : place + n], False, room)
                count_unsatisfied(ups[k], edges, signs, totals[k])
            if n_shards > 1 and b == first - np.int64(begun > 0):  # once in a step, whether anyone waits for it or not
                arrive(counter.ctypes.data + counter.itemsize * (1 + shard))
        n_met = meet(counter, n_met, n_shards)
        if not shard:
            if orders[4]:
                swap_levels(rows[1 - a], totals, parents, ladders)
                orders[1], orders[4] = 1 - a, orders[4] - 1
            if not orders[4]:
                return n_met


@apart_borrowing
def swap_levels(rows, totals, parents, ladders):
    """Try to swap neighbouring levels of every ladder, and keep the states and energies of the last level before.

    Mutates `parents` (n_chains,), of which replica each is to be a copy, and all but two arrays of `ladders`: (gains
    (n_levels - 1,), uniforms, ends (n_levels, n_ladders) uint8, counts (3,) int64, slots, kept rows (n, n_ladders,
    words) uint32, kept totals (n, n_ladders) int64). Ladder c at level k is replica n_ladders k + c, with its bits in
    `rows` and its unsatisfied couplings in `totals`. Levels k and k + 1 swap with probability min(1, exp(gains[k] (n' -
    n))), k = 0, 2, ... and k = 1, 3, ... in turn. `counts` are (swaps before, the next of `uniforms`, round trips);
    slots[t] is the place where before swap t is kept what the last level has, -1 where it is not. `ends` are as for
    `count_round_trips`, of replicas where they stand.
    Cost: O(n_chains) exponentials.
    """
    gains, uniforms, ends, counts, slots, kept_rows, kept_totals = ladders
    n_levels, n_ladders = ends.shape
    slot, top = slots[counts[0]], (n_levels - 1) * n_ladders
    if slot >= 0:
        for c in range(n_ladders):
            copy_row(kept_rows[slot, c], rows[top + c])
            kept_totals[slot, c] = totals[(top + c) // totals.shape[1], (top + c) % totals.shape[1]]
    for lane in range(parents.shape[0]):
        parents[lane] = lane
    for k in range(counts[0] % 2, n_levels - 1, 2):
        for c in range(n_ladders):
            low, high = k * n_ladders + c, (k + 1) * n_ladders + c
            more = totals[high // totals.shape[1], high % totals.shape[1]]
            gain = gains[k] * np.float64(more - totals[low // totals.shape[1], low % totals.shape[1]])
            if gain >= 0.0 or uniforms[counts[1] + c] < exp_float64(gain):
                parents[low], parents[high] = high, low
                ends[k, c], ends[k + 1, c] = ends[k + 1, c], ends[k, c]
        counts[1] += n_ladders
    for c in range(n_ladders):
        if ends[0, c] == FROM_TARGET:
            ends[0, c] = FROM_HOTTEST
        if ends[n_levels - 1, c] == FROM_HOTTEST:
            counts[2] += 1
        ends[n_levels - 1, c] = FROM_TARGET
    counts[0] += 1
