"""Vector code for bits and bytes that no loop compiles to, for AVX2 and AVX-512.

Sums are of integers, so that their order does not matter and they are those of the plain loops beside the callers.
All arguments are addresses, distances in bytes, and numbers of things.
"""

from __future__ import annotations

from typing import Any

from .jit import cgutils, config, get_host_cpu_features, intrinsic, ir, types
from .vectors import TILED, has_look_up

_BIT, _BYTE, _SHORT, _INDEX, _ADDRESS = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_LONGS = ir.VectorType(_ADDRESS, 16)
_NONE = ir.Constant(_LONGS, [0] * 16)
ROWS, LANES = 8, 32  # of a tile: sixteen vectors of sums
VECTOR = 64  # bytes
SQUARE = 128  # bits in a row of a square
GROUP, UNROLLED = 16, 4  # chains in which an attempt is made at once, and units whose fields then change together
# bytes of a field that are moved in registers; of the wide ones, processors without AVX-512 have not enough
NARROW, WIDE = 4 * VECTOR, 8 * VECTOR if has_look_up() else 4 * VECTOR


def _features() -> set[str]:
    found = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    return set(found.split(",")) if TILED else set()


def multiplies_bytes() -> bool:
    """Tell whether there is code for `add_forms` on the processor that kernels are compiled for."""
    return bool({"+avx2", "+avx512vnni"} & _features())


def _at(builder: Any, start: Any, offset: Any, kind: Any) -> Any:
    offset = ir.Constant(_ADDRESS, offset) if isinstance(offset, int) else offset
    return builder.inttoptr(builder.add(start, offset), kind.as_pointer())


def _load(builder: Any, start: Any, offset: Any, kind: Any) -> Any:
    return builder.load(_at(builder, start, offset, kind), align=1)


def _times(builder: Any, number: Any, size: Any) -> Any:
    return builder.mul(number, ir.Constant(_ADDRESS, size) if isinstance(size, int) else size)


def _everywhere(builder: Any, value: Any, kind: Any) -> Any:
    """Return a vector of which every lane is one number."""
    nothing = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, kind.count), [0] * kind.count))


def _call(builder: Any, name: str, result: Any, args: Any) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


@intrinsic
def sum_at_bits(typing: Any, numbers: Any, factor: Any, longs: Any, words: Any, n_words: Any) -> Any:
    """Return a row of int32 times a factor, plus a row of int64, summed where bits are set.

    Rows have 64 numbers a word.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers, factor, longs, words, n_words = args
        row, mask = ir.VectorType(_INDEX, 16), ir.VectorType(_BIT, 16)
        nothing = ir.Constant(row, [0] * 16)
        sums, more = (cgutils.alloca_once_value(builder, _NONE) for _ in range(2))
        with cgutils.for_range(builder, n_words) as loop:
            here, place = _times(builder, loop.index, 8), _times(builder, loop.index, 256)
            for part in range(4):
                first = builder.add(here, ir.Constant(_ADDRESS, 2 * part))
                where = builder.bitcast(_load(builder, words, first, _SHORT), mask)
                at = builder.add(place, ir.Constant(_ADDRESS, 64 * part))
                chosen = builder.select(where, _load(builder, numbers, at, row), nothing)
                builder.store(builder.add(builder.load(sums), builder.sext(chosen, _LONGS)), sums)
                chosen = builder.select(where, _load(builder, longs, _times(builder, at, 2), _LONGS), _NONE)
                builder.store(builder.add(builder.load(more), chosen), more)
        total = builder.mul(builder.load(sums), _everywhere(builder, factor, _LONGS))
        return _call(builder, "llvm.vector.reduce.add.v16i64", _ADDRESS, [builder.add(total, builder.load(more))])

    return types.int64(*[types.intp] * 5), generate


def _storing(kind: Any) -> Any:
    """Make a function that writes the lowest bits of a uint64 to an address, whatever that is a multiple of."""

    @intrinsic
    def store(typing: Any, place: Any, word: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = args[1] if kind == _ADDRESS else builder.trunc(args[1], kind)
            builder.store(value, _at(builder, args[0], 0, kind), align=1)
            return context.get_dummy_value()

        return types.void(types.intp, types.uint64), generate

    return store


store_word, store_half, store_byte = (_storing(ir.IntType(size)) for size in (64, 32, 8))


@intrinsic
def copy_parts(typing: Any, to: Any, start: Any, next_: Any, n: Any, parts: Any) -> Any:
    """Copy the first 16 / parts bytes of n places to every sixteenth byte; parts are 1, 2 or 4.

    The arguments are the addresses, and the distance in bytes from one place to the next.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, start, next_, n, parts = args
        for number, kind in ((1, ir.VectorType(_INDEX, 4)), (2, _ADDRESS), (4, _INDEX)):
            asked = builder.icmp_signed("==", parts, ir.Constant(_ADDRESS, number))
            with builder.if_then(asked), cgutils.for_range(builder, n) as loop:
                here = builder.mul(loop.index, next_)
                value = builder.load(_at(builder, start, here, kind), align=4)
                there = builder.mul(loop.index, ir.Constant(_ADDRESS, 16))
                builder.store(value, _at(builder, to, there, kind), align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate


@intrinsic
def pack_octets(typing: Any, octets: Any, n_octets: Any, bits: Any, next_bits: Any) -> Any:
    """Write bytes of 0 and 1, a multiple of 8, as bits, the first in the lowest one: `SQUARE` of them, then more.

    The arguments are addresses, a number, and the distance in bytes from where so many bits are to where the next are.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        octets, n_octets, bits, next_bits = args
        first = ir.Constant(_ADDRESS, 0)
        for width in (VECTOR, 16, 8):
            last = builder.and_(n_octets, ir.Constant(_ADDRESS, -width))
            kind = ir.VectorType(_BYTE, width)
            with cgutils.for_range_slice(builder, first, last, ir.Constant(_ADDRESS, width)) as (k, _):
                where = builder.icmp_unsigned("!=", _load(builder, octets, k, kind), ir.Constant(kind, [0] * width))
                square = builder.udiv(k, ir.Constant(_ADDRESS, SQUARE))
                within = builder.urem(k, ir.Constant(_ADDRESS, SQUARE))
                place = builder.add(builder.mul(square, next_bits), builder.udiv(within, ir.Constant(_ADDRESS, 8)))
                found = builder.bitcast(where, ir.IntType(width))
                builder.store(found, _at(builder, bits, place, found.type), align=1)
            first = last
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate


def _fetching(size: int) -> Any:
    """Make a function that asks for `size` bytes from an address on in the second cache, without waiting for them."""

    @intrinsic
    def fetch(typing: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            how = [ir.Constant(_INDEX, number) for number in (0, 2, 1)]  # to be read, near but not nearest, as data
            for offset in range(0, size, VECTOR):
                _call(builder, "llvm.prefetch.p0i8", ir.VoidType(), [_at(builder, *args, offset, _BYTE), *how])
            return context.get_dummy_value()

        return types.void(types.intp), generate

    return fetch


fetch_narrow, fetch_wide = _fetching(NARROW), _fetching(WIDE)


class _Bytes:
    """Sums of products of four bytes without a sign, of each of some lanes, with four that have one.

    Without AVX-512 each lane has two sums of 16 bits on the way, of up to `most` products of bits.
    """

    def __init__(self, builder: Any) -> None:
        self._builder, self.wide = builder, "+avx512vnni" in _features()
        self.lanes = 16 if self.wide else 8
        self.sums = ir.VectorType(_INDEX, self.lanes)
        self.held = self.sums if self.wide else ir.VectorType(_SHORT, 16)
        self.most = 0 if self.wide else 2**15 // (2 * 2**7) - 1

    def added(self, held: Any, lanes: Any, row: Any) -> Any:
        """Return what is held with the products; lanes hold bits."""
        if self.wide:
            return _call(self._builder, "llvm.x86.avx512.vpdpbusd.512", self.sums, [held, lanes, row])
        bytes_of = [self._builder.bitcast(one, ir.VectorType(_BYTE, 32)) for one in (lanes, row)]
        return self._builder.add(held, _call(self._builder, "llvm.x86.avx2.pmadd.ub.sw", self.held, bytes_of))

    def joined(self, total: Any, held: Any) -> Any:
        """Return the sums with what is held."""
        if not self.wide:
            halves = [held, ir.Constant(self.held, [1] * 16)]
            held = _call(self._builder, "llvm.x86.avx2.pmadd.wd", self.sums, halves)
        return self._builder.add(total, held)


@intrinsic
def add_forms(typing: Any, rows: Any, next_row: Any, bits: Any, n_groups: Any, own: Any, sums: Any) -> Any:
    """Add sum_i x_i sum_j R_ij x_j of `ROWS` rows i to the sums (`LANES`,) int32, x being other bits in each lane.

    `bits` (n_groups, `LANES`, 4) are the bytes x_j of every four columns j, and `own` points to those of the rows.
    Only where `multiplies_bytes`.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        rows, next_row, bits, n_groups, own, sums = args
        code = _Bytes(builder)
        size, none = 4 * code.lanes, ir.Constant(code.sums, [0] * code.lanes)
        vectors, tall = LANES // code.lanes, ROWS if code.wide else ROWS // 4
        starts = [builder.add(rows, _times(builder, ir.Constant(_ADDRESS, k), next_row)) for k in range(ROWS)]
        some = ir.Constant(_ADDRESS, code.most) if code.most else n_groups
        for first in range(0, ROWS, tall):
            totals, places = (
                [[cgutils.alloca_once(builder, kind) for _ in range(vectors)] for _ in range(tall)]
                for kind in (code.sums, code.held)
            )
            for total in (total for row in totals for total in row):
                builder.store(none, total)
            with cgutils.for_range_slice(builder, ir.Constant(_ADDRESS, 0), n_groups, some) as (begin, _):
                for place in (place for row in places for place in row):
                    builder.store(ir.Constant(code.held, [0] * code.held.count), place)
                left = builder.sub(n_groups, begin)
                n = builder.select(builder.icmp_signed("<", left, some), left, some)
                with cgutils.for_range(builder, n) as loop:
                    group = builder.add(begin, loop.index)
                    here = _times(builder, group, 4 * LANES)
                    lanes = [
                        _load(builder, bits, builder.add(here, ir.Constant(_ADDRESS, size * v)), code.sums)
                        for v in range(vectors)
                    ]
                    for k in range(tall):
                        four = _load(builder, starts[first + k], _times(builder, group, 4), _INDEX)
                        four = _everywhere(builder, four, code.sums)
                        for v in range(vectors):
                            held = builder.load(places[k][v])
                            builder.store(code.added(held, lanes[v], four), places[k][v])
                for total, place in ((totals[k][v], places[k][v]) for k in range(tall) for v in range(vectors)):
                    builder.store(code.joined(builder.load(total), builder.load(place)), total)
            for v in range(vectors):
                place = _at(builder, sums, size * v, code.sums)
                whole = builder.load(place, align=4)
                for k in range(tall):
                    group, octet = divmod(first + k, 4)
                    held = _load(builder, own, 4 * LANES * group + size * v, code.sums)
                    up = builder.and_(held, ir.Constant(code.sums, [1 << 8 * octet] * code.lanes))
                    mine = builder.select(builder.icmp_unsigned("!=", up, none), builder.load(totals[k][v]), none)
                    whole = builder.add(whole, mine)
                builder.store(whole, place, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 6), generate


def _moving(size: int) -> Any:
    """Make a function that adds rows of integers to `size` bytes of a field, and subtracts others.

    Its arguments are an array of such integers, of which only the type is looked at; where the field is, and where the
    rows, up to 64 of them, are counted from; the address of how far each is from there (int64, bytes); and two words,
    whose bits tell which rows are added and which are subtracted.
    """

    @intrinsic
    def move_field(typing: Any, like: Any, field: Any, rows: Any, distances: Any, added: Any, subtracted: Any) -> Any:
        bits = like.dtype.bitwidth
        kind = ir.VectorType(ir.IntType(bits), 8 * VECTOR // bits)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, field, rows, distances, *words = args
            offsets = range(0, size, VECTOR)
            sums = [cgutils.alloca_once_value(builder, _load(builder, field, offset, kind)) for offset in offsets]
            for word, join in zip(words, (builder.add, builder.sub), strict=True):
                rest = cgutils.alloca_once_value(builder, word)
                with cgutils.for_range(builder, builder.ctpop(word)):
                    left = builder.load(rest)
                    builder.store(builder.and_(left, builder.sub(left, ir.Constant(_ADDRESS, 1))), rest)
                    k = builder.cttz(left, ir.Constant(_BIT, 1))
                    row = builder.add(rows, _load(builder, distances, _times(builder, k, 8), _ADDRESS))
                    for register, offset in zip(sums, offsets, strict=True):
                        joined = join(builder.load(register), _load(builder, row, offset, kind))
                        builder.store(joined, register)
            for register, offset in zip(sums, offsets, strict=True):
                builder.store(builder.load(register), _at(builder, field, offset, kind), align=1)
            return context.get_dummy_value()

        return types.void(like, types.intp, types.intp, types.intp, types.uint64, types.uint64), generate

    return move_field


move_narrow, move_wide = _moving(NARROW), _moving(WIDE)


def _attempting(gibbs: bool) -> Any:
    """Make a function that makes an attempt at a unit in `GROUP` chains, and returns the bits of those that flip.

    Its arguments are an array of integers as fields have, of which only the type is looked at; where in a window the
    unit's fields are; where those are that change with it, `UNROLLED` units after `UNROLLED`, how often, and where its
    couplings to these; where there is how much all fields are too low, by one for each unit that has gone down, as ~x
    is subtracted more simply than x; where the limits are, the bits, and the words of moves (uint64) for what goes up,
    and how far behind them those for what goes down; the bit of this attempt in these; and the bits of chains that
    there are.
    """

    @intrinsic
    def attempt(
        typing: Any, like: Any, own: Any, fields: Any, n_next: Any, numbers: Any, lacks: Any, limits: Any, bits: Any,
        moves: Any, next_moves: Any, mark: Any, chains: Any,
    ) -> Any:  # fmt: skip
        size = like.dtype.bitwidth // 8
        kind, words, octets = (ir.VectorType(ir.IntType(8 * width), GROUP) for width in (size, 8, 1))

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            _, own, fields, n_next, numbers, lacks, limits, bits, moves, next_moves, mark, chains = args
            lack, held = _load(builder, lacks, 0, kind), _load(builder, bits, 0, octets)
            here, limit = builder.add(_load(builder, own, 0, kind), lack), _load(builder, limits, 0, kind)
            is_up = builder.icmp_unsigned("!=", held, ir.Constant(octets, [0] * GROUP))
            if gibbs:
                flips = builder.xor(builder.icmp_signed(">", here, limit), is_up)
            else:
                flips = builder.icmp_signed(">=", builder.select(is_up, builder.neg(here), here), limit)
            flips = builder.and_(flips, builder.bitcast(builder.trunc(chains, _SHORT), is_up.type))
            word = builder.bitcast(flips, _SHORT)
            with builder.if_then(builder.icmp_unsigned("!=", word, ir.Constant(_SHORT, 0))):
                ways = builder.and_(flips, builder.not_(is_up)), builder.and_(flips, is_up)
                builder.store(builder.xor(held, builder.zext(flips, octets)), _at(builder, bits, 0, octets), align=1)
                for place, way in zip((moves, builder.add(moves, next_moves)), ways, strict=True):
                    before, marks = _load(builder, place, 0, words), _everywhere(builder, mark, words)
                    marked = builder.select(way, builder.or_(before, marks), before)
                    builder.store(marked, _at(builder, place, 0, words), align=1)
                turned, chosen = builder.sext(ways[1], kind), builder.sext(flips, kind)
                builder.store(builder.sub(lack, turned), _at(builder, lacks, 0, kind), align=1)
                with cgutils.for_range(builder, n_next) as loop:
                    first = builder.add(fields, _times(builder, loop.index, UNROLLED * GROUP * size))
                    of_first = builder.add(numbers, _times(builder, loop.index, UNROLLED * size))
                    for k in range(UNROLLED):
                        number = _everywhere(builder, _load(builder, of_first, k * size, kind.element), kind)
                        place = builder.add(first, ir.Constant(_ADDRESS, k * GROUP * size))
                        change = builder.and_(builder.xor(number, turned), chosen)
                        field = builder.add(_load(builder, place, 0, kind), change)
                        builder.store(field, _at(builder, place, 0, kind), align=1)
            return builder.zext(word, _ADDRESS)

        return types.uint64(like, *[types.intp] * 9, types.uint64, types.uint64), generate

    return attempt


attempt_gibbs, attempt_metropolis = _attempting(True), _attempting(False)
