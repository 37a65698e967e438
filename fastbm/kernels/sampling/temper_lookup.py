"""Ladders of chains in the bits of words, whose temperatures keep their lanes: sweeps and swaps, many in one call.

Swaps are decided by sums of couplings in float64, one after the other, or by sums of whole numbers where the decision
is the same, which is known unless both sides are very close. Threads have ladders of their own to swap and as much to
sweep, and meet in between: where blocks cannot be dealt out evenly, one of them is begun by the next thread, before all
else, and ended by this one, after all else (McNaughton, Management Science 6, 1 (1959), doi:10.1287/mnsc.6.1.1).
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row, empty, matrix_at, zeros
from ..barrier import arrive, meet, wait_at
from ..jit import apart, apart_borrowing, inlined, kernel
from ..random import log_of_bits, next_word
from ..unlike import sum_unlike
from ..words import energies_words, exchange_bits
from .lookup import sweep_blocks
from .tempering import count_round_trips, swap_neighbours


@kernel
def temper_lookup(ups, model, chains, visits, ways, edges, ladders, team, samples):
    """Do sweeps of all chains and try to swap neighbouring levels, so many times. Return the number of own flips.

    Mutates `ups` (n_blocks, n_units + 1, 4) uint32, streams, and of `ladders` (level, streams, counts, end, trips,
    betas, n_chains) all arrays but `betas`: these are as in `fastbm.kernels.sampling.tempering`, counts of each thread;
    flips and swaps count of the first `n_chains` ladders. Ladder c at level k is lane n_ladders k + c, 128 a block.
    `model` is (neighbours, rises, fields, used (n_blocks, 4), tables, which of these (n_blocks,)) and `chains` (betas
    (n_blocks, words), keep, streams (n_blocks, 4, 4, 16)), as `sweep_lookup` takes those of a block. `visits` is
    (sites, sweeps between swaps, number of swaps, parity of the first), `sites` being one row for all sweeps or one for
    each. `ways` is ((many, own), many digits), `edges` (edges of `sum_unlike`, unit of their numbers, constant and
    edges of `energies_words`, margin): energies by whole numbers are off from others by less than `margin`.
    `team` is (sums (n_blocks, 128) and marks (threads x (n_betas - 1), words of ladders) uint32, room that threads
    share, the marks zeros at first, the thread's own room of `sum_unlike`, counters of the barrier and of each thread,
    the thread's number, the number of threads): all call this at the same time. `samples` is (swaps between two, what
    `_keep` writes).
    Invariant: bits do not depend on the number of threads.
    Cost: that of sweeps, of `sum_unlike`, and O(n_ladders n_betas) and O(n_units) for every pair of words that swaps.
    """
    sites, thin, n_rounds, parity = visits
    level, streams, counts, end, trips, betas, n_chains = ladders
    (sums, marks, room, counter, shard, n_shards), (between, kept) = team, samples
    n_blocks, n_ladders = ups.shape[0], level.shape[0]
    first, last = -(-n_blocks * shard // n_shards), -(-n_blocks * (shard + 1) // n_shards)  # of the blocks to end
    begun, left = first * n_shards - n_blocks * shard, last * n_shards - n_blocks * (shard + 1)
    begin, stop = first - np.int64(begun > 0), last - np.int64(left > 0)  # of the blocks to begin
    n_parts = 2 * n_shards  # of a sweep; edges of a block take about half of one, and are summed by who ends it
    head, tail = min(n_parts * thin, begun * (2 * thin + 1)), min(n_parts * thin, left * (2 * thin + 1))
    own = slice(n_ladders * shard // n_shards, n_ladders * (shard + 1) // n_shards)
    own_marks = marks[shard * (betas.size - 1) : (shard + 1) * (betas.size - 1)]
    counted = slice(own.start, max(own.start, min(own.stop, n_chains)))
    others, n_flips, n_met = slice(counted.stop, own.stop), 0, np.int64(0)
    energies, before, not_counted = (
        empty(level.shape, np.float64),
        empty(level.shape, np.int64),
        zeros((2, betas.size - 1), np.int64),
    )
    for t in range(n_rounds):
        rows = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
        if begun:
            n_flips += _sweep_part(ups, model, chains, rows, ways[0], begin, np.int64(0), head, n_parts)
            arrive(counter.ctypes.data + counter.itemsize * (1 + shard))
        n_flips += sweep_blocks(ups, model, chains, rows, thin, ways[0], first, stop)
        if left:
            wait_at(counter.ctypes.data + counter.itemsize * (2 + shard), t + 1)
            n_flips += _sweep_part(ups, model, chains, rows, ways[0], stop, tail, n_parts * thin, n_parts)
        sum_unlike(ups[first:last], edges[0], ways[1], room, sums[first:last])
        n_met = meet(counter, n_met, n_shards)
        _of_replicas(sums, edges[1], level, energies, own)
        if _is_close(level[own], streams[own], betas, energies[own], parity, edges[4]):
            exact = empty(sums.shape, np.float64)
            for k in range(n_blocks):
                exact[k, :] = edges[2]
                energies_words(ups[k], *edges[3], exact[k])
            _of_replicas(exact, 1.0, level, energies, own)
        n_met = meet(counter, n_met, n_shards)
        for c in range(own.start, own.stop):
            copy_row(before[c], level[c])
        n_swaps = swap_neighbours(level[counted], streams[counted], counts[shard], betas, energies[counted], parity)
        n_swaps += swap_neighbours(level[others], streams[others], not_counted, betas, energies[others], parity)
        if n_swaps:
            count_round_trips(end[own], trips[own], level[own])
        _mark(before, level, own, own_marks)
        n_met = meet(counter, n_met, n_shards)
        _exchange(ups, marks, betas.size - 1, shard, n_shards)
        n_met = meet(counter, n_met, n_shards)
        if (t + 1) % between == 0:
            found = ups, sums, marks, counts, trips
            _keep(kept, (t + 1) // between - 1, found, (begin, stop), (first, last), own, shard, n_shards)
        parity = 1 - parity
    return n_flips


@apart
def _sweep_part(ups, model, chains, rows, ways, k, begin, end, n_parts):
    """Sweep block k from part `begin` of its sweeps to `end`, `n_parts` in each; return the flips. Mutates `ups`."""
    n_units, n_flips = rows.shape[1], 0
    place, stop = begin * n_units // n_parts, end * n_units // n_parts
    while place < stop:
        row, first = place // n_units % rows.shape[0], place % n_units
        n = min(n_units - first, stop - place)
        some = matrix_at(rows, rows.ctypes.data + rows.itemsize * (row * n_units + first), 1, n)
        n_flips += sweep_blocks(ups, model, chains, some, np.int64(1), ways, k, k + 1)
        place += n
    return n_flips


@apart_borrowing
def _keep(kept, t, found, next_blocks, blocks, own, shard, n_shards):
    """Write what a thread has of sample `t`. Mutates its part of `kept`.

    These are (states, sums, marks, counts, trips), a row of them for each sample, of which the states are those of the
    last blocks, and counts of each thread; `found` are the same as they stand. Sums are those before the last swap, of
    own `blocks`; states those of `next_blocks`, which no other thread sweeps before this one does.
    """
    (states, kept_sums, kept_marks, kept_counts, kept_trips), (ups, sums, marks, counts, trips) = kept, found
    before, (begin, stop), (first, last) = ups.shape[0] - states.shape[1], next_blocks, blocks
    for k in range(max(begin, before), stop):
        for i in range(ups.shape[1]):
            for w in range(ups.shape[2]):
                states[t, k - before, i, w] = ups[k, i, w]
    for k in range(first, last):
        copy_row(kept_sums[t, k], sums[k])
    n_pairs = counts.shape[2]
    for k in range(n_pairs):
        for m in range(2):
            kept_counts[t, shard, m, k] = counts[shard, m, k]
    for k in range(n_pairs * shard // n_shards, n_pairs * (shard + 1) // n_shards):
        for j in range(marks.shape[1]):
            kept_marks[t, k, j] = _marked(marks, n_pairs, k, j)
    for c in range(own.start, own.stop):
        kept_trips[t, c] = trips[c]


@apart_borrowing
def _of_replicas(sums, unit, level, energies, own):
    """Write what lanes have as energies of replicas of own ladders. Mutates `energies` (n_ladders, n_betas)."""
    n_ladders = level.shape[0]
    for c in range(own.start, own.stop):
        for r in range(level.shape[1]):
            lane = n_ladders * level[c, r] + c
            energies[c, r] = unit * sums[lane >> 7, lane & 127]


@apart
def _is_close(level, streams, betas, energies, parity, margin):
    """Return whether energies that are off by `margin` may decide otherwise for a pair of levels of any ladder."""
    holder = empty(level.shape[1], np.int64)
    for c in range(level.shape[0]):
        for r in range(level.shape[1]):
            holder[level[c, r]] = r
        s0, s1, s2, s3 = streams[c, 0], streams[c, 1], streams[c, 2], streams[c, 3]
        for k in range(parity, level.shape[1] - 1, 2):
            word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
            step = betas[k] - betas[k + 1]
            gain = step * (energies[c, holder[k]] - energies[c, holder[k + 1]])
            if abs(gain - np.float64(log_of_bits(word))) <= 2.0 * abs(step) * margin:
                return True
    return False


@apart_borrowing
def _mark(before, level, own, marks):
    """Write which of own ladders exchange levels k and k + 1, a bit each. Mutates `marks` (n_betas - 1, words)."""
    for k in range(marks.shape[0]):
        for j in range(marks.shape[1]):
            marks[k, j] = np.uint32(0)
    for c in range(own.start, own.stop):
        for r in range(level.shape[1]):
            if level[c, r] > before[c, r]:
                marks[before[c, r], c >> 5] |= np.uint32(np.uint32(1) << np.uint32(c & 31))


@inlined
def _marked(marks, n_pairs, k, j):
    """Return the ladders of word j that exchange levels k and k + 1, those of all threads."""
    found = np.uint32(0)
    for row in range(k, marks.shape[0], n_pairs):
        found |= marks[row, j]
    return found


@apart_borrowing
def _exchange(ups, marks, n_pairs, shard, n_shards):
    """Exchange the states of levels k and k + 1 of ladders that are marked, for a thread's part of the levels.

    Mutates `ups`.
    """
    apart = marks.shape[1]
    for k in range(n_pairs * shard // n_shards, n_pairs * (shard + 1) // n_shards):
        for j in range(apart):
            mask = _marked(marks, n_pairs, k, j)
            if mask:
                one = k * apart + j
                other = one + apart
                exchange_bits(ups[one >> 2], one & 3, ups[other >> 2], other & 3, mask)
