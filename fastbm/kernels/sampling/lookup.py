"""Chains in the bits of words on sparse graphs of any couplings: a unit's thresholds by the pattern of its neighbours.

A unit with d neighbours has 2^d fields, and so 2^d probabilities of being up. Of each the first 16 bits stand in a
table; 128 chains look theirs up at once and compare it with 16 random bits (`fastbm.kernels.patterns`). Bits that are
equal decide nothing: the probability is then computed to 64 bits, and the chain draws on, 16 bits at a time, from its
word's streams.

Chain c of a block of 128 is bit c % 32 of word c // 32; every two chains share a stream.
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row, empty, zeros
from ..bit_vectors import copy_parts
from ..functions import bits_of, exp_float64, expm1_negative
from ..jit import apart, apart_borrowing, config, inlined, kernel
from ..patterns import WORDS, make_sweep
from ..random import next_word

FEW, MANY = 4, 6  # neighbours that there is code for; units with fewer have a unit beyond the last that never pulls
LARGEST = np.nextafter(2.0**64, 0.0)  # of the floats that fit into 64 bits: certainty, but for 1e-16
REMEMBERED = 256  # units with their pulls, as couplings of one magnitude give most units those of another
COMPILED = not config.DISABLE_JIT
_U = np.uint32

_draw_few, _draw_few_own = make_sweep(FEW, own=False), make_sweep(FEW, own=True)
_draw_many, _draw_many_own = make_sweep(MANY, own=False), make_sweep(MANY, own=True)


@inlined
def _threshold(field, beta, keep, was_up):
    """Return 2^64 times the probability of being up: Gibbs where `keep` < 0, else of proposing and keeping a flip."""
    log_odds = beta * field
    small = exp_float64(-abs(log_odds))
    if keep < 0.0:
        chance = (1.0 if log_odds >= 0.0 else small) / (1.0 + small)
    elif was_up:
        chance = (1.0 - keep) - (keep * expm1_negative(-log_odds) if log_odds > 0.0 else 0.0)
    else:
        chance = keep * (1.0 if log_odds >= 0.0 else small)
    return np.uint64(min(chance * 2.0**64, LARGEST))


@kernel
def fill_thresholds(rises, fields, betas, keep, own, table):
    """Write the first 16 bits of every threshold. Mutates `table` (n_units, words, 2^bits) uint16.

    `rises` (n_units, degree) are added to `fields` (n_units,) by neighbours that are up; a table is made for every one
    of `betas` (words,). `keep` is the part of Metropolis proposals that are not dropped, -1 by Gibbs; with `own` the
    last bit of a pattern is the unit's own.
    Cost: an exponential an entry, in vectors, of units that are pulled as none of those remembered.
    """
    degree = rises.shape[1]
    own_fields, remembered = empty(1 << degree, np.float64), zeros(REMEMBERED, np.int64)
    for i in range(rises.shape[0]):
        mixed, alike = np.int64(0), True
        for j in range(degree):
            mixed = np.int64(mixed >> np.int64(1)) ^ bits_of(rises[i, j])  # all signs, and what else numbers differ in
        for shift in (32, 16, 8):
            mixed = mixed ^ np.int64(mixed >> np.int64(shift))
        place = mixed & np.int64(REMEMBERED - 1)
        like, remembered[place] = remembered[place], i
        for j in range(degree):
            alike = alike and rises[i, j] == rises[like, j]
        if alike and like < i and fields[i] == fields[like]:
            for w in range(betas.shape[0]):
                copy_row(table[i, w], table[like, w])
            continue
        own_fields[0] = fields[i]
        for j in range(degree):
            for pattern in range(1 << j):
                own_fields[(1 << j) + pattern] = own_fields[pattern] + rises[i, j]
        for w in range(betas.shape[0]):
            if w and betas[w] == betas[w - 1]:
                copy_row(table[i, w], table[i, w - 1])
                continue
            _fill(table[i, w], own_fields, betas[w], keep, np.bool_(False))
            if own:
                _fill(table[i, w, 1 << degree :], own_fields, betas[w], keep, np.bool_(True))


@inlined
def _fill(entries, fields, beta, keep, was_up):
    """Write the first 16 bits of the thresholds of fields. Mutates `entries`."""
    for pattern in range(fields.shape[0]):
        entries[pattern] = np.uint16(_threshold(fields[pattern], beta, keep, was_up) >> np.uint64(48))


@kernel
def _draw_words(stream, words):
    """Draw 16 words, two lanes each. Mutates `stream` (4, 16), `words` (16,)."""
    for j in range(16):
        words[j], stream[0, j], stream[1, j], stream[2, j], stream[3, j] = next_word(
            stream[0, j], stream[1, j], stream[2, j], stream[3, j]
        )


@apart_borrowing
def _decide(up, graph, betas, keep, streams, left, i, words):
    """Draw 16 bits more, up to 64, for chains that are undecided and stand as down. Return how many are up then.

    Mutates `up`, `streams`, `left`, `words`; counts as +1 and -1 what becomes a flip, and what ceases to be one.
    """
    neighbours, rises, fields, used = graph
    more = 0
    for w in range(WORDS):
        equal, new, old = left[w], up[i, w], left[WORDS + w]
        left[w] = _U(0)
        shift = 48
        while equal and shift:
            shift -= 16
            _draw_words(streams[w], words)
            for lane in range(32):
                bit = _U(_U(1) << _U(lane))
                if equal & bit:
                    field = fields[i]
                    for j in range(rises.shape[1]):
                        if up[neighbours[i, j], w] & bit:
                            field += rises[i, j]
                    threshold = _threshold(field, betas[w if betas.shape[0] > 1 else 0], keep, (old & bit) != 0)
                    part = _U((threshold >> np.uint64(shift)) & np.uint64(0xFFFF))
                    drawn = _U(_U(words[lane >> 1] >> _U(16 * (lane & 1))) & _U(0xFFFF))
                    if drawn < part:
                        new = _U(new | bit)
                        if used[w] & bit:
                            more += -1 if old & bit else 1
                    if drawn != part:
                        equal = _U(equal & _U(~bit))
        up[i, w] = new
    return more


@inlined
def _draw(many, own, place):
    """Draw units, by the code for their number of neighbours and for the rule."""
    if many is None:
        if own is None:
            return _draw_few(*place)
        return _draw_few_own(*place)
    if own is None:
        return _draw_many(*place)
    return _draw_many_own(*place)


@kernel
def _draw_plainly(up, graph, table, streams, left, n_flips, units, k, own):
    """Draw units as the vector code does, from place `k` on, until one is undecided; return the place after it.

    Mutates `up`, `streams`, `left`, `n_flips`.
    """
    neighbours, _, _, used = graph
    degree, words = neighbours.shape[1], empty(16, np.uint32)
    for place in range(k, units.shape[0]):
        i = units[place]
        for w in range(WORDS):
            _draw_words(streams[w], words)
            old, new, equal = up[i, w], _U(0), _U(0)
            for lane in range(32):
                bit = _U(_U(1) << _U(lane))
                pattern = (1 << degree) if own is not None and old & bit else 0
                for j in range(degree):
                    if up[neighbours[i, j], w] & bit:
                        pattern += 1 << j
                threshold = _U(table[i, w if table.shape[1] > 1 else 0, pattern])
                drawn = _U(_U(words[lane >> 1] >> _U(16 * (lane & 1))) & _U(0xFFFF))
                if drawn < threshold:
                    new = _U(new | bit)
                elif drawn == threshold:
                    equal = _U(equal | bit)
                if used[w] & bit & (old ^ new):
                    n_flips[0] += 1
            up[i, w], left[w], left[WORDS + w] = new, equal, old
        if left[0] | left[1] | left[2] | left[3]:
            return place + 1
    return units.shape[0]


def _keep_plainly(up, kept, first):
    """Write words beside those of other samples, without compiler. Mutates `kept`."""
    kept[:, first:] = up[:, : kept.shape[1] - first]


@apart
def sweep_lookup(up, graph, table, chains, visits, ways, kept):
    """Update units in all chains, row after row of sites, and keep states.

    Mutates `up` (n_units + 1, `WORDS`) uint32, whose last row is zeros, and the streams, and `kept` (n, n_units + 1,
    `WORDS`); returns the number of flips.
    `graph` is (neighbours (n_units, degree) int32, rises, fields, used), `used` (`WORDS`,) ones for chains whose flips
    count; `table` (n_units, words, entries) is as `fastbm.kernels.patterns` looks it up, of one word or of all;
    `chains` is (betas, keep, streams (`WORDS`, 4, 16) uint32). `visits` is (sites (rows, n), sweeps, thin, side): the
    states after every `thin` sweeps are kept, none where it is 0, `side` states in the words of one, of which the first
    `WORDS` / `side` are in use. `ways` is (many, own), `many` None for units of `FEW` neighbours, `own` None by Gibbs.
    Cost: about 20 vector operations for 32 chains.
    """
    betas, keep, streams = chains
    neighbours, used = graph[0], graph[3]
    sites, n_sweeps, thin, side = visits
    left, n_flips, words = zeros(2 * WORDS, np.uint32), zeros(1, np.int64), empty(16, np.uint32)
    powers = empty((7, 32), np.uint16)
    for j in range(7):
        for lane in range(32):
            powers[j, lane] = 1 << j
    next_word_ = table.strides[1] if table.shape[1] > 1 else 0
    where = (
        table.strides[0], next_word_, up.ctypes.data, neighbours.ctypes.data, table.ctypes.data, streams.ctypes.data,
        left.ctypes.data, powers.ctypes.data, used.ctypes.data, n_flips.ctypes.data,
    )  # fmt: skip
    for t in range(n_sweeps):
        units = sites[t % sites.shape[0]]
        k = 0
        while k < units.shape[0]:
            if COMPILED:
                k = _draw(*ways, (units.ctypes.data, k, units.shape[0], *where))
            else:
                k = _draw_plainly(up, graph, table, streams, left, n_flips, units, k, ways[1])
            if left[0] | left[1] | left[2] | left[3]:
                n_flips[0] += _decide(up, graph, betas, keep, streams, left, units[k - 1], words)
        if thin and (t + 1) % thin == 0:
            sample, part = t // thin, WORDS // side
            v, first = sample // side, sample % side * part
            if COMPILED:
                to = kept.ctypes.data + v * kept.strides[0] + 4 * first
                copy_parts(to, up.ctypes.data, up.strides[0], up.shape[0], side)
            else:
                _keep_plainly(up, kept[v], first)
    return n_flips[0]


@apart
def sweep_blocks(ups, model, chains, rows, n_sweeps, ways, first, last):
    """Sweep blocks from `first` to before `last`, one after the other; return the number of flips.

    Mutates `ups` (n_blocks, n_units + 1, `WORDS`) and the streams. `model` is (neighbours, rises, fields, used
    (n_blocks, `WORDS`), tables, which of these (n_blocks,)), `chains` (betas (n_blocks, words), keep, streams
    (n_blocks, `WORDS`, 4, 16)), of which `sweep_lookup` takes those of a block, as it takes `ways`.
    Cost: that of `sweep_lookup`.
    """
    neighbours, rises, fields, used, tables, which = model
    betas, keep, streams = chains
    n_flips, visits = 0, (rows, n_sweeps, np.int64(0), np.int64(1))
    for k in range(first, last):
        graph, own = (neighbours, rises, fields, used[k]), (betas[k], keep, streams[k])
        n_flips += sweep_lookup(ups[k], graph, tables[which[k]], own, visits, ways, ups)
    return n_flips
