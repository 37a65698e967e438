"""Vector code that no loop compiles to: thresholds of a unit looked up by the bits of its neighbours.

A lane of 16 bits is a chain, 32 chains are a word, and a unit has `WORDS` of them. The thresholds of a unit, one for
every pattern of bits of its neighbours, are one register or a few; every lane looks its own up and compares 16 random
bits with it. Where a lane's bits are those of its threshold the loop over units is left, as 16 bits do not decide.

Numbers are the same in all forms. LLVM must not know the constants that a pattern is added up from, or it would make
the additions disjunctions, which have no masks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .jit import cgutils, config, get_host_cpu_features, intrinsic, ir, types

WORDS = 4  # words of 32 chains of a unit
FEWEST_ENTRIES = 32
_BIT, _BYTE, _SHORT, _INT, _ADDRESS = (ir.IntType(k) for k in (1, 8, 16, 32, 64))
_SHORTS, _INTS, _BYTES = ir.VectorType(_SHORT, 32), ir.VectorType(_INT, 16), ir.VectorType(_BYTE, 32)
_HALF, _MASK, _EVERYWHERE = ir.VectorType(_BYTE, 16), ir.VectorType(_BIT, 32), ir.VectorType(_INT, 32)
PERMUTE, SHUFFLE, SELECT = "permute", "shuffle", "select"


@cache
def best_form() -> str:
    """Return how the processor that kernels are compiled for looks up: in registers, in halves of bytes, or not."""
    if config.DISABLE_JIT:
        return SELECT
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    names = set(features.split(","))
    return PERMUTE if "+avx512bw" in names else SHUFFLE if "+avx2" in names else SELECT


def n_entries(n_bits: int) -> int:
    """Return the number of entries of a table that is looked up by so many bits."""
    return max(FEWEST_ENTRIES, 1 << n_bits)


def make_sweep(degree: int, *, own: bool, form: str | None = None) -> Any:
    """Make a function that draws units of all chains one after the other, until one is undecided.

    A unit has `degree` neighbours, whose bits are the pattern that its threshold stands at; `own` adds its own bit as
    the last one. `form` is how the table is laid out and looked up; the best one unless given.

    Its arguments are the address of units (n,) int32, the place of the first to draw and the number of all; bytes from
    one unit's table to the next, and from one word's to the next; and addresses: of words `up` (n_units + 1, WORDS)
    uint32; neighbours (n_units, degree) int32; tables of uint16; streams (WORDS, 4, 16) uint32; `left` (2 WORDS,)
    uint32; the numbers 1, 2, 4, ... as (7, 32) uint16; masks (WORDS,) uint32 of chains whose flips are counted;
    `n_flips` (1,) int64.

    It returns the place after the last unit that was drawn. Where that is undecided, `left` holds the lanes of its
    words that are, which were drawn as down, and its old words; else zeros.
    """

    @intrinsic
    def sweep(
        typing: Any, units: Any, first: Any, last: Any, next_table: Any, next_word: Any, up: Any, neighbours: Any,
        tables: Any, streams: Any, left: Any, steps: Any, used: Any, n_flips: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _Sweep(builder, degree, own, form or best_form(), *args).generate()

        return types.intp(*[types.intp] * 13), generate

    return sweep


class _Sweep:
    """The code of a sweep."""

    def __init__(self, builder: Any, degree: int, own: bool, form: str, *arguments: Any) -> None:
        self._b, self._degree, self._own, self._form = builder, degree, own, form
        self._bits = degree + own
        (self._units, self._first, self._last, self._next_table, self._next_word, self._up, self._neighbours,
         self._tables, self._streams, self._left, self._steps, self._used, self._n_flips) = arguments  # fmt: skip

    def generate(self) -> Any:
        b, n_words = self._b, range(WORDS)
        self._powers = [self._load(self._steps, _SHORTS, offset=64 * j) for j in range(self._bits)]
        self._states = [[cgutils.alloca_once(b, _INTS) for _ in range(4)] for _ in n_words]
        for w in n_words:
            for j in range(4):
                b.store(self._load(self._streams, _INTS, offset=256 * w + 64 * j), self._states[w][j])
        masks = [self._load(self._used, _INT, offset=4 * w) for w in n_words]
        flips = cgutils.alloca_once_value(b, self._load(self._n_flips, _ADDRESS))
        done = cgutils.alloca_once_value(b, self._last)
        with cgutils.for_range(b, self._last, start=self._first) as loop:
            unit = b.sext(self._load(self._units, _INT, (loop.index, 4)), _ADDRESS)
            drawn = [self._draw(w, unit) for w in n_words]
            changed = [b.and_(b.xor(old, new), mask) for (old, new, _), mask in zip(drawn, masks, strict=True)]
            count = b.add(*(b.add(b.ctpop(one), b.ctpop(other)) for one, other in (changed[:2], changed[2:])))
            b.store(b.add(b.load(flips), b.zext(count, _ADDRESS)), flips)
            undecided = b.or_(b.or_(drawn[0][2], drawn[1][2]), b.or_(drawn[2][2], drawn[3][2]))
            with cgutils.if_unlikely(b, cgutils.is_not_null(b, undecided)):
                for w, (old, _, equal) in enumerate(drawn):
                    self._store(equal, self._left, offset=4 * w)
                    self._store(old, self._left, offset=4 * (WORDS + w))
                b.store(b.add(loop.index, ir.Constant(_ADDRESS, 1)), done)
                loop.do_break()
        for w in n_words:
            for j in range(4):
                self._store(b.load(self._states[w][j]), self._streams, offset=256 * w + 64 * j)
        self._store(b.load(flips), self._n_flips)
        return b.load(done)

    def _draw(self, w: int, unit: Any) -> tuple[Any, Any, Any]:
        """Draw a word of a unit; return its old bits, its new ones, and those that are undecided."""
        b, size = self._b, 4 * WORDS
        near = [
            b.sext(self._load(self._neighbours, _INT, (unit, 4 * self._degree), 4 * j), _ADDRESS)
            for j in range(self._degree)
        ]
        words = [self._load(self._up, _INT, (other, size), 4 * w) for other in near]
        old = self._load(self._up, _INT, (unit, size), 4 * w)
        if self._own:
            words.append(old)
        table = b.add(
            b.add(self._tables, b.mul(unit, self._next_table)), b.mul(ir.Constant(_ADDRESS, w), self._next_word)
        )
        thresholds = self._look_up(table, [b.bitcast(word, _MASK) for word in words])
        bits = self._next_bits(w)
        new = b.bitcast(b.icmp_unsigned("<", bits, thresholds), _INT)
        self._store(new, self._up, (unit, size), 4 * w)
        return old, new, b.bitcast(b.icmp_unsigned("==", bits, thresholds), _INT)

    def _next_bits(self, w: int) -> Any:
        """Return 16 random bits for every lane, by xoshiro128++."""
        b, places = self._b, self._states[w]
        s0, s1, s2, s3 = (b.load(place) for place in places)
        bits = b.add(self._rotated(b.add(s0, s3), 7), s0)
        shifted = b.shl(s1, _all(_INTS, 9))
        s2, s3 = b.xor(s2, s0), b.xor(s3, s1)
        s1, s0 = b.xor(s1, s2), b.xor(s0, s3)
        for state, place in zip((s0, s1, b.xor(s2, shifted), self._rotated(s3, 11)), places, strict=True):
            b.store(state, place)
        return b.bitcast(bits, _SHORTS)

    def _rotated(self, words: Any, by: int) -> Any:
        b = self._b
        return b.or_(b.shl(words, _all(_INTS, by)), b.lshr(words, _all(_INTS, 32 - by)))

    def _look_up(self, table: Any, masks: list[Any]) -> Any:
        """Return every lane's entry of a table."""
        if self._form == PERMUTE:
            return self._permuted(table, masks)
        if self._form == SHUFFLE:
            return self._shuffled(table, masks)
        return self._selected(table, masks, 0, self._bits)

    def _permuted(self, table: Any, masks: list[Any]) -> Any:
        b = self._b
        entries = b.select(masks[0], self._powers[0], _all(_SHORTS, 0))
        for mask, power in zip(masks[1:], self._powers[1:], strict=True):
            entries = b.select(mask, b.add(entries, power), entries)
        parts = [self._load(table, _SHORTS, offset=64 * k) for k in range(n_entries(self._bits) // 32)]
        if len(parts) == 1:
            return self._call("llvm.x86.avx512.permvar.hi.512", _SHORTS, parts[0], entries)
        pairs = [
            self._call("llvm.x86.avx512.vpermi2var.hi.512", _SHORTS, low, entries, high)
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
        return pairs[0] if len(pairs) == 1 else b.select(masks[6], pairs[1], pairs[0])

    def _shuffled(self, table: Any, masks: list[Any]) -> Any:
        """Look up low and high bytes in tables of 16 bytes, which lie in turn."""
        b = self._b
        entries = b.select(masks[0], _all(_BYTES, 1), _all(_BYTES, 0))
        for j, mask in enumerate(masks[1:4], 1):
            entries = b.select(mask, b.add(entries, _all(_BYTES, 1 << j)), entries)

        def chosen(first: int, count: int, high: int) -> Any:
            if count > 1:
                half = count // 2
                mask = masks[3 + half.bit_length()]
                return b.select(mask, chosen(first + half, half, high), chosen(first, half, high))
            part = self._load(table, _HALF, offset=16 * (2 * first + high))
            both = b.shuffle_vector(part, ir.Constant(_HALF, ir.Undefined), _indices(list(range(16)) * 2))
            return self._call("llvm.x86.avx2.pshuf.b", _BYTES, both, entries)

        low, high = (chosen(0, max(1, (1 << self._bits) // 16), part) for part in (0, 1))
        mixed = b.shuffle_vector(low, high, _indices([lane + 32 * part for lane in range(32) for part in (0, 1)]))
        return b.bitcast(mixed, _SHORTS)

    def _selected(self, table: Any, masks: list[Any], first: int, n_bits: int) -> Any:
        b = self._b
        if n_bits:
            high = self._selected(table, masks, first + (1 << (n_bits - 1)), n_bits - 1)
            return b.select(masks[n_bits - 1], high, self._selected(table, masks, first, n_bits - 1))
        nothing = ir.Constant(_SHORTS, ir.Undefined)
        one = b.insert_element(nothing, self._load(table, _SHORT, offset=2 * first), ir.Constant(_INT, 0))
        return b.shuffle_vector(one, nothing, _all(_EVERYWHERE, 0))

    def _call(self, name: str, kind: Any, *values: Any) -> Any:
        signature = ir.FunctionType(kind, [value.type for value in values])
        return self._b.call(cgutils.get_or_insert_function(self._b.module, signature, name), values)

    def _at(self, start: Any, kind: Any, steps: Any, offset: int) -> Any:
        if steps is not None:
            start = self._b.add(start, self._b.mul(steps[0], ir.Constant(_ADDRESS, steps[1])))
        return self._b.inttoptr(self._b.add(start, ir.Constant(_ADDRESS, offset)), kind.as_pointer())

    def _load(self, start: Any, kind: Any, steps: Any = None, offset: int = 0) -> Any:
        align = {_SHORTS: 2, _SHORT: 2, _HALF: 1, _ADDRESS: 8}.get(kind, 4)
        return self._b.load(self._at(start, kind, steps, offset), align=align)

    def _store(self, value: Any, start: Any, steps: Any = None, offset: int = 0) -> None:
        self._b.store(value, self._at(start, value.type, steps, offset), align=8 if value.type == _ADDRESS else 4)


def _all(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _indices(values: list[int]) -> Any:
    return ir.Constant(ir.VectorType(_INT, len(values)), values)
