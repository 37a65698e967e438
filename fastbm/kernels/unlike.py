"""Vector code that no loop compiles to: numbers of edges, summed where their units are unlike, some edges at a time.

Where five edges are unlike is one of 32 patterns, and a pattern has a sum: these are one register, or one for each
digit, in which every lane of 16 bits looks its own chain's up. Eight rows of bits, one an edge, become a byte a chain
by one instruction, which multiplies matrices of 8 x 8 bits; the last three rows are zeros. Every second chain is in the
high bytes of lanes; of a lane no more than the five lowest bits are looked at.

With AVX2 alone it is four edges, of 16 patterns, whose sums are two registers of bytes for each digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .jit import apart_borrowing, borrowing, cgutils, config, get_host_cpu_features, intrinsic, ir, types
from .patterns import WORDS
from .vectors import add_unlike_edges, has_look_up
from .words import add_plainly

DIGIT = 13  # bits of a digit of a sum
GROUPS = 8  # of edges, whose digits add up to less than 2^16
FEW_DIGITS, SOME_DIGITS, MANY_DIGITS = 1, 3, 4  # that there is code for
_BIT, _BYTE, _SHORT, _INT, _ADDRESS = (ir.IntType(k) for k in (1, 8, 16, 32, 64))
_BYTES, _SHORTS, _INTS = ir.VectorType(_BYTE, 64), ir.VectorType(_SHORT, 32), ir.VectorType(_INT, 16)
_HALF_BYTES, _HALF_SHORTS, _HALF_INTS = ir.VectorType(_BYTE, 32), ir.VectorType(_SHORT, 16), ir.VectorType(_INT, 8)
_PAIR = ir.VectorType(_ADDRESS, 2)  # the words of all chains
_NEEDED = {"+avx512bw", "+avx512vbmi", "+gfni"}
_PLAIN = bool(config.DISABLE_JIT)
_NEAR = 8 * GROUPS  # groups of edges, whose sums stay in the first cache while they are looked up in some states
_PIECE = GROUPS << 15  # groups of edges, whose digits add up to less than 2^32
_OF_BYTES = np.arange(64, dtype=np.uint8)
_PLACES = 16 * (7 - _OF_BYTES % 8) + _OF_BYTES // 8  # beyond the fifth row others are taken, whose bits do not count
_MATRICES = np.stack([_PLACES & 63, (_PLACES + 8) & 63, np.uint8(1) << _OF_BYTES % 8])


def _edges_at_once() -> int:
    """Return of how many edges the processor that kernels are compiled for looks sums up, 0 where there is no code."""
    features = set((config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()).split(","))
    if not _PLAIN and features >= _NEEDED:
        return 5
    return 4 if not _PLAIN and "+avx2" in features and not has_look_up() else 0


EDGES = _edges_at_once()
LOOKS_UP = EDGES == 5


def _lanes(lanes: Any) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes))


def _groups(n_digits: int) -> Any:
    """Make a function that adds the sums of at most `GROUPS` groups of edges to totals of every chain.

    Its arguments are addresses: of words (units, WORDS) uint32; edges (n, EDGES, 2) int32; sums, of 64 bytes for each
    digit of each group, or of 32; totals (WORDS, n_digits, 2, 16) uint32, in which chain 64 h + 4 k + 2 j + i is lane k
    of half j at 2 h + i, or in the order of `CHAINS`; bytes (2, 64), the places that make rows of bits matrices, and
    the unit matrix. Then the first group, and the one after the last.
    """

    @intrinsic
    def add_groups(
        typing: Any, up: Any, edges: Any, sums: Any, totals: Any, matrices: Any, first: Any, last: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            (_Fives if LOOKS_UP else _Fours)(builder, n_digits, *args).generate()
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return add_groups


class _Groups:
    """The code of some groups."""

    def __init__(self, builder: Any, n_digits: int, *arguments: Any) -> None:
        self._b, self._n_digits = builder, n_digits
        self._up, self._edges, self._sums, self._totals, self._matrices, self._first, self._last = arguments

    def _call(self, name: str, kind: Any, *values: Any) -> Any:
        signature = ir.FunctionType(kind, [value.type for value in values])
        return self._b.call(cgutils.get_or_insert_function(self._b.module, signature, name), values)

    def _add(self, pairs: Any, totals: Any, offset: int) -> None:
        """Add both halves of numbers to totals, at an offset."""
        b, kind = self._b, pairs.type
        sixteen, low = (ir.Constant(kind, [number] * kind.count) for number in (16, 0xFFFF))
        for half, more in enumerate((b.and_(pairs, low), b.lshr(pairs, sixteen))):
            place = self._at(totals, kind, offset + 4 * kind.count * half)
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


class _Fives(_Groups):
    """Groups of five edges, all chains side by side."""

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
                self._add(b.bitcast(b.load(held[w][p]), _INTS), self._totals, 128 * (self._n_digits * w + p))

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


class _Fours(_Groups):
    """Groups of four edges, a word of chains after the other."""

    def generate(self) -> None:
        b, none = self._b, ir.Constant(_HALF_SHORTS, [0] * 16)
        held = [[cgutils.alloca_once(b, _HALF_SHORTS) for _ in range(2)] for _ in range(self._n_digits)]
        with cgutils.for_range(b, ir.Constant(_ADDRESS, WORDS)) as word:
            for one in (one for pair in held for one in pair):
                b.store(none, one)
            with cgutils.for_range(b, self._last, start=self._first) as loop:
                sums = self._step(self._sums, loop.index, 32 * self._n_digits)
                entries = self._compared(self._step(self._edges, loop.index, 8 * EDGES), word.index)
                for p, pair in enumerate(held):
                    octets = [self._looked_up(sums, 32 * p + 16 * k, entries) for k in range(2)]
                    for half, one in enumerate(pair):
                        lanes = [16 * (k // 16) + 8 * half + k % 16 // 2 + 32 * (k % 2) for k in range(32)]
                        found = b.bitcast(b.shuffle_vector(*octets, _lanes(lanes)), _HALF_SHORTS)
                        b.store(b.add(b.load(one), found), one)
            totals = self._step(self._totals, word.index, 128 * self._n_digits)
            for p, pair in enumerate(held):
                for half, one in enumerate(pair):
                    self._add(b.bitcast(b.load(one), _HALF_INTS), totals, 128 * p + 64 * half)

    def _compared(self, edges: Any, word: Any) -> Any:
        """Return a byte of each chain of a word, of which bit j says whether edge j is unlike."""
        b = self._b
        own = ir.Constant(_HALF_BYTES, [1 << k % 8 for k in range(32)])
        entries = ir.Constant(_HALF_BYTES, [0] * 32)
        for j in range(EDGES):
            ends = [self._load(self._step(self._place(edges, 8 * j + 4 * k), word, 4), _INT, 0) for k in range(2)]
            one = b.insert_element(ir.Constant(_HALF_INTS, ir.Undefined), b.xor(*ends), ir.Constant(_INT, 0))
            octets = b.bitcast(one, _HALF_BYTES)
            spread = b.shuffle_vector(octets, octets, _lanes([k // 8 for k in range(32)]))
            unlike = b.icmp_unsigned("==", b.and_(spread, own), own)
            bit, none = (ir.Constant(_HALF_BYTES, [number] * 32) for number in (1 << j, 0))
            entries = b.or_(entries, b.select(unlike, bit, none))
        return entries

    def _looked_up(self, sums: Any, offset: int, entries: Any) -> Any:
        """Return the entries of 16 bytes."""
        table = self._load(sums, ir.VectorType(_BYTE, 16), offset)
        both = self._b.shuffle_vector(table, table, _lanes([*range(16), *range(16)]))
        return self._call("llvm.x86.avx2.pshuf.b", _HALF_BYTES, both, entries)


add_few_digits, add_some_digits, add_many_digits = (_groups(n) for n in (FEW_DIGITS, SOME_DIGITS, MANY_DIGITS))


_WORD, _HALF, _LANE = np.indices((WORDS, 2, 16))
CHAINS = 32 * _WORD + 16 * (_LANE % 8 // 4) + 8 * _HALF + 2 * (_LANE % 4) + _LANE // 8  # of which totals of fours are


def tables_of_sums(numbers: np.ndarray, n_digits: int) -> np.ndarray:
    """Return the sums of groups of whole numbers (n, EDGES), less what they are at least, as `sum_unlike` has them.

    For every pattern of edges that are unlike there is one, in `n_digits`.
    """
    sums = -np.minimum(numbers, 0).sum(axis=1)[:, None]
    for j in range(EDGES):
        sums = np.concatenate([sums, sums + numbers[:, j : j + 1]], axis=1)
    shifts = DIGIT * np.arange(n_digits)[:, None]
    digits = np.ascontiguousarray((sums[:, None, :] >> shifts) & ((1 << DIGIT) - 1), np.uint16)
    if LOOKS_UP:
        return digits
    octets = np.concatenate([digits & 255, digits >> 8], axis=2).astype(np.uint8)
    return octets.view(np.uint16)


def room_of_sums(n_states: int, n_digits: int) -> tuple[np.ndarray, ...]:
    """Return the room that `sum_unlike` needs for sums of at most so many states. It is not compiled."""
    totals = np.zeros((n_states if EDGES else 0, WORDS, n_digits, 2, 16), np.uint32)
    return totals, np.empty((4, 16), np.int64), _MATRICES, CHAINS


@apart_borrowing
def sum_unlike(ups, edges, many, room, sums):
    """Sum each chain's numbers of those edges whose units are unlike, in some states of all chains.

    Mutates `sums` (n_states, 128) float64, whole numbers, and the room, of `room_of_sums`. `ups` (n_states, n_units +
    1, 4) is uint32. `edges` is (units (m, 2) int32, m a multiple of `EDGES`; numbers (m,), whole float64, which add up
    to less than 2^53, so that no order of additions changes a sum; tables, as `tables_of_sums` makes them). Where
    `EDGES` is 0 numbers are added. `many` is None where there are `FEW_DIGITS`.
    Cost: 8 vector operations for five edges and 32 chains, or about 60 for four.
    """
    (units, numbers, tables), (totals, wholes, matrices, chains) = edges, room
    n_states, n_digits, least = ups.shape[0], tables.shape[1], 0.0
    if EDGES:
        for number in numbers:
            least += min(number, 0.0)
    for t in range(n_states):
        for c in range(sums.shape[1]):
            sums[t, c] = least
        if _PLAIN:
            add_plainly(ups[t], units, numbers, False, sums[t])
        elif not EDGES:
            up, total = ups.ctypes.data + t * ups.strides[0], sums.ctypes.data + t * sums.strides[0]
            add_unlike_edges(up, total, units.ctypes.data, numbers.ctypes.data, units.shape[0])
    if not EDGES:
        return
    for piece in range(0, tables.shape[0], _PIECE):
        end = min(piece + _PIECE, tables.shape[0])
        for block in range(piece, end, _NEAR):
            for t in range(n_states):
                own = totals[t if tables.shape[0] > _NEAR else 0]  # one, which stays in the first cache
                where = ups.ctypes.data + t * ups.strides[0], units.ctypes.data, tables.ctypes.data, own.ctypes.data
                for first in range(block, min(block + _NEAR, end), GROUPS):
                    last = min(first + GROUPS, end)
                    if many is None:
                        add_few_digits(*where, matrices.ctypes.data, first, last)
                    elif n_digits == SOME_DIGITS:
                        add_some_digits(*where, matrices.ctypes.data, first, last)
                    else:
                        add_many_digits(*where, matrices.ctypes.data, first, last)
                if block + _NEAR >= end:
                    _take_digits(own, wholes, chains, sums[t])


@borrowing
def _take_digits(totals, wholes, chains, sums):
    """Add totals of digits to the sums of their chains. Mutates all of them: the totals become zeros."""
    n_digits = totals.shape[1]
    if LOOKS_UP:
        for h in range(totals.shape[0] // 2):
            own = sums[64 * h : 64 * h + 64]
            wholes[:] = 0
            for p in range(n_digits):
                shift = np.int64(DIGIT * p)
                for j in range(4):
                    whole, digits = wholes[j], totals[2 * h + j % 2, p, j // 2]
                    for k in range(16):
                        whole[k] += np.int64(digits[k]) << shift
            for k in range(16):
                own[4 * k] += np.float64(wholes[0, k])
                own[4 * k + 1] += np.float64(wholes[1, k])
                own[4 * k + 2] += np.float64(wholes[2, k])
                own[4 * k + 3] += np.float64(wholes[3, k])
    else:
        for p in range(n_digits):
            factor = np.float64(1 << (DIGIT * p))
            for w in range(totals.shape[0]):
                for half in range(2):
                    for k in range(16):
                        sums[chains[w, half, k]] += factor * np.float64(totals[w, p, half, k])
    totals[:] = np.uint32(0)
