"""Vector code that no loop compiles to: numbers of edges, summed where their units are unlike, five edges at a time.

A lane of 16 bits is a chain, as in `fastbm.kernels.patterns`. Five edges have 32 sums, one for every pattern of those
that are unlike; they are one register, or one for each digit, in which every lane looks its own up.

LLVM must not know the constants that a pattern is added up from, or it would make the additions disjunctions, which
have no masks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import cgutils, config, inlined, intrinsic, ir, kernel, types
from .patterns import PERMUTE, WORDS, best_form
from .vectors import add_unlike_edges
from .words import add_plainly

EDGES = 5  # whose sums fill a register
DIGIT = 13  # bits of a digit of a sum
GROUPS = 8  # of edges, whose digits add up to less than 2^16
FEW_DIGITS, SOME_DIGITS, MANY_DIGITS = 1, 3, 4  # that there is code for
_SHORT, _INT, _ADDRESS = (ir.IntType(k) for k in (16, 32, 64))
_SHORTS, _INTS, _MASK = ir.VectorType(_SHORT, 32), ir.VectorType(_INT, 16), ir.VectorType(ir.IntType(1), 32)
LOOKS_UP = best_form() == PERMUTE and not config.DISABLE_JIT
_PLAIN = bool(config.DISABLE_JIT)
_PIECE = GROUPS << 15  # groups of edges, whose digits add up to less than 2^32


def _groups(n_digits: int) -> Any:
    """Make a function that adds the sums of at most `GROUPS` groups of edges to totals of every chain.

    Its arguments are addresses: of words (units, WORDS) uint32; edges (n, EDGES, 2) int32; sums (n, n_digits, 32)
    uint16; totals (WORDS, n_digits, 2, 16) uint32, in which chain 2 k + h of a word is lane k of half h; and the
    numbers 1, 2, 4, ... as (EDGES, 32) uint16. Then the first group, and the one after the last.
    """

    @intrinsic
    def add_groups(typing: Any, up: Any, edges: Any, sums: Any, totals: Any, powers: Any, first: Any, last: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _Groups(builder, n_digits, *args).generate()
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return add_groups


class _Groups:
    """The code of some groups."""

    def __init__(self, builder: Any, n_digits: int, *arguments: Any) -> None:
        self._b, self._n_digits = builder, n_digits
        self._up, self._edges, self._sums, self._totals, self._powers_at, self._first, self._last = arguments

    def generate(self) -> None:
        b, none = self._b, ir.Constant(_SHORTS, [0] * 32)
        self._powers = [self._load(self._powers_at, _SHORTS, 64 * j) for j in range(EDGES)]
        held = [[cgutils.alloca_once(b, _SHORTS) for _ in range(self._n_digits)] for _ in range(WORDS)]
        for one in (one for word in held for one in word):
            b.store(none, one)
        with cgutils.for_range(b, self._last, start=self._first) as loop:
            edges, sums = self._edges, self._sums
            edges = b.add(edges, b.mul(loop.index, ir.Constant(_ADDRESS, 8 * EDGES)))
            sums = b.add(sums, b.mul(loop.index, ir.Constant(_ADDRESS, 64 * self._n_digits)))
            tables = [self._load(sums, _SHORTS, 64 * p) for p in range(self._n_digits)]
            ends = [[self._place(edges, 8 * j + 4 * k) for k in range(2)] for j in range(EDGES)]
            for pair in range(WORDS // 2):
                unlike = [b.xor(*(self._load(end, _ADDRESS, 8 * pair) for end in two)) for two in ends]
                for w in (2 * pair, 2 * pair + 1):
                    words = [b.trunc(b.lshr(both, ir.Constant(_ADDRESS, 32 * (w & 1))), _INT) for both in unlike]
                    entries = self._pattern(words)
                    for p, table in enumerate(tables):
                        b.store(b.add(b.load(held[w][p]), self._look_up(table, entries)), held[w][p])
        for w in range(WORDS):
            for p in range(self._n_digits):
                self._add(b.bitcast(b.load(held[w][p]), _INTS), 128 * (self._n_digits * w + p))

    def _pattern(self, words: list[Any]) -> Any:
        """Return which edges are unlike, as a number in every lane."""
        b = self._b
        masks = [b.bitcast(word, _MASK) for word in words]
        found = b.select(masks[0], self._powers[0], ir.Constant(_SHORTS, [0] * 32))
        for mask, power in zip(masks[1:], self._powers[1:], strict=True):
            found = b.select(mask, b.add(found, power), found)
        return found

    def _look_up(self, table: Any, entries: Any) -> Any:
        kind = ir.FunctionType(_SHORTS, [_SHORTS, _SHORTS])
        permute = cgutils.get_or_insert_function(self._b.module, kind, "llvm.x86.avx512.permvar.hi.512")
        return self._b.call(permute, [table, entries])

    def _add(self, pairs: Any, offset: int) -> None:
        """Add both halves of numbers to totals."""
        b, sixteen, low = self._b, ir.Constant(_INTS, [16] * 16), ir.Constant(_INTS, [0xFFFF] * 16)
        for half, more in enumerate((b.and_(pairs, low), b.lshr(pairs, sixteen))):
            place = self._at(self._totals, _INTS, offset + 64 * half)
            b.store(b.add(b.load(place, align=4), more), place, align=4)

    def _place(self, edges: Any, offset: int) -> Any:
        """Return where the words of an edge's unit are."""
        b = self._b
        unit = b.sext(self._load(edges, _INT, offset), _ADDRESS)
        return b.add(self._up, b.mul(unit, ir.Constant(_ADDRESS, 4 * WORDS)))

    def _at(self, start: Any, kind: Any, offset: int) -> Any:
        return self._b.inttoptr(self._b.add(start, ir.Constant(_ADDRESS, offset)), kind.as_pointer())

    def _load(self, start: Any, kind: Any, offset: int) -> Any:
        return self._b.load(self._at(start, kind, offset), align=2 if kind is _SHORTS else 4)


add_few_digits, add_some_digits, add_many_digits = (_groups(n) for n in (FEW_DIGITS, SOME_DIGITS, MANY_DIGITS))


@kernel
def sum_unlike(ups, edges, numbers, tables, many, sums):
    """Sum each chain's numbers of those edges whose units are unlike, in some states of all chains.

    Mutates `sums` (n_states, 128) float64, whole numbers. `ups` (n_states, n_units + 1, 4) is uint32, `edges` (m, 2)
    int32, m a multiple of `EDGES`, `numbers` (m,) whole float64, which add up to less than 2^53: no order of additions
    changes a sum. `tables` (m / `EDGES`, n_digits, 32) uint16 are sums of the edges of a group, for every pattern of
    those that are unlike, less what the sum is at least; where none is looked up `numbers` are added. `many` is None
    where there are `FEW_DIGITS`.
    Cost: 16 vector operations for five edges and 32 chains.
    """
    n_states, n_digits, least = ups.shape[0], tables.shape[1], 0.0
    if LOOKS_UP:
        for number in numbers:
            least += min(number, 0.0)
    for t in range(n_states):
        for c in range(sums.shape[1]):
            sums[t, c] = least
        if _PLAIN:
            add_plainly(ups[t], edges, numbers, False, sums[t])
        elif not LOOKS_UP:
            up, total = ups.ctypes.data + t * ups.strides[0], sums.ctypes.data + t * sums.strides[0]
            add_unlike_edges(up, total, edges.ctypes.data, numbers.ctypes.data, edges.shape[0])
    if not LOOKS_UP:
        return
    powers, totals = np.empty((EDGES, 32), np.uint16), np.zeros((n_states, ups.shape[2], n_digits, 2, 16), np.uint32)
    for j in range(EDGES):
        for lane in range(32):
            powers[j, lane] = 1 << j
    for piece in range(0, tables.shape[0], _PIECE):
        end = min(piece + _PIECE, tables.shape[0])
        for first in range(piece, end, GROUPS):
            for t in range(n_states):
                up, total = ups.ctypes.data + t * ups.strides[0], totals.ctypes.data + t * totals.strides[0]
                where = up, edges.ctypes.data, tables.ctypes.data, total, powers.ctypes.data
                last = min(first + GROUPS, end)
                if many is None:
                    add_few_digits(*where, first, last)
                elif n_digits == SOME_DIGITS:
                    add_some_digits(*where, first, last)
                else:
                    add_many_digits(*where, first, last)
        for t in range(n_states):
            _take_digits(totals[t], sums[t])


@inlined
def _take_digits(totals, sums):
    """Add totals of digits to sums. Mutates both: the totals become zeros."""
    for w in range(totals.shape[0]):
        for p in range(totals.shape[1]):
            for half in range(2):
                for lane in range(16):
                    more = np.float64(totals[w, p, half, lane]) * np.float64(1 << (DIGIT * p))
                    sums[32 * w + 2 * lane + half] += more
                    totals[w, p, half, lane] = np.uint32(0)
