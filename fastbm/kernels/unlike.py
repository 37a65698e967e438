"""Vector code that no loop compiles to: numbers of edges, summed where their units are unlike, five edges at a time.

Where five edges are unlike is one of 32 patterns, and a pattern has a sum: these are one register, or one for each
digit, in which every lane of 16 bits looks its own chain's up. Eight rows of bits, one an edge, become a byte a chain
by one instruction, which multiplies matrices of 8 x 8 bits; the last three rows are zeros. Every second chain is in the
high bytes of lanes; of a lane no more than the five lowest bits are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import apart_borrowing, borrowing, cgutils, config, get_host_cpu_features, intrinsic, ir, types
from .patterns import WORDS
from .vectors import add_unlike_edges
from .words import add_plainly

EDGES = 5  # whose sums fill a register
DIGIT = 13  # bits of a digit of a sum
GROUPS = 8  # of edges, whose digits add up to less than 2^16
FEW_DIGITS, SOME_DIGITS, MANY_DIGITS = 1, 3, 4  # that there is code for
_BIT, _BYTE, _SHORT, _INT, _ADDRESS = (ir.IntType(k) for k in (1, 8, 16, 32, 64))
_BYTES, _SHORTS, _INTS = ir.VectorType(_BYTE, 64), ir.VectorType(_SHORT, 32), ir.VectorType(_INT, 16)
_PAIR = ir.VectorType(_ADDRESS, 2)  # the words of all chains
_NEEDED = {"+avx512bw", "+avx512vbmi", "+gfni"}
_PLAIN = bool(config.DISABLE_JIT)
_NEAR = 8 * GROUPS  # groups of edges, whose sums stay in the first cache while they are looked up in some states
_PIECE = GROUPS << 15  # groups of edges, whose digits add up to less than 2^32
_OF_BYTES = np.arange(64, dtype=np.uint8)
_PLACES = 16 * (7 - _OF_BYTES % 8) + _OF_BYTES // 8  # beyond the fifth row others are taken, whose bits do not count
_MATRICES = np.stack([_PLACES & 63, (_PLACES + 8) & 63, np.uint8(1) << _OF_BYTES % 8])


def looks_up() -> bool:
    """Tell whether there is code for sums of edges on the processor that kernels are compiled for."""
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    return not _PLAIN and set(features.split(",")) >= _NEEDED


LOOKS_UP = looks_up()


def _lanes(lanes: Any) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes))


def _groups(n_digits: int) -> Any:
    """Make a function that adds the sums of at most `GROUPS` groups of edges to totals of every chain.

    Its arguments are addresses: of words (units, WORDS) uint32; edges (n, EDGES, 2) int32; sums (n, n_digits, 32)
    uint16; totals (WORDS, n_digits, 2, 16) uint32, in which chain 64 h + 4 k + 2 j + i is lane k of half j at 2 h + i;
    bytes (2, 64), the places that make rows of bits matrices, and the unit matrix. Then the first group, and the one
    after the last.
    """

    @intrinsic
    def add_groups(
        typing: Any, up: Any, edges: Any, sums: Any, totals: Any, matrices: Any, first: Any, last: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _Groups(builder, n_digits, *args).generate()
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return add_groups


class _Groups:
    """The code of some groups."""

    def __init__(self, builder: Any, n_digits: int, *arguments: Any) -> None:
        self._b, self._n_digits = builder, n_digits
        self._up, self._edges, self._sums, self._totals, self._matrices, self._first, self._last = arguments

    def generate(self) -> None:
        b, none = self._b, ir.Constant(_SHORTS, [0] * 32)
        *self._places, self._unit = (self._load(self._matrices, _BYTES, 64 * k) for k in range(3))
        self._last_row = ir.Constant(ir.VectorType(_BIT, 64), [byte % 8 == 8 - EDGES for byte in range(64)])
        held = [[cgutils.alloca_once(b, _SHORTS) for _ in range(self._n_digits)] for _ in range(WORDS)]
        for one in (one for word in held for one in word):
            b.store(none, one)
        with cgutils.for_range(b, self._last, start=self._first) as loop:
            sums = self._step(self._sums, loop.index, 64 * self._n_digits)
            tables = [self._load(sums, _SHORTS, 64 * p) for p in range(self._n_digits)]
            both = self._compared(self._step(self._edges, loop.index, 8 * EDGES))
            for h in range(2):
                even = b.bitcast(self._turned(h, *both), _SHORTS)
                odd = b.lshr(even, ir.Constant(_SHORTS, [8] * 32))
                for w, entries in ((2 * h, even), (2 * h + 1, odd)):
                    for p, table in enumerate(tables):
                        found = self._call("llvm.x86.avx512.permvar.hi.512", _SHORTS, table, entries)
                        b.store(b.add(b.load(held[w][p]), found), held[w][p])
        for w in range(WORDS):
            for p in range(self._n_digits):
                self._add(b.bitcast(b.load(held[w][p]), _INTS), 128 * (self._n_digits * w + p))

    def _compared(self, edges: Any) -> tuple[Any, Any]:
        """Return rows of bits of all chains, four and one: where the edges of a group are unlike."""
        b = self._b
        ends = [[self._load(self._place(edges, 8 * j + 4 * k), _PAIR, 0) for j in range(EDGES)] for k in range(2)]
        fours = []
        for words in ends:
            halves = [b.shuffle_vector(*words[j : j + 2], _lanes(range(4))) for j in (0, 2)]
            fours.append(b.shuffle_vector(*halves, _lanes(range(8))))
        last = b.xor(*(words[4] for words in ends))
        nothing = ir.Constant(_PAIR, ir.Undefined)  # beyond the row, which is not looked at
        last = b.shuffle_vector(last, nothing, _lanes([0, 1, 2, 3, 2, 3, 2, 3]))
        return b.bitcast(b.xor(*fours), _BYTES), b.bitcast(last, _BYTES)

    def _turned(self, h: int, first: Any, last: Any) -> Any:
        """Return bytes of half of the chains from rows of bits, four and one: bit j of a byte is that of row j."""
        squares, others = (
            self._call("llvm.x86.avx512.permvar.qi.512", _BYTES, rows, self._places[h]) for rows in (first, last)
        )
        squares = self._b.select(self._last_row, others, squares)
        return self._call("llvm.x86.vgf2p8affineqb.512", _BYTES, self._unit, squares, ir.Constant(_BYTE, 0))

    def _call(self, name: str, kind: Any, *values: Any) -> Any:
        signature = ir.FunctionType(kind, [value.type for value in values])
        return self._b.call(cgutils.get_or_insert_function(self._b.module, signature, name), values)

    def _add(self, pairs: Any, offset: int) -> None:
        """Add both halves of numbers to totals."""
        b, sixteen, low = self._b, ir.Constant(_INTS, [16] * 16), ir.Constant(_INTS, [0xFFFF] * 16)
        for half, more in enumerate((b.and_(pairs, low), b.lshr(pairs, sixteen))):
            place = self._at(self._totals, _INTS, offset + 64 * half)
            b.store(b.add(b.load(place, align=4), more), place, align=4)

    def _place(self, edges: Any, offset: int) -> Any:
        """Return where the words of an edge's unit are."""
        return self._step(self._up, self._b.sext(self._load(edges, _INT, offset), _ADDRESS), 4 * WORDS)

    def _step(self, start: Any, count: Any, size: int) -> Any:
        return self._b.add(start, self._b.mul(count, ir.Constant(_ADDRESS, size)))

    def _at(self, start: Any, kind: Any, offset: int) -> Any:
        return self._b.inttoptr(self._b.add(start, ir.Constant(_ADDRESS, offset)), kind.as_pointer())

    def _load(self, start: Any, kind: Any, offset: int) -> Any:
        return self._b.load(self._at(start, kind, offset), align=4)


add_few_digits, add_some_digits, add_many_digits = (_groups(n) for n in (FEW_DIGITS, SOME_DIGITS, MANY_DIGITS))


def room_of_sums(n_states: int, n_digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the room that `sum_unlike` needs for sums of at most so many states. It is not compiled."""
    return np.zeros((n_states if LOOKS_UP else 0, WORDS, n_digits, 2, 16), np.uint32), _MATRICES


@apart_borrowing
def sum_unlike(ups, edges, many, room, sums):
    """Sum each chain's numbers of those edges whose units are unlike, in some states of all chains.

    Mutates `sums` (n_states, 128) float64, whole numbers, and the room, of `room_of_sums`. `ups` (n_states, n_units +
    1, 4) is uint32. `edges` is (units (m, 2) int32, m a multiple of `EDGES`; numbers (m,), whole float64, which add up
    to less than 2^53, so that no order of additions changes a sum; tables (m / `EDGES`, n_digits, 32) uint16): sums of
    the edges of a group, for every pattern of those that are unlike, less what the sum is at least. Where none is
    looked up numbers are added. `many` is None where there are `FEW_DIGITS`.
    Cost: 8 vector operations for five edges and 32 chains.
    """
    (units, numbers, tables), (totals, matrices) = edges, room
    n_states, n_digits, least = ups.shape[0], tables.shape[1], 0.0
    if LOOKS_UP:
        for number in numbers:
            least += min(number, 0.0)
    for t in range(n_states):
        for c in range(sums.shape[1]):
            sums[t, c] = least
        if _PLAIN:
            add_plainly(ups[t], units, numbers, False, sums[t])
        elif not LOOKS_UP:
            up, total = ups.ctypes.data + t * ups.strides[0], sums.ctypes.data + t * sums.strides[0]
            add_unlike_edges(up, total, units.ctypes.data, numbers.ctypes.data, units.shape[0])
    if not LOOKS_UP:
        return
    for piece in range(0, tables.shape[0], _PIECE):
        end = min(piece + _PIECE, tables.shape[0])
        for block in range(piece, end, _NEAR):
            for t in range(n_states):
                up, total = ups.ctypes.data + t * ups.strides[0], totals.ctypes.data + t * totals.strides[0]
                where = up, units.ctypes.data, tables.ctypes.data, total, matrices.ctypes.data
                for first in range(block, min(block + _NEAR, end), GROUPS):
                    last = min(first + GROUPS, end)
                    if many is None:
                        add_few_digits(*where, first, last)
                    elif n_digits == SOME_DIGITS:
                        add_some_digits(*where, first, last)
                    else:
                        add_many_digits(*where, first, last)
        for t in range(n_states):
            _take_digits(totals[t], sums[t])


@borrowing
def _take_digits(totals, sums):
    """Add totals of digits to sums. Mutates both: the totals become zeros."""
    for h in range(totals.shape[0] // 2):
        own = sums[64 * h : 64 * h + 64]
        for p in range(totals.shape[1]):
            factor, even, odd = np.float64(1 << (DIGIT * p)), totals[2 * h, p], totals[2 * h + 1, p]
            for k in range(16):
                own[4 * k] += factor * np.float64(even[0, k])
                own[4 * k + 1] += factor * np.float64(odd[0, k])
                own[4 * k + 2] += factor * np.float64(even[1, k])
                own[4 * k + 3] += factor * np.float64(odd[1, k])
    totals[:] = np.uint32(0)
