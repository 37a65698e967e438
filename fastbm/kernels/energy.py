"""Energies of many states at once, in float64 from the user's couplings.

E = -sum_{j<i} W_ij s_i s_j - sum_i b_i s_i.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import copy_row, empty
from .jit import apart_borrowing, borrowing, cgutils, inlined, intrinsic, ir, kernel, types
from .vectors import TILED

_INDEX, _ADDRESS = ir.IntType(32), ir.IntType(64)


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


@intrinsic
def subtract_packed_edges(
    typing: Any, energies: Any, words: Any, next_unit: Any, bounds: Any, others: Any, weights: Any, bias: Any,
    next_bias: Any, n: Any, low: Any, high: Any,
) -> Any:  # fmt: skip
    """Subtract from `PACKED` energies what `subtract_edges` does of all units, which are up where bits are set.

    The arguments are addresses, distances in bytes from unit to unit and from bias to bias, the number of units, and
    the values of those that are down and up. A unit's neighbours, increasing, begin where `bounds` (int64) tell.
    """
    number, word, bits = ir.DoubleType(), ir.IntType(PACKED), ir.VectorType(ir.IntType(1), PACKED)
    lanes = ir.VectorType(number, PACKED)
    spread = ir.Constant(ir.VectorType(_INDEX, PACKED), [0] * PACKED)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        energies, words, next_unit, bounds, others, weights, bias, next_bias, n, *values = args

        def at(place: Any, times: Any, distance: Any, kind: Any) -> Any:
            distance = ir.Constant(_ADDRESS, distance) if isinstance(distance, int) else distance
            return builder.inttoptr(builder.add(place, builder.mul(times, distance)), kind.as_pointer())

        def everywhere(value: Any) -> Any:
            nothing = ir.Constant(lanes, ir.Undefined)
            return builder.shuffle_vector(
                builder.insert_element(nothing, value, ir.Constant(_INDEX, 0)), nothing, spread
            )

        def chosen(unit: Any, down: Any, up: Any) -> Any:
            """Return one of two numbers for each lane, by whether a unit is up."""
            where = builder.bitcast(builder.load(at(words, unit, next_unit, word), align=4), bits)
            return builder.select(where, everywhere(up), everywhere(down))

        here = builder.inttoptr(energies, lanes.as_pointer())
        total = cgutils.alloca_once_value(builder, builder.load(here, align=8))
        field = cgutils.alloca_once(builder, lanes)
        with cgutils.for_range(builder, n) as units:
            i = units.index
            builder.store(everywhere(builder.load(at(bias, i, next_bias, number), align=8)), field)
            first = builder.load(at(bounds, i, 8, _ADDRESS), align=8)
            last = builder.load(at(bounds, builder.add(i, ir.Constant(_ADDRESS, 1)), 8, _ADDRESS), align=8)
            with cgutils.for_range(builder, last, start=first) as loop:
                other = builder.sext(builder.load(at(others, loop.index, 4, _INDEX), align=4), _ADDRESS)
                with builder.if_then(builder.icmp_signed(">=", other, i)):
                    loop.do_break()
                weight = builder.load(at(weights, loop.index, 8, number), align=8)
                terms = (builder.fmul(weight, value) for value in values)
                builder.store(builder.fadd(builder.load(field), chosen(other, *terms)), field)
            less = builder.fmul(chosen(i, *values), builder.load(field))
            builder.store(builder.fsub(builder.load(total), less), total)
        builder.store(builder.load(total), here, align=8)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 9, types.float64, types.float64), generate


PAIRED, PAIRED_WIDE = 16, 32  # lanes; the wide ones hide how long an addition takes
subtract_pairs, subtract_pairs_wide = _pairs(PAIRED), _pairs(PAIRED_WIDE)
subtract_edges, subtract_edges_wide = _edges(PAIRED), _edges(PAIRED_WIDE)
PACKED = 64  # lanes in the bits of words


@kernel
def energies_dense(values, weights, bias, energies, start, stop):
    """Add to the energy (without offset) of every lane what units `start` to `stop` bring, with all before them.

    Mutates `energies` (lanes,).
    `values` (n_units, lanes) float64 holds the units' values, `bias` is (n_units, 1) or (n_units, lanes); lanes is a
    multiple of 16. Cost: n_units^2 / 2 multiplications and additions a lane for all units, in the same order on every
    processor, in however many pieces.
    """
    field, step = empty(PAIRED_WIDE, np.float64), 1 if bias.shape[1] > 1 else 0
    n_lanes, next_unit, next_weight = values.shape[1], values.strides[0], weights.strides[1]
    for first in range(0, n_lanes, PAIRED_WIDE):
        here, at = energies[first : first + PAIRED_WIDE], values.ctypes.data + 8 * first
        for i in range(start, stop):
            for k in range(here.shape[0]):
                field[k] = bias[i, step * (first + k)]
            if not TILED:
                _subtract_plainly(here, values[:, first : first + PAIRED_WIDE], weights[i], field, i)
                continue
            row = weights.ctypes.data + i * weights.strides[0]
            if here.shape[0] == PAIRED_WIDE:
                subtract_pairs_wide(here.ctypes.data, at, next_unit, row, next_weight, field.ctypes.data, i)
            else:
                subtract_pairs(here.ctypes.data, at, next_unit, row, next_weight, field.ctypes.data, i)


def _subtract_plainly(energies, values, row, field, unit):
    """Subtract pairs as `subtract_pairs` does, without compiler. Mutates `energies`."""
    for lane in range(energies.shape[0]):
        total = field[lane]
        for j in range(unit):
            total += row[j] * values[j, lane]
        energies[lane] -= values[unit, lane] * total


@kernel
def energies_sparse(up, graph, bias, values, energies):
    """Compute the energy (without offset) of every lane. Mutates `energies` (lanes,).

    `up` (n_units, lanes) uint8 holds the bits, `values` is (lo, span): a unit is lo + span up. `graph` is (indptr,
    indices, weights) with indices increasing in each row, `bias` (n_units, 1) or (n_units, lanes).  Cost: n_edges
    multiplications and additions a lane, in the same order on every processor.
    """
    fill_energies_sparse(up, graph, bias, values, empty(energies.shape[0], np.float64), energies)


@inlined
def fill_energies_sparse(up, graph, bias, values, field, energies):
    """Do what `energies_sparse` does; `field` (lanes,) is room."""
    indptr, indices, weights = graph
    lo, span = values
    lanes = energies.shape[0]
    tiled = lanes // PAIRED * PAIRED if TILED else 0
    for lane in range(lanes):
        energies[lane] = 0.0
    for i in range(up.shape[0]):
        if bias.shape[1] == 1:
            own = bias[i, 0]
            for lane in range(lanes):
                field[lane] = own
        else:
            copy_row(field, bias[i])
        begin, end = indptr[i], indptr[i]
        while end < indptr[i + 1] and indices[end] < i:
            end += 1
        about = up.strides[0], indices.ctypes.data + 4 * begin, weights.ctypes.data + 8 * begin
        first = 0
        while first < tiled:
            to, own_up = energies.ctypes.data + 8 * first, up.ctypes.data + first
            start = field.ctypes.data + 8 * first
            if first + PAIRED_WIDE <= tiled:
                subtract_edges_wide(to, own_up, *about, start, i, end - begin, lo, lo + span)
                first += PAIRED_WIDE
            else:
                subtract_edges(to, own_up, *about, start, i, end - begin, lo, lo + span)
                first += PAIRED
        for k in range(begin, end):
            w, j = weights[k], indices[k]
            for lane in range(tiled, lanes):
                field[lane] += w * (lo + span * up[j, lane])
        for lane in range(tiled, lanes):
            energies[lane] -= (lo + span * up[i, lane]) * field[lane]


@borrowing
def fill_energies_few(up, graph, bias, values, field, energies):
    """Do what `fill_energies_sparse` does of few lanes: loops over a single one take longer than its additions."""
    if energies.shape[0] == 1:
        energies[0] = _energy_of_lane(up, graph, bias, values)
    else:
        fill_energies_sparse(up, graph, bias, values, field, energies)


@borrowing
def _energy_of_lane(up, graph, bias, values):
    """Return the energy of the only lane, by the additions of `fill_energies_sparse` in their order."""
    indptr, indices, weights = graph
    lo, span = values
    energy = 0.0
    for i in range(up.shape[0]):
        field = bias[i, 0]
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if j >= i:
                break
            field += weights[k] * (lo + span * up[j, 0])
        energy -= (lo + span * up[i, 0]) * field
    return energy


@apart_borrowing
def energies_packed(words, graph, bias, values, energies):
    """Compute energies as `energies_sparse` does, of lanes in the bits of words: lane k is bit k % 32 of word k // 32.

    Mutates `energies` (lanes,). `words` is (n_units, lanes / 32) uint32, lanes a multiple of `PACKED`; `bias`
    (n_units,) is that of all lanes.
    """
    indptr, indices, weights = graph
    lo, span = values
    for lane in range(energies.shape[0]):
        energies[lane] = 0.0
    if not TILED:
        _subtract_plainly_packed(energies, words, graph, bias, values)
        return
    about = (
        words.strides[0], indptr.ctypes.data, indices.ctypes.data, weights.ctypes.data, bias.ctypes.data,
        bias.strides[0], words.shape[0], lo, lo + span,
    )  # fmt: skip
    for first in range(0, energies.shape[0], PACKED):
        subtract_packed_edges(energies.ctypes.data + 8 * first, words.ctypes.data + first // 8, *about)


def _subtract_plainly_packed(energies, words, graph, bias, values):
    """Do what `subtract_packed_edges` does of all lanes, without compiler. Mutates `energies`."""
    bits = words[:, : len(energies) // 32, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)
    numbers = values[0] + values[1] * bits.reshape(len(words), len(energies))
    indptr, indices, weights = graph
    for i, own in enumerate(numbers):
        field = np.full(len(energies), bias[i])
        for k in range(indptr[i], indptr[i + 1]):
            if indices[k] < i:
                field += weights[k] * numbers[indices[k]]
        energies -= own * field
