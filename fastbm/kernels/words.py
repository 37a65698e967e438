"""Chains in the bits of words: to rows of states and back, and their energies.

Chain c is bit c % 32 of word c // 32 of every unit; units have 4 words or 16. The bits of 128 units and 128 chains are
turned by vector code that no loop compiles to: blocks of 16, 8, 4, 2, 1 rows exchange halves of their words (Warren,
Hacker's Delight (2013), section 7-3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .bit_vectors import copy_parts, store_byte, store_word
from .jit import apart, apart_borrowing, borrowing, cgutils, config, inlined, intrinsic, ir, types
from .vectors import add_common_edges, add_unlike_edges

QUAD = 4  # words of chains, side by side
SHORT = 32  # units, whose bits are a word
SIDE = 32 * QUAD  # units, and chains, of a square
LINE = 64  # bytes of a cache line: `QUAD` squares
_INT, _ADDRESS = ir.IntType(32), ir.IntType(64)
_LANES = range(QUAD * QUAD)
_WORDS, _QUAD = ir.VectorType(_INT, QUAD * QUAD), ir.VectorType(_INT, QUAD)
_U, _W = np.uint32, np.uint64
_NONE = np.uint32(0)
_COMPILED = not config.DISABLE_JIT


def _as_pointer(builder: Any, place: Any, kind: Any) -> Any:
    return builder.inttoptr(place, kind.as_pointer())


def _picked(builder: Any, one: Any, other: Any, lanes: Any) -> Any:
    """Return lanes of two vectors; those of the other are counted on."""
    lanes = list(lanes)
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_INT, len(lanes)), lanes))


def _exchange(builder: Any, rows: list[Any], size: int, apart: int) -> None:
    """Have rows that are `apart` in a list exchange halves of blocks of 2 `size` bits. Mutates `rows`."""
    halves = sum(((1 << size) - 1) << first for first in range(0, 32, 2 * size))
    mask, shift = (ir.Constant(_WORDS, [number] * 16) for number in (halves, size))
    for k in (k for k in range(len(rows)) if not k & apart):
        low, high = rows[k], rows[k + apart]
        changed = builder.and_(builder.xor(builder.lshr(low, shift), high), mask)
        rows[k], rows[k + apart] = builder.xor(low, builder.shl(changed, shift)), builder.xor(high, changed)


@intrinsic
def turn_bits(typing: Any, square: Any, words: Any, next_unit: Any) -> Any:
    """Write words of 32 units each, a chain's in every lane, from `QUAD` words of chains of `SIDE` units.

    Vector k has word w of chains, its bit k, and the units from 32 g on in lane 4 g + w.
    The arguments are the addresses of the square, 32 vectors, and of the words of the first unit; and the distance in
    bytes from one unit's to the next.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, words, next_unit = args

        def row(k: Any, offset: int) -> Any:
            place = builder.add(target, builder.mul(builder.add(k, ir.Constant(_ADDRESS, offset)), line))
            return _as_pointer(builder, place, _WORDS)

        def read(k: Any) -> Any:
            """Return row k as it is before it is turned."""
            units = [builder.add(k, ir.Constant(_ADDRESS, 32 * g)) for g in range(QUAD)]
            places = [builder.add(words, builder.mul(unit, next_unit)) for unit in units]
            parts = [builder.load(_as_pointer(builder, place, _QUAD), align=4) for place in places]
            halves = [_picked(builder, *parts[k : k + 2], range(2 * QUAD)) for k in (0, 2)]
            return _picked(builder, *halves, _LANES)

        line = ir.Constant(_ADDRESS, LINE)
        # few rows at a time, and those of a loop: all at once LLVM takes ten times as long for
        with cgutils.for_range(builder, ir.Constant(_ADDRESS, 8)) as loop:
            rows = [read(builder.add(loop.index, ir.Constant(_ADDRESS, 8 * k))) for k in range(4)]
            for size, apart in ((16, 2), (8, 1)):
                _exchange(builder, rows, size, apart)
            for k, found in enumerate(rows):
                builder.store(found, row(loop.index, 8 * k), align=4)
        with cgutils.for_range(builder, ir.Constant(_ADDRESS, 4)) as loop:
            first = builder.mul(loop.index, ir.Constant(_ADDRESS, 8))
            rows = [builder.load(row(first, k), align=4) for k in range(8)]
            for size in (4, 2, 1):
                _exchange(builder, rows, size, size)
            for k, found in enumerate(rows):
                builder.store(found, row(first, k), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


def _writing(*, past_caches: bool) -> Any:
    """Make a function that writes `LINE` bytes of the rows of `SIDE` chains from `QUAD` squares of `turn_bits`.

    Its arguments are the addresses of the rows and of the squares, and the distance in bytes from one row to the next.
    Where they are written past the caches, both are multiples of `LINE`.
    """

    @intrinsic
    def write_lines(typing: Any, rows: Any, next_row: Any, squares: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            rows, next_row, squares = args
            low = [QUAD * group + w + 16 * s for w in range(2) for s in range(2) for group in range(QUAD)]
            with cgutils.for_range(builder, ir.Constant(_ADDRESS, 32)) as loop:
                here = builder.add(squares, builder.mul(loop.index, ir.Constant(_ADDRESS, LINE)))
                places = [builder.add(here, ir.Constant(_ADDRESS, 32 * LINE * s)) for s in range(QUAD)]
                found = [builder.load(_as_pointer(builder, place, _WORDS), align=4) for place in places]
                for w in (0, 2):
                    one, other = (_picked(builder, *found[s : s + 2], [lane + w for lane in low]) for s in (0, 2))
                    for k in range(2):
                        half = list(range(8 * k, 8 * k + 8))
                        line = _picked(builder, one, other, half + [16 + lane for lane in half])
                        row = builder.add(loop.index, ir.Constant(_ADDRESS, 32 * (w + k)))
                        place = builder.add(rows, builder.mul(row, next_row))
                        align = LINE if past_caches else 1
                        stored = builder.store(line, _as_pointer(builder, place, _WORDS), align=align)
                        if past_caches:
                            stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT, 1)]))
            return context.get_dummy_value()

        return types.void(*[types.intp] * 3), generate

    return write_lines


write_lines, stream_lines = _writing(past_caches=False), _writing(past_caches=True)


@intrinsic
def copy_lines(typing: Any, rows: Any, next_row: Any, lines: Any, n: Any) -> Any:
    """Copy n lines, one after the other, to rows, given both addresses and the distance in bytes from row to row."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, next_row, lines, n = args
        with cgutils.for_range(builder, n) as loop:
            here = builder.add(lines, builder.mul(loop.index, ir.Constant(_ADDRESS, LINE)))
            place = builder.add(rows, builder.mul(loop.index, next_row))
            found = builder.load(_as_pointer(builder, here, _WORDS), align=4)
            builder.store(found, _as_pointer(builder, place, _WORDS), align=1)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


@intrinsic
def stream(typing: Any, to: Any, start: Any, n_bytes: Any) -> Any:
    """Copy lines past the caches, given addresses, of which the first is at a multiple of `LINE`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, start, n_bytes = args
        none, line = (ir.Constant(_ADDRESS, number) for number in (0, LINE))
        with cgutils.for_range_slice(builder, none, n_bytes, line) as (k, _):
            found = builder.load(_as_pointer(builder, builder.add(start, k), _WORDS), align=4)
            stored = builder.store(found, _as_pointer(builder, builder.add(to, k), _WORDS), align=LINE)
            stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(_INT, 1)]))
        return context.get_dummy_value()

    return types.void(*[types.intp] * 3), generate


@intrinsic
def fence(typing: Any) -> Any:
    """Have what was written past the caches written before what other threads are told."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def room_for_rows() -> tuple[np.ndarray, ...]:
    """Return the room that `write_rows` needs. It is not compiled."""
    squares, last = np.empty((QUAD, 32, 16), np.uint32), np.zeros((SIDE, QUAD), np.uint32)
    return squares, last, np.empty((SIDE, LINE // 8), np.uint64)


def states_beside(n_units: int) -> int:
    """Return how many states of a few units `write_short_rows` turns at once; 1 of more. It is not compiled."""
    if not _COMPILED or n_units > 2 * SHORT:
        return 1
    return SIDE // SHORT if n_units <= SHORT else SIDE // (2 * SHORT)


@apart_borrowing
def write_rows(up, rows, past_caches, room):
    """Write each chain's units as bits, unit 0 in the lowest one. Mutates `rows` (n_chains, ceil(n_units / bits)).

    Rows may also be of whole squares of `SIDE` units, and then end with zeros.

    `up` is (n_units, words) uint32, words a multiple of 4, `rows` of any unsigned integers, `room` is of
    `room_for_rows`. 512 units are written at once, a cache line of a row, as rows lie far from each other. Whole lines
    are written past the caches on demand, for rows that nobody reads soon: to have them read first, as for any other
    write, takes longer than all the rest.
    Cost: about 3 vector operations for 512 bits.
    """
    if not _COMPILED:
        _write_plainly(up, rows)
        return
    squares, last, lines = room
    n_units, n_chains, n_bytes, next_row = up.shape[0], rows.shape[0], rows.shape[1] * rows.itemsize, rows.strides[0]
    if n_units <= 2 * SHORT and n_bytes <= 8:
        first, n_quads = np.int64(up.ctypes.data), up.shape[1] // QUAD
        parts = first, np.int64(4 * QUAD), up.strides[0], n_units, n_quads
        write_short_rows(parts, room, np.int64(rows.ctypes.data), next_row, n_bytes, n_chains)
        return
    streams = past_caches and (rows.ctypes.data | next_row) % LINE == 0
    # the last columns first: what their lines write beyond a row is written again
    for column in range((n_bytes - 1) // LINE * LINE, -LINE, -LINE):
        first, size = 8 * column, min(LINE, n_bytes - column)
        n_over = (LINE - size + n_bytes - 1) // n_bytes if next_row == n_bytes else SIDE
        for w in range(0, up.shape[1], QUAD):
            for s in range(min(QUAD, (n_units - first + SIDE - 1) // SIDE)):
                i = first + SIDE * s
                words, next_unit = up.ctypes.data + i * up.strides[0] + 4 * w, up.strides[0]
                if i + SIDE > n_units:
                    for k in range(n_units - i):
                        for j in range(QUAD):
                            last[k, j] = up[i + k, w + j]
                    words, next_unit = last.ctypes.data, 4 * QUAD
                turn_bits(squares.ctypes.data + s * squares.strides[0], words, next_unit)
            place = rows.ctypes.data + 32 * w * next_row + column
            if size == LINE and 32 * w + SIDE <= n_chains:
                if streams:
                    stream_lines(place, next_row, squares.ctypes.data)
                else:
                    write_lines(place, next_row, squares.ctypes.data)
                continue
            write_lines(lines.ctypes.data, LINE, squares.ctypes.data)
            n_rows = min(SIDE, n_chains - 32 * w)
            n_whole = max(0, n_rows - n_over)
            copy_lines(place, next_row, lines.ctypes.data, n_whole)
            _write_parts(lines[n_whole:], place + n_whole * next_row, next_row, size, n_rows - n_whole)
    if streams:
        fence()


@apart_borrowing
def write_short_rows(states, room, place, next_row, size, n_rows):
    """Write rows of at most 64 units of some states as `write_rows` does, those of one after those of another.

    `states` is (address of the first unit's `QUAD` words, distances in bytes from one state to the next and from one
    unit to the next, units, states), `place` the address of the first row, `size` the bytes of each, at most 8.
    What a row's word writes beyond it is written again by the next rows, and by bytes of the last ones.
    """
    (first, next_state, next_unit, n_units, n_states), (squares, last, _), to_row = states, room, place
    n_whole, beside = max(0, n_rows - (7 // size if next_row == size else n_rows)), SIDE // SHORT
    if n_units > SHORT:
        beside = SIDE // (2 * SHORT)
    more, shift = (QUAD, _W(SHORT)) if n_units > SHORT else (0, _W(0))  # of the other half of a word
    for s in range(n_states):
        t, begin = s % beside, s % beside * (SIDE // beside)  # the first of its units among those that are turned
        if t == 0:
            for k in range(min(beside, n_states - s)):
                to = last.ctypes.data + 4 * QUAD * (SIDE // beside) * k
                copy_parts(to, first + (s + k) * next_state, next_unit, n_units, 1)
            turn_bits(squares.ctypes.data, last.ctypes.data, 4 * QUAD)
        lane = QUAD * (begin // SHORT)
        for w in range(QUAD):
            row = SIDE * s + SHORT * w
            low, high = squares[0, :, lane + w], squares[0, :, lane + more + w]
            for k in range(min(SHORT, n_whole - row)):
                store_word(to_row, _W(low[k]) | _W(high[k]) << shift)
                to_row += next_row
            for k in range(max(0, n_whole - row), min(SHORT, n_rows - row)):
                word = _W(low[k]) | _W(high[k]) << shift
                for byte in range(size):
                    store_byte(to_row + byte, word >> _W(8 * byte))
                to_row += next_row


@borrowing
def _write_parts(lines, place, next_row, size, n_rows):
    """Write the first `size` bytes of lines, at most `LINE`, to so many rows, given the address of the first."""
    n_whole, more = size >> 3, _W(8 * (size & 7))
    for c in range(n_rows):
        for k in range(n_whole):
            store_word(place + 8 * k, lines[c, k])
        if more and n_whole:  # the last eight bytes, of which some have been written
            store_word(place + size - 8, lines[c, n_whole - 1] >> more | lines[c, n_whole] << (_W(64) - more))
        elif more:
            for k in range(size):
                store_byte(place + k, lines[c, 0] >> _W(8 * k))
        place += next_row


def _write_plainly(up, rows):
    """Write rows as `write_rows` does, without compiler. Mutates `rows`."""
    whole = np.zeros((len(rows), rows.shape[1] * rows.itemsize), np.uint8)
    bits = (up.T[:, None] >> np.arange(32, dtype=np.uint32)[:, None] & _U(1)).reshape(-1, len(up))
    packed = np.packbits(bits[: len(rows)].astype(np.uint8), axis=1, bitorder="little")
    whole[:, : packed.shape[1]] = packed
    rows[:] = whole.view(rows.dtype.newbyteorder("<"))


@apart
def exchange_bits(one, v, other, w, mask):
    """Exchange the bits of `mask` of word `v` and word `w` of every unit. Mutates `one`, `other` (n_units, words)."""
    for i in range(one.shape[0]):
        x = _U(_U(one[i, v] ^ other[i, w]) & mask)
        one[i, v] = _U(one[i, v] ^ x)
        other[i, w] = _U(other[i, w] ^ x)


@apart
def energies_words(up, edges, weights, ends, bias, conjunction, energies):
    """Add each chain's energy (without offset) but for a constant. Mutates `energies` (128,).

    `up` is (n_units + 1, 4) uint32, its last row zeros. A chain gets weights[e] where its units of `edges` (m, 2) int32
    are both up (with `conjunction`) or unlike, and bias[k] where those of `ends` (k, 2) are unlike.
    Cost: four masked additions of 8 numbers an edge for 32 chains, in the same order on every processor.
    """
    if _COMPILED:
        where = up.ctypes.data, energies.ctypes.data
        if conjunction:
            add_common_edges(*where, edges.ctypes.data, weights.ctypes.data, edges.shape[0])
        else:
            add_unlike_edges(*where, edges.ctypes.data, weights.ctypes.data, edges.shape[0])
        add_unlike_edges(*where, ends.ctypes.data, bias.ctypes.data, ends.shape[0])
    else:
        add_plainly(up, edges, weights, conjunction, energies)
        add_plainly(up, ends, bias, False, energies)


@inlined
def add_plainly(up, edges, weights, conjunction, energies):
    """Add weights of edges as `energies_words` does. Mutates `energies`."""
    for e in range(edges.shape[0]):
        i, j = edges[e]
        for w in range(up.shape[1]):
            word = up[i, w] & up[j, w] if conjunction else up[i, w] ^ up[j, w]
            for lane in range(32):
                if (word >> _U(lane)) & _U(1):
                    energies[32 * w + lane] += weights[e]
