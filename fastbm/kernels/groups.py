"""Vector code that no loop compiles to: units of one chain drawn side by side, a group of sixteen at once.

No two units of a group are neighbours. Bits of the chain are bytes in the order of the groups. What neighbours add
stands in slots, one neighbour of each unit of the group; where these follow one another, as on lattices, their bits are
one load, else they are gathered.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .jit import cgutils, config, get_host_cpu_features, intrinsic, ir, types

SIDE = 16  # units of a group
SPARE = 16  # bytes of the chain before the first unit and after the last one
_BYTE, _INT, _ADDRESS = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES, _INTS, _MASK = (ir.VectorType(ir.IntType(k), SIDE) for k in (8, 32, 1))


@cache
def has_gather() -> bool:
    """Tell whether the processor that kernels are compiled for loads sixteen entries from sixteen places at once."""
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else get_host_cpu_features()
    return "+avx512f" in features.split(",")


@intrinsic
def draw_group(
    typing: Any, g: Any, bits: Any, bounds: Any, bases: Any, neighbours: Any, rises: Any, start: Any, limits: Any,
    first_limit: Any, places: Any, hold: Any,
) -> Any:  # fmt: skip
    """Draw the units of group `g`, by Gibbs if `hold` is None, and return the number of flips. Mutates `bits`.

    `bits` uint8 has unit `lane` at SPARE + 16 g + lane. `start` (groups, 16) are the fields with all units down; slots
    from bounds[g] to bounds[g + 1] have `neighbours` and `rises` (slots, 16), the neighbours being places in `bits`;
    where `bases` is not negative they follow it. Limits follow first_limit[g], or where that is negative are at
    places[g] of `limits`. All arrays are contiguous, indices int32.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses = [
            builder.ptrtoint(context.make_array(kind)(context, builder, value).data, _ADDRESS)
            for kind, value in zip(signature.args[1:10], args[1:10], strict=True)
        ]
        return _Group(builder, rises.dtype.bitwidth, args[0], *addresses).generate(gibbs=hold is types.none)

    arguments = (types.intp, bits, bounds, bases, neighbours, rises, start, limits, first_limit, places, hold)
    return types.intp(*arguments), generate


class _Group:
    """The code of a group."""

    def __init__(
        self, builder: Any, width: int, g: Any, bits: Any, bounds: Any, bases: Any, neighbours: Any, rises: Any,
        start: Any, limits: Any, first_limit: Any, places: Any,
    ) -> None:  # fmt: skip
        self._b, self._number = builder, ir.IntType(width)
        self._numbers, self._size = ir.VectorType(self._number, SIDE), width // 8
        self._g, self._bits, self._bounds, self._bases, self._neighbours = g, bits, bounds, bases, neighbours
        self._rises, self._start, self._limits, self._first_limit, self._places = (
            rises, start, limits, first_limit, places,
        )  # fmt: skip

    def generate(self, *, gibbs: bool) -> Any:
        b, nothing = self._b, ir.Constant(_BYTES, [0] * SIDE)
        row = b.mul(self._g, _address(SIDE * self._size))
        sums = cgutils.alloca_once_value(b, b.load(self._at(b.add(self._start, row), self._numbers), align=4))
        last = self._integer(self._bounds, b.add(self._g, _address(1)))
        with cgutils.for_range(b, last, start=self._integer(self._bounds, self._g)) as loop:
            up, field = self._neighbours_up(loop.index), b.load(sums)
            place = b.add(self._rises, b.mul(loop.index, _address(SIDE * self._size)))
            rise = b.load(self._at(place, self._numbers), align=4)
            b.store(b.select(up, b.add(field, rise), field), sums)
        own = self._at(b.add(self._bits, b.mul(self._g, _address(SIDE))), _BYTES, SPARE)
        old = b.icmp_unsigned("!=", b.load(own, align=1), nothing)
        field, limit = b.load(sums), self._limit()
        if gibbs:
            new = b.icmp_signed(">", field, limit)
            flips = b.xor(new, old)
        else:
            zeros = ir.Constant(self._numbers, [0] * SIDE)
            flips = b.icmp_signed(">=", b.select(old, b.sub(zeros, field), field), limit)
            new = b.xor(flips, old)
        b.store(b.zext(new, _BYTES), own, align=1)
        return b.zext(b.ctpop(b.bitcast(flips, ir.IntType(SIDE))), _ADDRESS)

    def _neighbours_up(self, slot: Any) -> Any:
        """Return which of the neighbours in a slot are up."""
        b, found = self._b, cgutils.alloca_once(self._b, _BYTES)
        base = self._integer(self._bases, slot)
        with b.if_else(b.icmp_signed(">=", base, _address(0))) as (follow, scattered):
            with follow:
                b.store(b.load(self._at(b.add(self._bits, base), _BYTES), align=1), found)
            with scattered:
                row = b.add(self._neighbours, b.mul(slot, _address(4 * SIDE)))
                places = b.load(self._at(row, _INTS), align=4)
                b.store(self._gathered(self._bits, places, _BYTE), found)
        return b.icmp_unsigned("!=", b.load(found), ir.Constant(_BYTES, [0] * SIDE))

    def _limit(self) -> Any:
        """Return the limits of the group."""
        b, found = self._b, cgutils.alloca_once(self._b, self._numbers)
        first = self._integer(self._first_limit, self._g)
        with b.if_else(b.icmp_signed(">=", first, _address(0))) as (follow, scattered):
            with follow:
                place = b.add(self._limits, b.mul(first, _address(self._size)))
                b.store(b.load(self._at(place, self._numbers), align=4), found)
            with scattered:
                row = b.add(self._places, b.mul(self._g, _address(4 * SIDE)))
                b.store(self._gathered(self._limits, b.load(self._at(row, _INTS), align=4), self._number), found)
        return b.load(found)

    def _gathered(self, start: Any, places: Any, kind: Any) -> Any:
        """Return what is at so many places from an address on."""
        b, size = self._b, kind.width // 8
        if size < 8 and has_gather():
            pointer, vector = self._at(start, _BYTE), _INTS
            signature = ir.FunctionType(_INTS, [_INTS, pointer.type, _INTS, _MASK, _INT])
            gather = cgutils.get_or_insert_function(b.module, signature, "llvm.x86.avx512.mask.gather.dpi.512")
            all_lanes, nothing = ir.Constant(_MASK, [1] * SIDE), ir.Constant(vector, [0] * SIDE)
            found = b.call(gather, [nothing, pointer, places, all_lanes, ir.Constant(_INT, size)])
            return found if size == 4 else b.trunc(found, _BYTES)
        found = ir.Constant(ir.VectorType(kind, SIDE), ir.Undefined)
        for lane in range(SIDE):
            lane_of = ir.Constant(_INT, lane)
            place = b.sext(b.extract_element(places, lane_of), _ADDRESS)
            here = self._at(b.add(start, b.mul(place, _address(size))), kind)
            found = b.insert_element(found, b.load(here, align=size), lane_of)
        return found

    def _integer(self, start: Any, k: Any) -> Any:
        """Return entry `k` of an array of int32."""
        place = self._b.add(start, self._b.mul(k, _address(4)))
        return self._b.sext(self._b.load(self._at(place, _INT), align=4), _ADDRESS)

    def _at(self, start: Any, kind: Any, offset: int = 0) -> Any:
        return self._b.inttoptr(self._b.add(start, _address(offset)), kind.as_pointer())


def _address(value: int) -> Any:
    return ir.Constant(_ADDRESS, value)
