"""Vector code for sums over pairs of units: in float64, and of those that are up in integers modulo 2^32.

See `fastbm.kernels.vectors`.
"""

from __future__ import annotations

from typing import Any

from .jit import cgutils, intrinsic, ir, types
from .vectors import COLUMNS, ROWS, TABLES

_INDEX, _ADDRESS = ir.IntType(32), ir.IntType(64)
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
            for tables, words, n_words in (layers[:3], layers[3:]):
                with cgutils.for_range(builder, n_words) as loop:
                    bits = [load(words, loop.index, next_word, 64 * v, _WORDS) for v in vectors]
                    held = [[builder.load(register) for register in row] for row in sums]
                    for group in range(ROWS // 4):
                        here = [
                            load(tables, loop.index, TABLES, 64 * (COLUMNS * group + j), _WORDS) for j in range(COLUMNS)
                        ]
                        for v in vectors:
                            entries = builder.lshr(bits[v], ir.Constant(_WORDS, [4 * group] * 16))
                            for j in range(COLUMNS):
                                held[j][v] = builder.add(held[j][v], builder.call(look_up, [here[j], entries]))
                    for row, values in zip(sums, held, strict=True):
                        for register, value in zip(row, values, strict=True):
                            builder.store(value, register)
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
add_forms = _forms(1)


def _pairs(n_lanes: int) -> Any:
    """Make a function that subtracts from `n_lanes` energies the pairs of a unit with those before it, and its bias.

    Its arguments are addresses and distances in bytes: of the energies, the values of all units, from unit to unit,
    the weights of this one, from weight to weight, and its bias for each lane; and the number of the unit. All are
    float64. Sums stay in registers, which LLVM does not do of arrays that might be one.
    """
    number = ir.DoubleType()
    lanes, spread = ir.VectorType(number, n_lanes), ir.Constant(ir.VectorType(_INDEX, n_lanes), [0] * n_lanes)

    @intrinsic
    def subtract_pairs(
        typing: Any, energies: Any, values: Any, next_unit: Any, weights: Any, next_weight: Any, bias: Any, unit: Any
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            energies, values, next_unit, weights, next_weight, bias, unit = args

            def at(place: Any, times: Any, distance: Any, kind: Any) -> Any:
                return builder.inttoptr(builder.add(place, builder.mul(times, distance)), kind.as_pointer())

            here = builder.inttoptr(energies, lanes.as_pointer())
            field = cgutils.alloca_once_value(
                builder, builder.load(builder.inttoptr(bias, lanes.as_pointer()), align=8)
            )
            with cgutils.for_range(builder, unit) as loop:
                weight = builder.load(at(weights, loop.index, next_weight, number), align=8)
                nothing = ir.Constant(lanes, ir.Undefined)
                first = builder.insert_element(nothing, weight, ir.Constant(_INDEX, 0))
                everywhere = builder.shuffle_vector(first, nothing, spread)
                value = builder.load(at(values, loop.index, next_unit, lanes), align=8)
                builder.store(builder.fadd(builder.load(field), builder.fmul(everywhere, value)), field)
            own = builder.load(at(values, unit, next_unit, lanes), align=8)
            less = builder.fmul(own, builder.load(field))
            builder.store(builder.fsub(builder.load(here, align=8), less), here, align=8)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return subtract_pairs


def _edges(n_lanes: int) -> Any:
    """Make a function that does what `subtract_pairs` does of neighbours before a unit, told by what is up.

    Its arguments are addresses, and a distance in bytes: of `n_lanes` energies, of what is up (uint8), from unit to
    unit, of the neighbours' numbers (int32) and weights, and of the bias for each lane; the number of the unit; how
    many neighbours these are; and the values of units that are down and up. Products are made once for all lanes.
    """
    number, octet = ir.DoubleType(), ir.IntType(8)
    lanes, octets = ir.VectorType(number, n_lanes), ir.VectorType(octet, n_lanes)
    spread = ir.Constant(ir.VectorType(_INDEX, n_lanes), [0] * n_lanes)

    @intrinsic
    def subtract_edges(
        typing: Any, energies: Any, up: Any, next_unit: Any, others: Any, weights: Any, bias: Any, unit: Any, n: Any,
        low: Any, high: Any,
    ) -> Any:  # fmt: skip
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            energies, up, next_unit, others, weights, bias, unit, n, *values = args

            def at(place: Any, times: Any, distance: Any, kind: Any) -> Any:
                distance = ir.Constant(_ADDRESS, distance) if isinstance(distance, int) else distance
                return builder.inttoptr(builder.add(place, builder.mul(times, distance)), kind.as_pointer())

            def chosen(unit: Any, down: Any, up_: Any) -> Any:
                """Return one of two numbers for each lane, by whether a unit is up."""
                bits = builder.load(at(up, unit, next_unit, octets), align=1)
                nothing, no_bits = ir.Constant(lanes, ir.Undefined), ir.Constant(octets, [0] * n_lanes)
                both = [builder.insert_element(nothing, one, ir.Constant(_INDEX, 0)) for one in (down, up_)]
                both = [builder.shuffle_vector(one, nothing, spread) for one in both]
                return builder.select(builder.icmp_unsigned("!=", bits, no_bits), both[1], both[0])

            here, start = (builder.inttoptr(place, lanes.as_pointer()) for place in (energies, bias))
            field = cgutils.alloca_once_value(builder, builder.load(start, align=8))
            with cgutils.for_range(builder, n) as loop:
                other = builder.sext(builder.load(at(others, loop.index, 4, _INDEX), align=4), _ADDRESS)
                weight = builder.load(at(weights, loop.index, 8, number), align=8)
                terms = (builder.fmul(weight, value) for value in values)
                builder.store(builder.fadd(builder.load(field), chosen(other, *terms)), field)
            less = builder.fmul(chosen(unit, *values), builder.load(field))
            builder.store(builder.fsub(builder.load(here, align=8), less), here, align=8)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8, types.float64, types.float64), generate

    return subtract_edges


PAIRED, PAIRED_WIDE = 16, 32  # lanes; the wide ones hide how long an addition takes
subtract_pairs, subtract_pairs_wide = _pairs(PAIRED), _pairs(PAIRED_WIDE)
subtract_edges, subtract_edges_wide = _edges(PAIRED), _edges(PAIRED_WIDE)
