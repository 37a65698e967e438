"""Vector code for sums over pairs of units that are up, in integers modulo 2^32; see `fastbm.kernels.vectors`."""

from __future__ import annotations

from typing import Any

from .jit import cgutils, intrinsic, ir, types
from .vectors import COLUMNS, ROWS, TABLES, fetch

_BYTE, _INDEX, _ADDRESS = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_FLOATS, _WORDS = ir.VectorType(ir.FloatType(), 16), ir.VectorType(_INDEX, 16)


def _forms(n_vectors: int) -> Any:
    """Make a function that adds `COLUMNS` units' fields, where they are up, to sums of `n_vectors` vectors of lanes.

    The arguments are addresses and distances in bytes: of the sums `near` float32 and `rest` int32; of the fields,
    from row to row; of what they are, 0 or 1, float32; and of what is added to these fields in integers, where all
    units are down; then, for each of two layers beside, of the tables of sums of its units, of the words that say which
    of them are up, and the number of words; and from word to word.
    """

    @intrinsic
    def add_forms(
        typing: Any, near: Any, rest: Any, fields: Any, next_field: Any, up: Any, next_up: Any, start: Any,
        next_start: Any, below: Any, words_below: Any, n_below: Any, above: Any, words_above: Any, n_above: Any,
        next_word: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            near, rest, fields, next_field, up, next_up, start, next_start, *layers, next_word = args
            vectors = range(n_vectors)

            def at(place: Any, times: Any, distance: Any, offset: int, kind: Any) -> Any:
                times = ir.Constant(_ADDRESS, times) if isinstance(times, int) else times
                distance = ir.Constant(_ADDRESS, distance) if isinstance(distance, int) else distance
                place = builder.add(builder.add(place, builder.mul(times, distance)), ir.Constant(_ADDRESS, offset))
                return builder.inttoptr(place, kind.as_pointer())

            def load(*where: Any) -> Any:
                return builder.load(at(*where), align=4)

            kind = ir.FunctionType(_WORDS, [_WORDS, _WORDS])
            look_up = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512.permvar.si.512")
            sums = [
                [cgutils.alloca_once_value(builder, load(start, j, next_start, 64 * v, _WORDS)) for v in vectors]
                for j in range(COLUMNS)
            ]
            left = [cgutils.alloca_once(builder, _WORDS) for _ in vectors]
            # loops, as code of every case would be compiled that much longer
            with cgutils.for_range(builder, ir.Constant(_ADDRESS, 2)) as side:
                is_below = builder.icmp_unsigned("==", side.index, ir.Constant(_ADDRESS, 0))
                tables, words, n_words = (
                    builder.select(is_below, *two) for two in zip(layers[:3], layers[3:], strict=True)
                )
                with cgutils.for_range(builder, n_words) as loop:
                    for v in vectors:
                        builder.store(load(words, loop.index, next_word, 64 * v, _WORDS), left[v])
                    of_word = builder.add(tables, builder.mul(loop.index, ir.Constant(_ADDRESS, TABLES)))
                    with cgutils.for_range(builder, ir.Constant(_ADDRESS, ROWS // 4)) as group:
                        here = [load(of_word, group.index, 64 * COLUMNS, 64 * j, _WORDS) for j in range(COLUMNS)]
                        for j in range(COLUMNS * (n_vectors > 1)):
                            fetch(builder, at(of_word, group.index, 64 * COLUMNS, TABLES + 64 * j, _BYTE))
                        for v in vectors:
                            entries = builder.load(left[v])
                            builder.store(builder.lshr(entries, ir.Constant(_WORDS, [4] * 16)), left[v])
                            for j in range(COLUMNS):
                                found = builder.call(look_up, [here[j], entries])
                                builder.store(builder.add(builder.load(sums[j][v]), found), sums[j][v])
            nothing = ir.Constant(_WORDS, [0] * 16)
            for v in vectors:
                nears, rests = (load(place, 0, 0, 64 * v, of) for place, of in ((near, _FLOATS), (rest, _WORDS)))
                for j in range(COLUMNS):
                    bits = load(up, j, next_up, 64 * v, _FLOATS)
                    is_up = builder.fcmp_unordered("!=", bits, ir.Constant(_FLOATS, [0.0] * 16))
                    nears = builder.fadd(nears, builder.fmul(load(fields, j, next_field, 64 * v, _FLOATS), bits))
                    rests = builder.add(rests, builder.select(is_up, builder.load(sums[j][v]), nothing))
                for place, of, value in ((near, _FLOATS, nears), (rest, _WORDS, rests)):
                    builder.store(value, at(place, 0, 0, 64 * v, of), align=4)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 15), generate

    return add_forms


add_forms_wide = _forms(4)
add_forms_half = _forms(2)
add_forms = _forms(1)
