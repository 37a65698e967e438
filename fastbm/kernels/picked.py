"""Vector code for rows that bits pick: where bits are set, sums of such rows, and bits that are turned.

All are addresses, distances in bytes, and numbers of things.
"""

from __future__ import annotations

from typing import Any

from .jit import cgutils, intrinsic, ir, types
from .vectors import ROWS, Code, has_look_up

_FLOAT, _INDEX, _BIT, _SHORT, _ADDRESS = ir.FloatType(), ir.IntType(32), ir.IntType(1), ir.IntType(16), ir.IntType(64)
_BYTE = ir.IntType(8)
_VECTOR, _WORDS = ir.VectorType(_FLOAT, 16), ir.VectorType(_INDEX, 16)
_NO_WORDS = ir.Constant(_WORDS, [0] * 16)
_PLACES = [[*(k for k in range(8) if byte >> k & 1), *[0] * (8 - byte.bit_count())] for byte in range(256)]


def _picked(n_vectors: int) -> Any:
    """Make a function that adds picked rows to a total of `n_vectors` vectors, which stays in registers.

    Its arguments are addresses and distances in bytes: of the total; of the rows, and from row to row; of the numbers
    (int32) of those that are picked; and how many these are.
    """

    @intrinsic
    def add_rows(typing: Any, total: Any, rows: Any, next_row: Any, places: Any, n_places: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            total, rows, next_row, places, n_places = args
            code = Code(builder)
            targets = [code.at(total, _VECTOR, None, 64 * v) for v in range(n_vectors)]
            sums = [code.kept(target) for target in targets]
            with cgutils.for_range(builder, n_places) as loop:
                place = builder.sext(code.load(places, _INDEX, (loop.index, 4), 0), _ADDRESS)
                for v, register in enumerate(sums):
                    row = code.load(rows, _VECTOR, (place, next_row), 64 * v)
                    builder.store(builder.fadd(builder.load(register), row), register)
            for register, target in zip(sums, targets, strict=True):
                builder.store(builder.load(register), target, align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), generate

    return add_rows


PICKED, PICKED_WIDE = 64, 128  # columns; the wide ones fill more registers than processors without look-ups have
add_picked = _picked(PICKED // 16)
add_picked_wide = _picked(PICKED_WIDE // 16)


@intrinsic
def list_places(typing: Any, places: Any, word: Any, first: Any) -> Any:
    """Write at an address, as int32, where the bits of a word of 16 are set, counted from `first`; return how many are.

    It may write to all of 16 places.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places, word, first = args
        code, short, first = Code(builder), builder.trunc(word, _SHORT), builder.trunc(first, _INDEX)
        if has_look_up():
            numbers = builder.add(code.everywhere(first, _WORDS), ir.Constant(_WORDS, list(range(16))))
            kind = ir.FunctionType(_WORDS, [_WORDS, _WORDS, ir.VectorType(_BIT, 16)])
            compress = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.mask.compress.v16i32")
            mask = builder.bitcast(short, ir.VectorType(_BIT, 16))
            builder.store(builder.call(compress, [numbers, numbers, mask]), code.at(places, _WORDS, None, 0), align=4)
            return builder.ctpop(builder.zext(short, _ADDRESS))
        kind = ir.ArrayType(ir.ArrayType(_BYTE, 8), 256)
        table = builder.ptrtoint(
            cgutils.global_constant(builder, "places_of_bits", ir.Constant(kind, _PLACES)), _ADDRESS
        )
        n, few = ir.Constant(_ADDRESS, 0), ir.VectorType(_INDEX, 8)
        for start in (0, 8):
            byte = builder.and_(builder.lshr(short, ir.Constant(_SHORT, start)), ir.Constant(_SHORT, 255))
            byte = builder.zext(byte, _ADDRESS)
            listed = builder.zext(code.load(table, ir.VectorType(_BYTE, 8), (byte, 8), 0), few)
            numbers = code.everywhere(builder.add(first, ir.Constant(_INDEX, start)), few)
            builder.store(builder.add(listed, numbers), code.at(places, few, (n, 4), 0), align=4)
            n = builder.add(n, builder.ctpop(byte))
        return n

    return types.intp(types.intp, types.intp, types.intp), generate


@intrinsic
def turn_square(typing: Any, target: Any, source: Any, next_source: Any, n: Any) -> Any:
    """Write, for each of 32 units, a word (uint16) of n <= 16 lanes, given words (uint32) of 32 units of each lane.

    All are addresses, but for the distance in bytes from lane to lane, and n. Bits beyond n are 0.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, source, next_source, n = args
        code, words = Code(builder), _NO_WORDS
        for k in range(16):
            lane = ir.Constant(_ADDRESS, k)
            lane = builder.select(builder.icmp_signed("<", lane, n), lane, ir.Constant(_ADDRESS, 0))
            words = builder.insert_element(
                words, code.load(source, _INDEX, (lane, next_source), 0), ir.Constant(_INDEX, k)
            )
        known = builder.sub(builder.shl(ir.Constant(_ADDRESS, 1), n), ir.Constant(_ADDRESS, 1))
        known = builder.bitcast(builder.trunc(known, _SHORT), ir.VectorType(_BIT, 16))
        words = builder.select(known, words, _NO_WORDS)
        for k in range(ROWS):
            bits = builder.and_(words, ir.Constant(_WORDS, [1 << k] * 16))
            short = builder.bitcast(builder.icmp_unsigned("!=", bits, _NO_WORDS), _SHORT)
            builder.store(short, code.at(target, _SHORT, None, 2 * k), align=2)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 4), generate
