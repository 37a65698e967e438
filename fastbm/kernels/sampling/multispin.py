"""Multi-spin coding: 32 replicas a word, for couplings of one magnitude, up to 7 neighbours and no field.

The pulls of the neighbours are counted by bit logic and folded by symmetry: with c of d neighbours pulling up, only the
majority and one of four levels of |2 c - d| matter. Whether a replica goes against the majority is the comparison of a
uniform number with its level's threshold, one random bit after the other from the highest, for all replicas of a word
at once. After `FIRST` bits nearly all are decided; a word with an undecided replica draws on alone, up to 64 bits, so
that what it draws depends on nothing but itself.

Arrays hold a block of `WORDS` words, one vector, and are flat: constant offsets need no checks before vector code.
Replica r of a block is bit r % 32 of word r // 32; `count_unsatisfied` tells how many couplings each goes against.

Creutz, Bhanot and Neuberger, Phys. Rev. Lett. 43, 553 (1979), doi:10.1103/PhysRevLett.43.553; Zorn, Herrmann and Rebbi,
Comput. Phys. Commun. 23, 337 (1981), doi:10.1016/0010-4655(81)90174-5.
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty, zeros
from ..jit import apart, apart_borrowing, inlined, kernel
from ..random import next_word

WORDS = 16  # words of 32 replicas in a block
FIRST = 16  # random bits that every replica draws
LEVELS = 4
_ALL = np.uint32(0xFFFFFFFF)
_NONE = np.uint32(0)
_U = np.uint32  # numba widens results of uint32 operations: cast after every one


@inlined
def _count(c0, c1, c2, pull):
    """Add one bit to a counter of three bits."""
    carry = _U(c0 & pull)
    return _U(c0 ^ pull), _U(c1 ^ carry), _U(c2 ^ _U(c1 & carry))


@inlined
def _levels(c0, c1, c2, odd):
    """Return the masks of the levels |2 c - 6| / 2, or (|2 c - 7| - 1) / 2 where `odd`; c2 is the majority."""
    a, b = _U(c1 ^ c2), _U(c0 ^ _U(c2 & odd))
    lowest = _U(_U(a & b) & _U(~_U(c2 & _U(~odd))))
    return lowest, _U(a & _U(~b)), _U(b & _U(~lowest)), _U(_U(~a) & _U(~b))


@inlined
def _compare(word, levels, thresholds, below, equal):
    """Compare one bit of the uniform numbers with that of the thresholds, while all higher bits were equal."""
    l0, l1, l2, l3 = levels
    t0, t1, t2, t3 = thresholds
    bit = _U(_U(_U(l0 & t0) | _U(l1 & t1)) | _U(_U(l2 & t2) | _U(l3 & t3)))
    return _U(below | _U(_U(equal & _U(~word)) & bit)), _U(equal & _U(~_U(word ^ bit)))


@inlined
def _four_bits(table, k, levels, below, equal, a, b, c, d):
    """Compare four bits with rows of `table` that are 4 `WORDS` apart."""
    word, a, b, c, d = next_word(a, b, c, d)
    bits = table[k], table[k + 16], table[k + 32], table[k + 48]
    below, equal = _compare(word, levels, bits, below, equal)
    word, a, b, c, d = next_word(a, b, c, d)
    bits = table[k + 64], table[k + 80], table[k + 96], table[k + 112]
    below, equal = _compare(word, levels, bits, below, equal)
    word, a, b, c, d = next_word(a, b, c, d)
    bits = table[k + 128], table[k + 144], table[k + 160], table[k + 176]
    below, equal = _compare(word, levels, bits, below, equal)
    word, a, b, c, d = next_word(a, b, c, d)
    bits = table[k + 192], table[k + 208], table[k + 224], table[k + 240]
    below, equal = _compare(word, levels, bits, below, equal)
    return below, equal, a, b, c, d


@inlined
def _first_bits(streams, w, levels, table, equal):
    """Draw and compare the first 16 bits of word `w`. Mutates `streams`."""
    a, b, c, d = streams[w], streams[16 + w], streams[32 + w], streams[48 + w]
    below = _NONE
    below, equal, a, b, c, d = _four_bits(table, w, levels, below, equal, a, b, c, d)
    below, equal, a, b, c, d = _four_bits(table, w + 256, levels, below, equal, a, b, c, d)
    below, equal, a, b, c, d = _four_bits(table, w + 512, levels, below, equal, a, b, c, d)
    below, equal, a, b, c, d = _four_bits(table, w + 768, levels, below, equal, a, b, c, d)
    streams[w], streams[16 + w], streams[32 + w], streams[48 + w] = a, b, c, d
    return below, equal


@kernel
def _draw_gibbs(work, odd, streams, table):
    """Draw a unit of every replica given its counts of pulls. Mutates `work`, `streams`; tells of undecided ones."""
    left = _NONE
    for w in range(WORDS):
        c0, c1, c2 = work[w], work[16 + w], work[32 + w]
        levels = _levels(c0, c1, c2, odd)
        below, equal = _first_bits(streams, w, levels, table, _ALL)
        work[64 + w] = _U(c2 ^ below)
        work[80 + w] = equal
        left = _U(left | equal)
    return left


@kernel
def _draw_metropolis(work, odd, streams, table):
    """Propose to flip a unit of every replica. Mutates `work`, `streams`; tells of undecided ones.

    Ties and units against the majority flip; a unit with the majority leaves it where its number is below.
    """
    left = _NONE
    for w in range(WORDS):
        c0, c1, c2, old = work[w], work[16 + w], work[32 + w], work[48 + w]
        levels = _levels(c0, c1, c2, odd)
        tie = _U(levels[0] & _U(~odd))
        below, equal = _first_bits(streams, w, levels, table, _U(_U(~_U(old ^ c2)) & _U(~tie)))
        work[64 + w] = _U(_U(tie & _U(~old)) | _U(_U(~tie) & _U(c2 ^ below)))
        work[80 + w] = equal
        left = _U(left | equal)
    return left


@kernel
def _draw_on(work, odd, streams, thresholds):
    """Draw further bits for words with undecided replicas. Mutates `work`, `streams`."""
    one = np.uint64(1)
    for w in range(WORDS):
        equal, below = work[80 + w], _NONE
        levels = _levels(work[w], work[16 + w], work[32 + w], odd)
        a, b, c, d = streams[w], streams[16 + w], streams[32 + w], streams[48 + w]
        place = FIRST
        while equal and place < 64:
            shift = np.uint64(63 - place)
            bits = (
                _U(_NONE - _U((thresholds[w] >> shift) & one)),
                _U(_NONE - _U((thresholds[16 + w] >> shift) & one)),
                _U(_NONE - _U((thresholds[32 + w] >> shift) & one)),
                _U(_NONE - _U((thresholds[48 + w] >> shift) & one)),
            )
            word, a, b, c, d = next_word(a, b, c, d)
            below, equal = _compare(word, levels, bits, below, equal)
            place += 1
        streams[w], streams[16 + w], streams[32 + w], streams[48 + w] = a, b, c, d
        work[64 + w] = _U(work[64 + w] ^ below)


@kernel
def _hold(work, streams):
    """Keep the old bit of one replica in 16. Mutates `work`, `streams`."""
    for w in range(WORDS):
        a, b, c, d = streams[w], streams[16 + w], streams[32 + w], streams[48 + w]
        first, a, b, c, d = next_word(a, b, c, d)
        second, a, b, c, d = next_word(a, b, c, d)
        third, a, b, c, d = next_word(a, b, c, d)
        fourth, a, b, c, d = next_word(a, b, c, d)
        streams[w], streams[16 + w], streams[32 + w], streams[48 + w] = a, b, c, d
        held = _U(_U(first & second) & _U(third & fourth))
        work[64 + w] = _U(_U(work[48 + w] & held) | _U(work[64 + w] & _U(~held)))


@kernel
def _add_pull(work, up, unit, sign):
    """Count one neighbour. Mutates `work`."""
    for w in range(WORDS):
        c0, c1, c2 = _count(work[w], work[16 + w], work[32 + w], _U(up[unit, w] ^ sign))
        work[w], work[16 + w], work[32 + w] = c0, c1, c2


@inlined
def count_bits(word):
    """Return the number of ones of a word."""
    word = _U(word - _U(_U(word >> _U(1)) & _U(0x55555555)))
    word = _U(_U(word & _U(0x33333333)) + _U(_U(word >> _U(2)) & _U(0x33333333)))
    word = _U(_U(word + _U(word >> _U(4))) & _U(0x0F0F0F0F))
    return np.int64(_U(_U(word * _U(0x01010101)) >> _U(24)))


@apart_borrowing
def spread_thresholds(tables, thresholds, numbers):
    """Write what `sweep_multispin` takes of the temperatures of words.

    Mutates `tables` (2, 1024) uint32, `thresholds` (2, 64) uint64. `numbers` (2, 4, 16 or 1) uint64 are thresholds for
    an even and an odd number of neighbours, at every level, of each word or of all.
    """
    each = np.int64(numbers.shape[2] > 1)
    for odd in range(2):
        for level in range(LEVELS):
            first = WORDS * level
            for w in range(WORDS):
                thresholds[odd, first + w] = numbers[odd, level, each * w]
            for b in range(FIRST):
                for w in range(WORDS):
                    bit = _U((thresholds[odd, first + w] >> np.uint64(63 - b)) & np.uint64(1))
                    tables[odd, WORDS * LEVELS * b + first + w] = _U(_NONE - bit)


@apart
def sweep_multispin(up, graph, tables, streams, sites, first, last, hold, n_words):
    """Update units in all replicas: those at entries of `sites` (rows, n), row after row and from the first one again.

    Entries before number `first` are left out, and so is all from number `last` on.
    Mutates `up` (n_units, 16) uint32 and `streams` (64,) uint32, word w being entries w, 16 + w, 32 + w and 48 + w;
    returns the number of flips in the first `n_words` words.
    Where `hold` is None, units are drawn from their conditional distribution; else flips are proposed, of which one in
    16 is dropped if it is true. `graph` is (indptr, indices, signs), `signs` all ones where a coupling is negative; a
    coupling of k times the unit stands k times. `tables` is (table, thresholds, table, thresholds) for units of an even
    and an odd number of neighbours: the probability of going against the majority times 2^64, for word w at level l in
    thresholds[16 l + w] uint64, and its highest bits b as masks in table[64 b + 16 l + w].
    Cost: about 20 vector operations a random bit, 16 bits an attempt of 512 replicas.
    """
    indptr, indices, signs = graph
    table, thresholds, odd_table, odd_thresholds = tables
    n_flips = 0
    work = empty(6 * WORDS, np.uint32)  # counts of three bits, old bits, new bits, undecided replicas
    n_sites = sites.shape[1]
    for t in range(first // n_sites, -(-last // n_sites)):
        for k in range(max(first - t * n_sites, 0), min(last - t * n_sites, n_sites)):
            i = sites[t % sites.shape[0], k]
            degree = indptr[i + 1] - indptr[i]
            odd = _ALL if degree & 1 else _NONE
            start = (6 + (degree & 1) - degree) >> 1
            low, high = _ALL if start & 1 else _NONE, _ALL if start & 2 else _NONE
            for w in range(WORDS):
                work[w], work[16 + w], work[32 + w] = low, high, _NONE
                work[48 + w] = up[i, w]
            for e in range(indptr[i], indptr[i + 1]):
                _add_pull(work, up, indices[e], signs[e])
            if degree & 1:
                first_bits, numbers = odd_table, odd_thresholds
            else:
                first_bits, numbers = table, thresholds
            if hold is None:
                left = _draw_gibbs(work, odd, streams, first_bits)
            else:
                left = _draw_metropolis(work, odd, streams, first_bits)
            if left:
                _draw_on(work, odd, streams, numbers)
            if hold is not None and hold:
                _hold(work, streams)
            for w in range(WORDS):
                up[i, w] = work[64 + w]
            for w in range(n_words):
                n_flips += count_bits(_U(work[48 + w] ^ work[64 + w]))
    return n_flips


@kernel
def _count_edge(low, up, i, j, sign):
    """Count one edge in counters of four bits. Mutates `low` (64,)."""
    for w in range(WORDS):
        x = _U(_U(up[i, w] ^ up[j, w]) ^ sign)
        a, b, c = low[w], low[16 + w], low[32 + w]
        two = _U(a & x)
        four = _U(b & two)
        low[w], low[16 + w], low[32 + w] = _U(a ^ x), _U(b ^ two), _U(c ^ four)
        low[48 + w] = _U(low[48 + w] ^ _U(c & four))


@kernel
def _flush(planes, low, carry):
    """Add the counters of four bits to those of 32 bits, and empty them. Mutates `planes` (32, 16), `low`, `carry`."""
    carry[:] = 0
    left, p = _NONE, 0
    while p < 4 or left:
        left = _NONE
        for w in range(WORDS):
            add = low[16 * p + w] if p < 4 else _NONE
            old, over = planes[p, w], carry[w]
            planes[p, w] = _U(_U(old ^ add) ^ over)
            carry[w] = _U(_U(old & add) | _U(over & _U(old ^ add)))
            left = _U(left | carry[w])
        p += 1
    low[:] = 0


@apart
def count_unsatisfied(up, edges, signs, totals):
    """Count each replica's edges whose coupling its units go against. Mutates `totals` (512,) int64.

    `edges` (m, 2), `signs` (m,) all ones where the coupling is negative.  Cost: about 12 vector operations an edge for
    all replicas.
    """
    planes = zeros((32, WORDS), np.uint32)
    low, carry = zeros(4 * WORDS, np.uint32), zeros(WORDS, np.uint32)
    for first in range(0, edges.shape[0], 15):
        for e in range(first, min(first + 15, edges.shape[0])):
            _count_edge(low, up, edges[e, 0], edges[e, 1], signs[e])
        _flush(planes, low, carry)
    for w in range(WORDS):
        for r in range(32):
            total = 0
            for p in range(32):
                total += np.int64((planes[p, w] >> np.uint32(r)) & np.uint32(1)) << p
            totals[32 * w + r] = total
