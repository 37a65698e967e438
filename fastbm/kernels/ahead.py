"""Words of one random stream, made in lanes: each lane runs a part of the stream, and starts where the one before ends.

A step of xoshiro128++ is linear over GF(2), so that the state after a leap of many steps is the sum of what each of its
128 bits becomes. One table says it for all lanes; words are those that `next_word` gives one after the other.

Haramoto, Matsumoto, Nishimura, Panneton and L'Ecuyer, INFORMS J. Comput. 20, 385 (2008), doi:10.1287/ijoc.1070.0251.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .arrays import empty, zeros
from .jit import borrowing, cgutils, config, intrinsic, ir, kernel, types
from .random import next_word

LANES, LEAP = 16, 64  # parts of a block, and words of each
BLOCK = LANES * LEAP
MARKS = (LEAP // LANES + 1, 4, LANES)  # the shape of states at every 16th step
FEWEST = 512  # words, from which a block, which is always made as a whole, costs less than one after the other
COMPILED = not config.DISABLE_JIT
_INT, _ADDRESS = ir.IntType(32), ir.IntType(64)
_WORDS = ir.VectorType(_INT, LANES)


@kernel
def fill_leaps(leaps):
    """Write what each bit of a state is after so many leaps as the lane has. Mutates `leaps` (128, 4, 16) uint32."""
    state = zeros((4, 128), np.uint32)
    for bit in range(128):
        state[bit >> 5, bit] = np.uint32(1) << np.uint32(bit & 31)
    a, b, c, d = state[0], state[1], state[2], state[3]
    for lane in range(LANES):
        for bit in range(128):
            for word in range(4):
                leaps[bit, word, lane] = state[word, bit]
        for _ in range(LEAP):
            for bit in range(128):
                _, a[bit], b[bit], c[bit], d[bit] = next_word(a[bit], b[bit], c[bit], d[bit])


@cache
def leaps() -> np.ndarray:
    """Return the table that `draw_words` takes, (128, 4, 16) uint32."""
    table = np.empty((128, 4, LANES), np.uint32)
    fill_leaps(table)
    table.setflags(write=False)
    return table


def _data(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the address of an array's first entry."""
    return builder.ptrtoint(context.make_array(kind)(context, builder, value).data, _ADDRESS)


@intrinsic
def _run(typing: Any, state: Any, table: Any, words: Any, marks: Any) -> Any:
    """Write a block of words of the stream with `state` (4,), and all lanes' states at every 16th step.

    Mutates `words` (`BLOCK`,), `marks` (`MARKS`).
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses = [_data(context, builder, kind, value) for kind, value in zip(signature.args, args, strict=True)]
        _Block(builder, *addresses).generate()
        return context.get_dummy_value()

    return types.void(state, table, words, marks), generate


class _Block:
    """The code of a block."""

    def __init__(self, builder: Any, state: Any, table: Any, words: Any, marks: Any) -> None:
        self._b, self._state, self._table, self._words, self._marks = builder, state, table, words, marks

    def generate(self) -> None:
        b = self._b
        self._lanes = [cgutils.alloca_once_value(b, ir.Constant(_WORDS, [0] * LANES)) for _ in range(4)]
        with cgutils.for_range(b, ir.Constant(_ADDRESS, 128)) as loop:
            self._leap(loop.index)
        self._mark(ir.Constant(_ADDRESS, 0))
        with cgutils.for_range(b, ir.Constant(_ADDRESS, LEAP // LANES)) as loop:
            for lane, part in enumerate(_transposed(b, [self._step() for _ in range(LANES)])):
                place = b.add(b.mul(loop.index, ir.Constant(_ADDRESS, 4 * LANES)), self._words)
                b.store(part, self._at(place, _WORDS, 4 * LEAP * lane), align=4)
            self._mark(b.add(loop.index, ir.Constant(_ADDRESS, 1)))

    def _leap(self, bit: Any) -> None:
        """Add what a bit of the state becomes in every lane, if it is set."""
        b = self._b
        word = b.add(self._state, b.mul(b.lshr(bit, ir.Constant(_ADDRESS, 5)), ir.Constant(_ADDRESS, 4)))
        place = b.trunc(b.and_(bit, ir.Constant(_ADDRESS, 31)), _INT)
        one = b.and_(b.lshr(b.load(self._at(word, _INT), align=4), place), ir.Constant(_INT, 1))
        nothing = ir.Constant(_WORDS, ir.Undefined)
        first = b.insert_element(nothing, b.neg(one), ir.Constant(_INT, 0))
        mask = b.shuffle_vector(first, nothing, _indices([0] * LANES))
        row = b.add(self._table, b.mul(bit, ir.Constant(_ADDRESS, 16 * LANES)))
        for j, lanes in enumerate(self._lanes):
            part = b.and_(b.load(self._at(row, _WORDS, 4 * LANES * j), align=4), mask)
            b.store(b.xor(b.load(lanes), part), lanes)

    def _step(self) -> Any:
        """Return the next word of every lane."""
        b = self._b
        s0, s1, s2, s3 = (b.load(lanes) for lanes in self._lanes)
        words = b.add(self._rotated(b.add(s0, s3), 7), s0)
        shifted = b.shl(s1, ir.Constant(_WORDS, [9] * LANES))
        s2, s3 = b.xor(s2, s0), b.xor(s3, s1)
        s1, s0 = b.xor(s1, s2), b.xor(s0, s3)
        for value, lanes in zip((s0, s1, b.xor(s2, shifted), self._rotated(s3, 11)), self._lanes, strict=True):
            b.store(value, lanes)
        return words

    def _rotated(self, words: Any, by: int) -> Any:
        b, (left, right) = self._b, (ir.Constant(_WORDS, [k] * LANES) for k in (by, 32 - by))
        return b.or_(b.shl(words, left), b.lshr(words, right))

    def _mark(self, k: Any) -> None:
        place = self._b.add(self._marks, self._b.mul(k, ir.Constant(_ADDRESS, 16 * LANES)))
        for j, lanes in enumerate(self._lanes):
            self._b.store(self._b.load(lanes), self._at(place, _WORDS, 4 * LANES * j), align=4)

    def _at(self, start: Any, kind: Any, offset: int = 0) -> Any:
        return self._b.inttoptr(self._b.add(start, ir.Constant(_ADDRESS, offset)), kind.as_pointer())


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of a square of vectors: blocks of 8, 4, 2, 1 rows and columns change places."""
    for far in (8, 4, 2, 1):
        for i in range(LANES):
            if not i & far:
                low, high = rows[i], rows[i + far]
                here = [lane if not lane & far else LANES + lane - far for lane in range(LANES)]
                there = [lane + far if not lane & far else LANES + lane for lane in range(LANES)]
                rows[i] = builder.shuffle_vector(low, high, _indices(here))
                rows[i + far] = builder.shuffle_vector(low, high, _indices(there))
    return rows


def _indices(values: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(values)), values)


@borrowing
def draw_one_by_one(state, words):
    """Write the next words of a stream. Mutates `state` (4,) and `words`."""
    a, b, c, d = state[0], state[1], state[2], state[3]
    for p in range(words.shape[0]):
        words[p], a, b, c, d = next_word(a, b, c, d)
    state[0], state[1], state[2], state[3] = a, b, c, d


@borrowing
def draw_block(state, table, words, marks):
    """Write the next `BLOCK` words of a stream. Mutates `state`, `words`, and `marks`, of the shape `MARKS`.

    On exit marks[0, :, 0] is the state before them. `table` is `leaps()`.
    """
    if not COMPILED:
        for j in range(4):
            marks[0, j, 0] = state[j]
        draw_one_by_one(state, words)
        return
    _run(state, table, words, marks)
    for j in range(4):
        state[j] = marks[LEAP // LANES, j, LANES - 1]


@kernel
def draw_words(state, table, words):
    """Write the next words of a stream. Mutates `state` (4,) uint32, never all zero, and `words` (n,) uint32.

    `table` is `leaps()`; `words` is contiguous.
    Cost: about one cycle a word with AVX-512, three where there are less than `FEWEST`.
    """
    n = words.shape[0]
    whole = n - n % BLOCK
    if not COMPILED or n < FEWEST:
        draw_one_by_one(state, words)
        return
    marks = empty(MARKS, np.uint32)
    for first in range(0, whole, BLOCK):
        draw_block(state, table, words[first : first + BLOCK], marks)
    rest = n - whole
    if rest < FEWEST:
        draw_one_by_one(state, words[whole:])
        return
    room = empty(BLOCK, np.uint32)
    _run(state, table, room, marks)
    for p in range(rest):
        words[whole + p] = room[p]
    lane, steps = rest // LEAP, rest % LEAP
    for j in range(4):
        state[j] = marks[steps // LANES, j, lane]
    draw_one_by_one(state, room[: steps % LANES])
