"""Ladders of chains in the bits of words, whose temperatures keep their lanes: sweeps and swaps, many in one call.

Swaps are decided by sums of couplings in float64, one after the other, or by sums of whole numbers where the decision
is the same, which is known unless both sides are very close.
"""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel
from ..random import log_of_bits, next_word
from ..unlike import sum_unlike
from ..words import energies_words, exchange_bits
from .lookup import sweep_lookup
from .tempering import count_round_trips, swap_neighbours


@kernel
def temper_lookup(ups, model, chains, visits, ways, edges, ladders):
    """Do sweeps of all chains and try to swap neighbouring levels, so many times. Return the number of flips.

    Mutates `ups` (n_blocks, n_units + 1, 4) uint32, streams, and of `ladders` (level, streams, counts, end, trips,
    betas, n_chains) all arrays but `betas`: these are as in `fastbm.kernels.sampling.tempering`; flips and swaps count
    of the first `n_chains` ladders. Ladder c at level k is lane n_ladders k + c, 128 lanes a block.
    `model` is (neighbours, rises, fields, used (n_blocks, 4), tables, which of these (n_blocks,)) and `chains` (betas
    (n_blocks, words), keep, streams (n_blocks, 4, 4, 16)), as `sweep_lookup` takes those of a block. `visits` is
    (sites, sweeps between swaps, number of swaps, parity of the first), `sites` being one row for all sweeps or one for
    each. `ways` is (many, own, many digits), `edges` (edges, numbers, tables of sums, unit of these, constant and edges
    of `energies_words`, margin): energies by whole numbers are off from others by less than `margin`.
    Cost: that of sweeps, of `sum_unlike`, and O(n_ladders n_betas) and O(n_units) for every pair of words that swaps.
    """
    sites, thin, n_rounds, parity = visits
    level, streams, counts, end, trips, betas, n_chains = ladders
    energies, others, n_flips = np.empty(level.shape), np.zeros_like(counts), 0
    before, sums = np.empty_like(level), np.empty((ups.shape[0], 128))
    for t in range(n_rounds):
        rows = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
        n_flips += _sweep_blocks(ups, model, chains, rows, thin, ways)
        sum_unlike(ups, edges[0], edges[1], edges[2], ways[2], sums)
        _of_replicas(sums, edges[3], level, energies)
        if _is_close(level, streams, betas, energies, parity, edges[6]):
            for k in range(ups.shape[0]):
                sums[k, :] = edges[4]
                energies_words(ups[k], *edges[5], sums[k])
            _of_replicas(sums, 1.0, level, energies)
        before[:] = level
        n_swaps = swap_neighbours(level[:n_chains], streams[:n_chains], counts, betas, energies[:n_chains], parity)
        n_swaps += swap_neighbours(level[n_chains:], streams[n_chains:], others, betas, energies[n_chains:], parity)
        if n_swaps:
            _exchange(ups, before, level)
            count_round_trips(end, trips, level)
        parity = 1 - parity
    return n_flips


@inlined
def _sweep_blocks(ups, model, chains, rows, n_sweeps, ways):
    """Sweep all blocks, one after the other."""
    neighbours, rises, fields, used, tables, which = model
    betas, keep, streams = chains
    n_flips = 0
    for k in range(ups.shape[0]):
        graph, own = (neighbours, rises, fields, used[k]), (betas[k], keep, streams[k])
        n_flips += sweep_lookup(ups[k], graph, tables[which[k]], own, rows, n_sweeps, ways[0], ways[1])
    return n_flips


@inlined
def _of_replicas(sums, unit, level, energies):
    """Write what lanes have as energies of replicas. Mutates `energies` (n_ladders, n_betas)."""
    n_ladders = level.shape[0]
    for c in range(n_ladders):
        for r in range(level.shape[1]):
            lane = n_ladders * level[c, r] + c
            energies[c, r] = unit * sums[lane >> 7, lane & 127]


@inlined
def _is_close(level, streams, betas, energies, parity, margin):
    """Return whether energies that are off by `margin` may decide otherwise for a pair of levels of any ladder."""
    holder = np.empty(level.shape[1], np.int64)
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


@inlined
def _exchange(ups, before, level):
    """Exchange the states of levels k and k + 1 of ladders whose replicas were swapped. Mutates `ups`."""
    n_ladders, n_betas = level.shape
    apart = n_ladders >> 5
    masks = np.zeros((n_betas - 1, apart), np.uint32)
    for c in range(n_ladders):
        for r in range(n_betas):
            if level[c, r] > before[c, r]:
                masks[before[c, r], c >> 5] |= np.uint32(np.uint32(1) << np.uint32(c & 31))
    for k in range(n_betas - 1):
        for j in range(apart):
            if masks[k, j]:
                one = k * apart + j
                other = one + apart
                exchange_bits(ups[one >> 2], one & 3, ups[other >> 2], other & 3, masks[k, j])
