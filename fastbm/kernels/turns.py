"""Vector code that no loop compiles to: whole numbers of units that are up, and sums of them.

Numbers are told by a float near them and by their lowest 16 bits. Sums stay in registers while units are gone through.
Loops over lanes for one unit after the other are compiled with checks of which arrays might overlap, and take twice the
time.
"""

from __future__ import annotations

from typing import Any

from .jit import cgutils, intrinsic, ir, types

LANES, COLUMNS = 16, 4
_FLOAT, _INT, _ADDRESS = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_FLOATS, _INTS = ir.VectorType(_FLOAT, LANES), ir.VectorType(_INT, LANES)
_WHOLE = 1.5 * 2.0**23  # has float32 up to 2^22 rounded to whole numbers where it is added
_BITS_OF_WHOLE = 0x4B400000
_LOW = 0xFFFF
_SIZE = 4 * LANES


def _ints(number: int) -> Any:
    return ir.Constant(_INTS, [number] * LANES)


def _floats(number: float) -> Any:
    return ir.Constant(_FLOATS, [number] * LANES)


class _Code:
    """The code for one vector of lanes."""

    def __init__(self, builder: Any) -> None:
        self._b = builder

    def everywhere(self, number: Any) -> Any:
        """Return a vector of which every lane is one number."""
        nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
        one = self._b.insert_element(nothing, number, ir.Constant(_INT, 0))
        return self._b.shuffle_vector(one, nothing, _ints(0))

    def at(self, start: Any, kind: Any) -> Any:
        return self._b.inttoptr(start, kind.as_pointer())

    def load(self, start: Any, kind: Any) -> Any:
        return self._b.load(self.at(start, kind), align=4)

    def turns(self, field: Any, scale: Any, low: Any) -> Any:
        """Return how many times 2^16, beyond what `low` says, make the number that is nearest to a field."""
        b = self._b
        near = b.fmul(self.load(field, _FLOATS), scale)
        above = b.fadd(near, _floats(_WHOLE))
        part = b.fsub(near, b.fsub(above, _floats(_WHOLE)))
        less = b.fmul(b.sitofp(low, _FLOATS), _floats(2.0**-16), flags=("contract",))
        beyond = b.fadd(b.fsub(part, less, flags=("contract",)), _floats(_WHOLE))
        both = b.add(b.bitcast(above, _INTS), b.bitcast(beyond, _INTS))
        return b.sub(both, _ints(2 * _BITS_OF_WHOLE & 0xFFFFFFFF))

    def add(self, place: Any, number: Any, value: Any) -> None:
        """Add numbers to those of units that are up."""
        b = self._b
        is_up = b.icmp_unsigned("!=", self.load(value, _INTS), _ints(0))
        b.store(b.add(b.load(place), b.select(is_up, number, _ints(0))), place)


@intrinsic
def add_turns(
    typing: Any, high: Any, low: Any, sums: Any, next_sum: Any, fields: Any, next_field: Any, values: Any,
    next_value: Any, n_units: Any, n_lanes: Any, scale: Any,
) -> Any:  # fmt: skip
    """Add whole numbers of units that are up, the multiples of 2^16 to `high`, and what is beyond to `low`.

    The arguments are addresses, and distances in bytes from row to row: of both totals (n_lanes,) int32; of `sums`
    (n_units / 2, n_lanes) int32, whose lowest 16 bits are those of the number of a unit, and whose others are those of
    the one after it, with both numbers added up; of fields and of values (n_units, n_lanes) float32, these 0 or 1;
    then the numbers of units and of lanes, a multiple of `LANES`, and how many 2^16 are 1 in a field (float32), near
    which the numbers are, by less than 2^15.
    Cost: 14 vector operations a unit and `LANES` lanes.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        b = builder
        high, low, sums, next_sum, fields, next_field, values, next_value, n_units, n_lanes, scale = args
        code, one = _Code(b), ir.Constant(_ADDRESS, 1)
        scales = code.everywhere(scale)
        steps = b.shl(next_field, one), b.shl(next_value, one)
        totals = [cgutils.alloca_once(b, _INTS) for _ in range(2)]
        vectors = b.udiv(n_lanes, ir.Constant(_ADDRESS, LANES))
        with cgutils.for_range(b, vectors) as loop:
            here = b.mul(loop.index, ir.Constant(_ADDRESS, _SIZE))
            places = [code.at(b.add(start, here), _INTS) for start in (high, low)]
            for total, place in zip(totals, places, strict=True):
                b.store(b.load(place, align=4), total)
            starts = [b.add(start, here) for start in (sums, fields, values)]

            def first_of_two(k: Any) -> tuple[Any, Any, Any, Any]:
                sum_ = code.load(b.add(starts[0], b.mul(k, next_sum)), _INTS)
                field, value = (b.add(start, b.mul(k, step)) for start, step in zip(starts[1:], steps, strict=True))
                own = b.and_(sum_, _ints(_LOW))
                turns = code.turns(field, scales, own)
                code.add(totals[0], turns, value)
                code.add(totals[1], own, value)
                return sum_, turns, field, value

            with cgutils.for_range(b, b.lshr(n_units, one)) as pairs:
                sum_, turns, field, value = first_of_two(pairs.index)
                left = b.and_(b.sub(b.lshr(sum_, _ints(16)), turns), _ints(_LOW))
                field, value = b.add(field, next_field), b.add(value, next_value)
                code.add(totals[0], code.turns(field, scales, left), value)
                code.add(totals[1], left, value)
            with b.if_then(b.trunc(n_units, ir.IntType(1))):
                first_of_two(b.lshr(n_units, one))
            for total, place in zip(totals, places, strict=True):
                b.store(b.load(total), place, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 10, types.float32), generate


@intrinsic
def add_integers(
    typing: Any, sums: Any, next_sum: Any, integers: Any, next_integer: Any, values: Any, next_value: Any, n_units: Any,
    n_lanes: Any,
) -> Any:  # fmt: skip
    """Add the integers of units that are up to `COLUMNS` rows of sums.

    The arguments are addresses, and distances in bytes from row to row: of the sums (`COLUMNS`, n_lanes) int32; of as
    many integers, int32, side by side for each unit; and of values (n_units, n_lanes) float32, 0 or 1; then the numbers
    of units and of lanes, a multiple of `LANES`.
    Cost: two vector operations for each sum, a unit and `LANES` lanes.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        b = builder
        sums, next_sum, integers, next_integer, values, next_value, n_units, n_lanes = args
        code = _Code(b)
        totals = [cgutils.alloca_once(b, _INTS) for _ in range(COLUMNS)]
        with cgutils.for_range(b, b.udiv(n_lanes, ir.Constant(_ADDRESS, LANES))) as loop:
            here = b.mul(loop.index, ir.Constant(_ADDRESS, _SIZE))
            rows = [b.add(sums, b.mul(next_sum, ir.Constant(_ADDRESS, k))) for k in range(COLUMNS)]
            places = [code.at(b.add(row, here), _INTS) for row in rows]
            for total, place in zip(totals, places, strict=True):
                b.store(b.load(place, align=4), total)
            with cgutils.for_range(b, n_units) as units:
                own = b.add(integers, b.mul(units.index, next_integer))
                value = b.add(b.add(values, here), b.mul(units.index, next_value))
                for k, total in enumerate(totals):
                    integer = code.load(b.add(own, ir.Constant(_ADDRESS, 4 * k)), _INT)
                    code.add(total, code.everywhere(integer), value)
            for total, place in zip(totals, places, strict=True):
                b.store(b.load(total), place, align=4)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 8), generate
