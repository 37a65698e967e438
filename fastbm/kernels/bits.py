"""Bits of units: packed into bytes and words, multiplied with weights, counted.

Bits are packed for the file (eight units a byte) and for counting (64 chains a word). Counts of units, pairs and
triples of units that are up together, and of single units or pairs in every chain, are exact integers.

Products of a matrix of zeros and ones with weights take four rows of the weights at a time. A unit is on or off, so
that four of them pick one of sixteen sums of rows: the method of four Russians (Arlazarov, Dinic, Kronrod and
Faradzhev, Sov. Math. Dokl. 11, 1209 (1970)), here with the sums of four rows in one register where the processor can
look them up there (`add_with_tables`, `add_with_rows`), else with a product a row (`add_plainly`). All three add in one
order, ((w0 + w1) + w2) + w3 and then group by group, so that bits depend on neither the way nor the processor, and a
lane on nothing but itself.
"""

from __future__ import annotations

import numpy as np

from .arrays import empty, matrix_at
from .functions import count_bits
from .jit import apart_borrowing, borrowing, kernel
from .vectors import (
    COLUMNS,
    DOUBLES,
    ROWS,
    TILED,
    add_plain_float32,
    add_plain_float64,
    add_tabled,
    add_tabled_half,
    add_tabled_wide,
    fill_tables_of_columns,
)

WIDE, HALF, NARROW = 64, 32, 16  # lanes of a tile; those of two threads are half of what one has


@kernel
def pack_units(up, packed):
    """Pack each lane's units into bytes, unit 0 in the lowest bit.

    Mutates `packed` (n_chains, ceil(n_units / 8)) uint8.
    `up` (n_units, lanes) holds 0 or 1; lanes beyond n_chains are left out.  Cost: one pass over `up`.
    """
    n_chains = packed.shape[0]
    row = empty(n_chains, np.uint8)
    for byte in range(packed.shape[1]):
        row[:] = 0
        for k in range(min(8, up.shape[0] - 8 * byte)):
            bits = up[8 * byte + k]
            for c in range(n_chains):
                row[c] |= np.uint8(np.uint8(bits[c]) << k)
        for c in range(n_chains):
            packed[c, byte] = row[c]


@borrowing
def pack_lane(up, lane, packed):
    """Pack the units of one lane into bytes as `pack_units` does. Mutates `packed` (ceil(n_units / 8),)."""
    for byte in range(packed.shape[0]):
        bits = np.uint8(0)
        for k in range(min(8, up.shape[0] - 8 * byte)):
            bits |= np.uint8(up[8 * byte + k, lane] << k)
        packed[byte] = bits


MASKS = np.array([0xAAAA, 0xCCCC, 0xF0F0, 0xFF00], np.uint16)  # entries of a table that have row 0, 1, 2, 3


@apart_borrowing
def pack_lanes(words, up):
    """Pack 32 units of each lane into a word, the first in the lowest bit.

    Mutates `words` (ceil(n / 32), lanes) uint32.
    Cost: one pass over `up` (n, lanes) of 0 and 1.
    """
    words[:] = 0
    for i in range(up.shape[0]):
        row, bits, place = words[i // ROWS], up[i], np.uint32(i % ROWS)
        for lane in range(up.shape[1]):
            row[lane] |= np.uint32(np.uint32(np.int32(bits[lane])) << place)


@borrowing
def fill_tables(tables, weights, masks):
    """Write the sixteen sums of every four rows. Mutates `tables` (m // 4, n / 32 * 8, 4, 16) float32.

    Entry k of table (b, g, j) is the sum of those rows 4 g + i of column 4 b + j of `weights` (n, m) float32 for which
    bit i of k is set; n is a multiple of 32. `masks` is `MASKS`, as an argument.  Cost: 16 stores for four weights.
    """
    next_row, next_column = weights.strides
    for b in range(tables.shape[0]):
        column = weights.ctypes.data + COLUMNS * b * next_column
        fill_tables_of_columns(
            tables.ctypes.data + b * tables.strides[0], column, next_row, next_column, len(weights) // ROWS,
            masks.ctypes.data,
        )  # fmt: skip


@apart_borrowing
def add_tabled_rows(fields, row, tables, words):
    """Add to four rows of fields, float32 or int32, what tables of their columns at an address and `words` say.

    Mutates `fields` (m, lanes), lanes a multiple of 16.  Cost: a look-up and an addition for four rows, a column and 16
    lanes.
    """
    here, next_field, next_word = fields.ctypes.data + row * fields.strides[0], fields.strides[0], words.strides[0]
    wide, halves = fields.shape[1] // WIDE * WIDE, fields.shape[1] // HALF * HALF
    bits, n_words = words.ctypes.data, len(words)
    for lane in range(0, wide, WIDE):
        add_tabled_wide(fields, here + 4 * lane, next_field, tables, bits + 4 * lane, next_word, n_words)
    for lane in range(wide, halves, HALF):
        add_tabled_half(fields, here + 4 * lane, next_field, tables, bits + 4 * lane, next_word, n_words)
    for lane in range(halves, fields.shape[1], NARROW):
        add_tabled(fields, here + 4 * lane, next_field, tables, bits + 4 * lane, next_word, n_words)


@borrowing
def add_with_tables(fields, tables, words):
    """Add the product to the first 4 len(tables) rows of `fields` (m, lanes) float32, lanes a multiple of 16.

    Mutates `fields`.
    Cost: that of `add_tabled_rows`.
    """
    for b in range(tables.shape[0]):
        add_tabled_rows(fields, COLUMNS * b, np.int64(tables.ctypes.data) + b * tables.strides[0], words)


def room_of_rows(n_words: int) -> tuple[int, ...]:
    """Return the shape of the room, float32, that `add_with_rows` needs for at most so many words."""
    return n_words * ROWS // 4, COLUMNS, 16


@apart_borrowing
def add_with_rows(fields, columns, words, masks, tables):
    """Add the product of weights with words of units to the first m // 4 4 rows of `fields`.

    `columns` (m, n) are those of the weights, n = 32 len(words); `fields` (m, lanes) float32, lanes a multiple of 16.
    Mutates `fields`.

    The tables are made four columns at a time and used while they are in the cache. `masks` is `MASKS`, as an
    argument, and `tables` room, see `room_of_rows`.  Cost: that of `add_with_tables`, and as much as 40 lanes of it.
    """
    next_column, next_row = columns.strides
    for j in range(0, columns.shape[0] // COLUMNS * COLUMNS, COLUMNS):
        column = columns.ctypes.data + j * next_column
        fill_tables_of_columns(tables.ctypes.data, column, next_row, next_column, len(words), masks.ctypes.data)
        add_tabled_rows(fields, j, np.int64(tables.ctypes.data), words)


@apart_borrowing
def add_plainly(fields, columns, up):
    """Add the product of weights with bits `up` (n, lanes) of 0 and 1 to `fields` (m, lanes).

    Mutates `fields`.

    `columns` (m, n) are those of the weights. All three are of one type, float32 or float64.
    Cost: eight operations for four rows and a column, vectorised over lanes.
    """
    n, lanes = up.shape
    m = fields.shape[0]
    groups, whole = n // 4, m // COLUMNS * COLUMNS
    tiled = lanes // NARROW * NARROW if TILED else 0
    next_column = columns.strides[0]
    for j in range(0, whole, COLUMNS):
        for lane in range(0, tiled, NARROW if fields.itemsize == 4 else DOUBLES):
            here = fields.ctypes.data + j * fields.strides[0] + lane * fields.itemsize
            column, bits = columns.ctypes.data + j * next_column, up.ctypes.data + lane * up.itemsize
            if fields.itemsize == 4:
                add_plain_float32(here, fields.strides[0], column, next_column, bits, up.strides[0], groups)
            else:
                add_plain_float64(here, fields.strides[0], column, next_column, bits, up.strides[0], groups)
    _add_columns(fields, columns, up, 0, whole, tiled)


@apart_borrowing
def _add_columns(fields, columns, up, first, end, n_done):
    """Do what `add_plainly` does without tiles; whole fours of rows are done in `n_done` lanes of columns before `end`.

    Mutates `fields`.
    """
    n, lanes = up.shape
    groups = n // 4
    for j in range(first, fields.shape[0]):
        field, column = fields[j], columns[j]
        start = n_done if j < end else 0
        for i in range(0, 4 * groups if start < lanes else 0, 4):
            a, b, c, d = column[i], column[i + 1], column[i + 2], column[i + 3]
            for lane in range(start, lanes):
                field[lane] += ((a * up[i, lane] + b * up[i + 1, lane]) + c * up[i + 2, lane]) + d * up[i + 3, lane]
        if 4 * groups < n:
            for lane in range(lanes):
                total = column[4 * groups] * up[4 * groups, lane]
                for i in range(4 * groups + 1, n):
                    total += column[i] * up[i, lane]
                field[lane] += total


@apart_borrowing
def add_packed(fields, product, up, words, room):
    """Add the product of weights with bits to `fields` (m, lanes), by one of the three ways.

    Mutates `fields`, and `room`, as `room_of_rows` says, which is None where the processor looks up no sums, for
    float64, and for lanes that are no multiple of 16. Elsewhere `words` (ceil(n / 32), lanes) are the bits that `up`
    (n, lanes) has as 0 and 1.
    `product` holds the columns of the weights (m, n), so that what is multiplied one after the other lies side by side;
    tables as `fill_tables` makes them or none of these; what is beyond the last 32 rows, with zeros after it, (m, 32);
    and `MASKS`.
    """
    columns, tables, tail, masks = product
    m, n = columns.shape
    if room is None:
        add_plainly(fields, columns, up)
    else:
        _add_looked_up(fields, columns, tables, tail, masks, words, room, n // ROWS)
        _add_columns(fields, columns, up, m // COLUMNS * COLUMNS, 0, 0)


@borrowing
def product_at(products, k, like):
    """Return a product as `add_packed` takes it, of weights of the same type as `like`.

    `products` are rows of numbers, each the address of the columns and their shape, that of their tables and for how
    many fours of columns there are any, and that of what is beyond the last 32 rows; and `MASKS`.
    """
    rows, masks = products
    place, m, n, tables, n_fours, tail = rows[k]
    size = (n + ROWS - 1) // ROWS * ROWS // 4 * COLUMNS * 16
    return (
        matrix_at(like, place, m, n), matrix_at(like, tables, n_fours, size), matrix_at(like, tail, m, ROWS), masks,
    )  # fmt: skip


@apart_borrowing
def add_product(fields, product, up, words, room):
    """Do what `add_packed` does for `up`. Mutates `words` too: at least n / 32 rows, or None where `room` is."""
    if words is None:
        add_packed(fields, product, up, None, None)
    else:
        some = words[: -(-up.shape[0] // ROWS)]
        pack_lanes(some, up)
        add_packed(fields, product, up, some, room)


@apart_borrowing
def _add_looked_up(fields, columns, tables, tail, masks, words, room, n_whole):
    """Do what `add_packed` does for columns in fours, by tables that are there or made on the way."""
    if columns.shape[0] < COLUMNS:
        return
    if tables.shape[0]:
        add_with_tables(fields, tables, words)
        return
    if n_whole:
        add_with_rows(fields, columns, words[:n_whole], masks, room)
    if n_whole < words.shape[0]:
        add_with_rows(fields, tail, words[n_whole:], masks, room)


@apart_borrowing
def _turn_square(square):
    """Turn 64 rows of 64 bits, (64,) uint64, which it mutates: halves of blocks of 64, 32, ... 2 bits are exchanged.

    Warren, Hacker's Delight (2013), section 7-3.
    """
    half, low = 32, np.uint64(0xFFFFFFFF)
    while half:
        begin = 0
        while begin < 64:  # of a range with a step that varies LLVM knows less
            for k in range(begin, begin + half):
                changed = ((square[k] >> np.uint64(half)) ^ square[k + half]) & low
                square[k] ^= changed << np.uint64(half)
                square[k + half] ^= changed
            begin += 2 * half
        half >>= 1
        low ^= low << np.uint64(half)


@apart_borrowing
def _word_of_bytes(row, first):
    """Return up to eight bytes of a row from `first` on as a word."""
    word = np.uint64(0)
    for k in range(min(8, row.shape[0] - first)):
        word |= np.uint64(row[first + k]) << np.uint64(8 * k)
    return word


@borrowing
def turn_rows(rows, words, square):
    """Turn packed rows (m, ceil(n_units / 8)) uint8 into a row of bits for each unit, with zeros beyond m.

    Mutates `words` (n_units, ceil(m / 64)) uint64; `square` (64,) uint64 is room.
    Cost: six passes over the words, vectorised but for the narrowest.
    """
    for b in range(words.shape[1]):
        n_rows = min(64, rows.shape[0] - 64 * b)
        for group in range((rows.shape[1] + 7) // 8):
            for k in range(n_rows):
                square[k] = _word_of_bytes(rows[64 * b + k], 8 * group)
            for k in range(n_rows, 64):
                square[k] = np.uint64(0)
            _turn_square(square)
            for k in range(min(64, words.shape[0] - 64 * group)):
                words[64 * group + k, b] = square[k]


@apart_borrowing
def _next_run(places, first, start, n):
    """Return the end of the run of one place from sample `start` on, of `n` that begin with `first`, and its bits."""
    end = start + 1
    while end < n and places[first + end] == places[first + start]:
        end += 1
    return end, ~np.uint64(0) >> np.uint64(64 - end + start) << np.uint64(start)


@borrowing
def count_chains(packed, chains, parts, halves, shifts, words, ups, unlike):
    """Add how often units of some chains, from the first to before the last, are up, and how often pairs differ.

    Mutates `ups` (n_parts, n_chains, n_units) and `unlike` (n_halves, n_chains, n_shifts * n_units), both int32; pair
    (s, i) is unit i and the one that is shifts[s] before it, all round. `packed` (n_samples, n_chains, n_bytes) uint8;
    `parts` and `halves` (n_samples,) tell where a sample counts; `words` (64 ceil(n_bytes / 8),) uint64 is room.
    Cost: six passes over the bits of 64 samples, and a population count for each part, or half, and unit, or pair.
    """
    n_units = ups.shape[2]
    for c in range(chains[0], chains[1]):
        for first in range(0, packed.shape[0], 64):
            n_samples = min(64, packed.shape[0] - first)
            for group in range((packed.shape[2] + 7) // 8):
                square = words[64 * group : 64 * group + 64]
                for t in range(n_samples):
                    square[t] = _word_of_bytes(packed[first + t, c], 8 * group)
                for t in range(n_samples, 64):
                    square[t] = np.uint64(0)
                _turn_square(square)
            end = np.int64(0)  # a literal would compile what it is given to once more
            while end < n_samples:
                sums = ups[parts[first + end], c]
                end, run = _next_run(parts, first, end, n_samples)
                for u in range(n_units):
                    sums[u] += count_bits(words[u] & run)
            end = 0 if shifts.shape[0] else n_samples
            while end < n_samples:
                sums = unlike[halves[first + end], c]
                end, run = _next_run(halves, first, end, n_samples)
                for s in range(shifts.shape[0]):
                    shift, pair = shifts[s], n_units * s
                    for u in range(shift):
                        sums[pair + u] += count_bits((words[u] ^ words[u + n_units - shift]) & run)
                    for u in range(shift, n_units):
                        sums[pair + u] += count_bits((words[u] ^ words[u - shift]) & run)


@borrowing
def count_pairs(words, counts):
    """Add, for i <= j, the number of set bits that rows i and j share. Mutates `counts` (n_units, n_units) int64.

    `words` (n_units, n_words) uint64, one bit a chain.
    Invariant: the lower triangle of `counts` is not touched; the diagonal counts the units themselves.
    Cost: n_units^2 n_words / 2 population counts.
    """
    for i in range(words.shape[0]):
        for j in range(i, words.shape[0]):
            total = np.int64(0)
            for k in range(words.shape[1]):
                total += count_bits(words[i, k] & words[j, k])
            counts[i, j] += total


@kernel
def count_triples(words, triples, counts):
    """Add the number of set bits that the rows of each triple share. Mutates `counts` (n_triples,) int64.

    `words` (n_units, n_words) uint64, one bit a state; `triples` (n_triples, 3) int64, any units in any order.
    Invariant: what is added for a triple does not depend on the others; triples with the same first two units in a row
    share the intersection of these.
    Cost: n_triples n_words population counts.
    """
    n_words = words.shape[1]
    both = empty(n_words, np.uint64)
    first, second = np.int64(-1), np.int64(-1)
    for t in range(triples.shape[0]):
        i, j, k = triples[t, 0], triples[t, 1], triples[t, 2]
        if i != first or j != second:
            first, second = i, j
            for w in range(n_words):
                both[w] = words[i, w] & words[j, w]
        total = np.int64(0)
        third = words[k]
        for w in range(n_words):
            total += count_bits(both[w] & third[w])
        counts[t] += total
