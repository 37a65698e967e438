"""Pieces of contrastive divergence on restricted machines, chains in lanes and bits in words of 32 units.

For the noise of the chains s_i s_j of some pairs is summed over the chains of even and of odd number apart.
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row
from ..bits import add_plainly, add_with_rows, room_of_rows
from ..functions import count_bits, exp_float32
from ..jit import apart_borrowing, borrowing
from ..picked import PICKED, PICKED_WIDE, add_picked, add_picked_wide, list_places, turn_square
from ..random import draw_bits, logit_of_bits
from ..vectors import TILED, has_look_up, transpose_square

WORD, VECTOR = 32, 16  # units a word; lanes a word of turned bits, which are a thread's at the least
LOOK_UP = has_look_up()
_ONE = np.float32(1.0)


@apart_borrowing
def draw_words(words, fields, streams, n, bits):
    """Draw the first `n` units of a layer from their log-odds `fields` (at least n, lanes) float32.

    Mutates `words` (ceil(n / 32), lanes) uint32, `streams` (4, lanes), and the room `bits` (lanes,) uint32.
    Invariant: bits beyond the first `n` are 0.  Cost: one draw a unit, vectorised over lanes.
    """
    words[:] = 0
    for i in range(n):
        draw_bits(streams, bits)
        field, row, place = fields[i], words[i // WORD], np.uint32(i % WORD)
        for lane in range(fields.shape[1]):
            up = np.uint32(field[lane] > logit_of_bits(bits[lane]))
            row[lane] |= np.uint32(up << place)


@borrowing
def unpack_words(bits, words):
    """Write 1 where a bit is set and 0 elsewhere.

    Mutates `bits` (32 n_words, lanes) float32; `words` is (n_words, lanes).
    Cost: one pass over `bits`.
    """
    for i in range(bits.shape[0]):
        row, place, target = words[i // WORD], np.uint32(i % WORD), bits[i]
        for lane in range(bits.shape[1]):
            target[lane] = np.float32(np.int32(np.uint32(row[lane] >> place) & np.uint32(1)))


@borrowing
def add_hidden_plainly(fields, columns, words, masks, bits):
    """Do what `add_with_rows` does, with the same bits, by products; `bits` (n, lanes) float32 is room."""
    unpack_words(bits, words)
    add_plainly(fields, columns, bits)


# adds those of columns (m, n), m in fours, whose bits are set in `words` (n / 32, lanes), to `fields` (m, lanes)
add_hidden = add_with_rows if LOOK_UP else add_hidden_plainly


def room_of_hidden(n_words: int, width: int) -> tuple[int, ...]:
    """Return the shape of the room, float32, that `add_hidden` needs for words (n_words, width)."""
    return room_of_rows(n_words) if LOOK_UP else (WORD * n_words, width)


if TILED:

    @borrowing
    def list_bits(places, n, word, first):
        """Write where the bits of a word of 16 are set, counted from `first`; return how many are listed with them.

        Mutates `places`, int32, from place n on, up to 16 places beyond the last.
        """
        return n + list_places(places.ctypes.data + 4 * n, word, first)

else:

    @borrowing
    def list_bits(places, n, word, first):
        """Do the same bit by bit."""
        for k in range(VECTOR):
            places[n] = first + k
            n += word >> k & 1
        return n


@borrowing
def add_listed(total, rows, places, n):
    """Add the first n of the rows that `places` tells, one by one. Mutates `total` (m,) float32; `rows` is (n, m).

    Invariant: m is a multiple of `PICKED`.  Cost: a vector addition for every row and 16 columns.
    """
    if TILED:
        wide = total.size // PICKED_WIDE * PICKED_WIDE if LOOK_UP else 0
        to, start, step, at = total.ctypes.data, rows.ctypes.data, rows.strides[0], places.ctypes.data
        for h in range(0, wide, PICKED_WIDE):
            add_picked_wide(to + 4 * h, start + 4 * h, step, at, n)
        for h in range(wide, total.size, PICKED):
            add_picked(to + 4 * h, start + 4 * h, step, at, n)
    else:
        for k in range(n):
            for h in range(total.size):
                total[h] += rows[places[k], h]


@apart_borrowing
def add_visible(fields, bias, weights, words, places):
    """Compute hidden fields (lanes, m) from visible bits (lanes, n_words). Mutates `fields`; `bias` is (m,) float32.

    `places` (32 n_words + 16,) int32 is room.
    """
    for lane in range(words.shape[0]):
        n = np.int64(0)  # a literal would compile what it is given to once more
        for w in range(words.shape[1]):
            word = np.int64(words[lane, w])
            n = list_bits(places, n, word & 0xFFFF, WORD * w)
            n = list_bits(places, n, word >> VECTOR, WORD * w + VECTOR)
        total = fields[lane]
        copy_row(total, bias)
        add_listed(total, weights, places, n)


@apart_borrowing
def write_means(means, fields, n_hidden, part):
    """Write part * sigmoid(fields) for the first `n_hidden` columns. Mutates `means` (lanes, m)."""
    for lane in range(means.shape[0]):
        for h in range(n_hidden):
            size = exp_float32(-abs(fields[lane, h]))
            up = _ONE if fields[lane, h] > 0 else size
            means[lane, h] = np.float32(part * np.float32(up / np.float32(_ONE + size)))


@apart_borrowing
def turn_words(turned, words):
    """Turn words (lanes, n_words) of 32 units into words of 16 lanes. Mutates `turned` (ceil(lanes / 16), 32 n_words).

    Cost: one operation for a unit and 16 lanes.
    """
    n_lanes = words.shape[0]
    for first in range(0, n_lanes, VECTOR):
        row = turned[first // VECTOR]
        if TILED:
            to, at, step = row.ctypes.data, words.ctypes.data + first * words.strides[0], words.strides[0]
            for w in range(words.shape[1]):
                turn_square(to + 2 * WORD * w, at + 4 * w, step, min(VECTOR, n_lanes - first))
        else:
            row[:] = 0
            for lane in range(first, min(first + VECTOR, n_lanes)):
                for i in range(row.size):
                    bit = np.uint32(words[lane, i // WORD] >> np.uint32(i % WORD)) & np.uint32(1)
                    row[i] |= np.uint16(bit << np.uint32(lane - first))


@apart_borrowing
def transpose(target, source):
    """Write the transpose of `source` (rows, at least columns) to `target` (columns, rows).

    Mutates `target`. Invariant: rows and columns are multiples of 16.
    """
    if TILED:
        next_target, next_source = target.strides[0], source.strides[0]
        for column in range(0, target.shape[0], VECTOR):
            for row in range(0, target.shape[1], VECTOR):
                to = target.ctypes.data + column * next_target + 4 * row
                at = source.ctypes.data + row * next_source + 4 * column
                transpose_square(source, to, next_target, at, next_source)
    else:
        for column in range(target.shape[0]):
            for row in range(target.shape[1]):
                target[column, row] = source[row, column]


@apart_borrowing
def transpose_words(target, source):
    """Write the transpose of words (n_words, width), as many lanes of it as `target` (lanes, n_words) has."""
    for w in range(source.shape[0]):
        for lane in range(target.shape[0]):
            target[lane, w] = source[w, lane]


EVEN = np.uint64(0x5555555555555555)
ODD = np.uint64(0xAAAAAAAAAAAAAAAA)


@borrowing
def count_halves(counts, words, pairs, differ):
    """Count the chains whose two units are both up, or with `differ` unlike.

    Mutates `counts` (2, n_pairs) int64: row 0 chains of even number, row 1 odd ones.
    `words` (n_units, n_words) uint64 hold 64 chains each, chain 0 in the lowest bit, and zeros beyond the last;
    `pairs` is (2, n_pairs) int64.
    Cost: 2 n_pairs n_words population counts.
    """
    for p in range(pairs.shape[1]):
        first, second = words[pairs[0, p]], words[pairs[1, p]]
        for w in range(words.shape[1]):
            word = first[w] ^ second[w] if differ else first[w] & second[w]
            counts[0, p] += count_bits(word & EVEN)
            counts[1, p] += count_bits(word & ODD)


@borrowing
def add_halves(sums, values, pairs):
    """Add products of values (n_chains, n_units) float32.

    Mutates `sums` (2, n_pairs) float64: row 0 chains of even number, row 1 odd ones.
    `pairs` is (2, n_pairs) int64.
    Cost: n_chains n_pairs products.
    """
    for c in range(values.shape[0]):
        row, half = values[c], sums[c % 2]
        for p in range(pairs.shape[1]):
            half[p] += np.float64(row[pairs[0, p]]) * np.float64(row[pairs[1, p]])
