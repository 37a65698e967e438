"""Energies of layered machines from the fields that a sweep has computed, each pair of layers counted once.

With f the fields where all units are down, and F those of a layer given the layers drawn before it in a sweep, E =
E(all down) - sum x f - sum x F over units of layers that are drawn first, and of others. Where F is float32, it says
how large a sum is, and integers modulo a power of two say the rest: couplings are multiples of a unit so coarse that
the roundings of F are less than half of this power, and so fine that these multiples are nearly the couplings.

Two integers of 16 bits are summed as one of 32, those of two units of a layer, where 16 bits do; then the sum of each
is found from its field. Where 32 bits are needed, those of `GRAIN` units are summed before it is found.
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row, matrix_at
from ..bit_vectors import store_word
from ..bits import COLUMNS, add_packed, add_tabled_rows, product_at
from ..jit import apart_borrowing, borrowing, inlined
from ..turns import add_integers, add_turns
from ..vectors import TILED, has_look_up
from .layered import MARKS, PLACES, STARTS, add_rows, sweep_layers

GRAIN = 16  # rows of sums at a time
TURN, HALF_TURN = 2.0**32, 2.0**16
PULLED, SUMMED, FIXED, NARROW, WIDE = range(5)  # how energies of a layer are found
_WHOLE = np.float32(1.5 * 2.0**23)  # has float32 up to 2^22 rounded to whole numbers where it is added
LOOK_UP = has_look_up()


@apart_borrowing
def pack_sample(words, plan, joined, packed):
    """Write each lane's units as bytes, unit 0 in the lowest bit. Mutates `packed` (n_chains, n_bytes), `joined`.

    `words` are those of layers, as `plan` says; `joined` (ceil(n_units / 32) + 2, lanes) uint32 is room.
    Cost: a few operations for 32 units, vectorised over lanes, and a store for 64 units of a lane.
    """
    n_bytes = packed.shape[1]
    joined[:] = 0
    for layer in range(plan.shape[1] - 1):
        for w in range(plan[MARKS, layer + 1] - plan[MARKS, layer]):
            row, place = words[plan[MARKS, layer] + w], plan[STARTS, layer] + 32 * w
            shift, low, high = np.uint64(place % 32), joined[place // 32], joined[place // 32 + 1]
            for lane in range(joined.shape[1]):
                word = np.uint64(row[lane]) << shift
                low[lane] |= np.uint32(word)
                high[lane] |= np.uint32(word >> np.uint64(32))
    if not TILED or n_bytes < 8:
        for c in range(packed.shape[0]):
            for b in range(n_bytes):
                packed[c, b] = np.uint8(joined[b // 4, c] >> np.uint32(8 * (b % 4)))
        return
    for first in range(0, n_bytes, 8):  # the last eight bytes are those of a row's end, some of them written again
        begin = min(first, n_bytes - 8)
        shift, w = np.uint64(8 * (begin % 4)), begin // 4
        for c in range(packed.shape[0]):
            word = np.uint64(joined[w, c]) | np.uint64(joined[w + 1, c]) << np.uint64(32)
            more = np.uint64(joined[w + 2, c]) << np.uint64(32) << (np.uint64(32) - shift)
            store_word(packed.ctypes.data + c * n_bytes + begin, word >> shift | more)


@apart_borrowing
def _add_integers(sums, values, words, integers, n_columns, tables, at, first):
    """Add integers of units that are up to rows of sums, those of columns from `first` on. Mutates `sums`.

    `integers` (n n_columns,) are of the units of `values` (n, lanes); `tables`, if there are any, hold from `at` on
    what `fastbm.kernels.bits.fill_tables` has of float32.
    """
    if LOOK_UP and tables.shape[0]:
        size = 64 * COLUMNS * 8 * words.shape[0]
        for k in range(0, sums.shape[0], COLUMNS):
            place = tables.ctypes.data + 4 * at + (first + k) // COLUMNS * size
            add_tabled_rows(sums, k, np.int64(place), words)
        return
    if TILED:
        place, up = integers.ctypes.data + integers.itemsize * first, values.ctypes.data
        for k in range(0, sums.shape[0], COLUMNS):
            to, own, shape = sums.ctypes.data + k * sums.strides[0], place + integers.itemsize * k, values.shape
            add_integers(to, sums.strides[0], own, integers.itemsize * n_columns, up, values.strides[0], *shape)
        return
    for i in range(values.shape[0]):
        row = values[i]
        for k in range(sums.shape[0]):
            integer, into = np.int64(integers[i * n_columns + first + k]), sums[k]
            for lane in range(sums.shape[1]):
                more = integer if row[lane] != 0 else np.int64(0)
                into[lane] = np.int32(np.int64(into[lane]) + more)


@inlined
def _whole_parts(field, scale, low):
    """Return the multiple of 2^16 units that a field is near, and the one of units, beyond that, whose low bits are so.

    `scale` is how many 2^16 units are 1.
    """
    near = np.float32(field * scale)
    whole = np.float32(np.float32(near + _WHOLE) - _WHOLE)
    rest = np.int32(np.float32(np.float32(near - whole) * np.float32(HALF_TURN)))
    more = np.int32(np.int16(np.int64(low) - np.int64(rest)))
    return np.int32(whole), np.int32(np.int64(rest) + np.int64(more))


@apart_borrowing
def _add_narrow(high, low, sums, fields, values, both, scale):
    """Add what two units that are up have to `high`, in 2^16 units, and `low`, in units. Mutates both.

    `sums` (lanes,) are the integers of the first, and those of the second in front; `fields` and `values` (2, lanes) of
    both, or (1, lanes).
    """
    one, other = fields[0], fields[1 if both else 0]
    up, beside = values[0], values[1 if both else 0]
    for lane in range(high.shape[0]):
        whole, rest = _whole_parts(one[lane], scale, sums[lane])
        left = np.int32(np.int32(np.int64(sums[lane]) - np.int64(rest)) >> np.int32(16))
        more, last = _whole_parts(other[lane], scale, np.int32(np.int64(left) - np.int64(whole)))
        is_up, is_beside = up[lane] != 0, both and beside[lane] != 0
        high[lane] = np.int32(np.int64(high[lane]) + np.int64(whole if is_up else np.int32(0)))
        low[lane] = np.int32(np.int64(low[lane]) + np.int64(rest if is_up else np.int32(0)))
        high[lane] = np.int32(np.int64(high[lane]) + np.int64(more if is_beside else np.int32(0)))
        low[lane] = np.int32(np.int64(low[lane]) + np.int64(last if is_beside else np.int32(0)))


@apart_borrowing
def _add_wide(total, near, rest, sums, fields, values, unit):
    """Add what some units that are up have to `total`. Mutates it, and `near` float32 and `rest` int32, room."""
    near[:] = 0.0
    rest[:] = 0
    for k in range(values.shape[0]):
        for lane in range(total.shape[0]):
            near[lane] += fields[k, lane] * values[k, lane]
            more = np.int64(sums[k, lane]) if values[k, lane] != 0 else np.int64(0)
            rest[lane] = np.int32(np.int64(rest[lane]) + more)
    for lane in range(total.shape[0]):
        units = np.float64(rest[lane])
        turns = np.floor((np.float64(near[lane]) / unit - units) / TURN + 0.5)
        total[lane] += (turns * TURN + units) * unit


@apart_borrowing
def _sum_rows(few, how, words, plan, integers):
    """Sum the integers of a layer chain by chain. Mutates `few` (n_chains, at least as many as a unit has)."""
    few[:] = 0
    for side in range(3, 9, 3):
        near_by, n_rows = how[side], how[1]
        if near_by >= 0:
            bits = words[plan[MARKS, near_by] : plan[MARKS, near_by + 1]]
            n_units = plan[STARTS, near_by + 1] - plan[STARTS, near_by]
            rows = matrix_at(few, integers.ctypes.data + integers.itemsize * how[side + 1], n_units, n_rows)
            for c in range(few.shape[0]):
                add_rows(few[c, :n_rows], rows, bits, c)


@apart_borrowing
def fill_energies_of_fields(energies, values, words, plan, told, start, near, few, room):
    """Write energies above that of all units down of the first lanes, negative, in units of the fields.

    Mutates `energies` (n_chains,), `near`, `few`, `room`.
    `values`, `words` and `plan` are as for `fastbm.kernels.sampling.layered.sweep_layers`; `told` are the fields of
    layers given those drawn before them; integers, flat, of all layers, with their tables, flat, or none; what sums of
    them begin with (rows, lanes); of each layer how its energies are found, the rows of its sums and where they begin,
    and, of up to two layers, which these are and where its integers and tables begin; and the layers' units. `start`
    are fields where all units are down in float64, (n_units, lanes), or None where integers say all, `near` (lanes,)
    float32, or None where no sums are wide. `room` are (lanes,) of float64 and of int32 twice, `GRAIN` rows of int32;
    `few` is a row as long as those of integers for each of few chains, that are summed one after the other, or None.
    Cost: half of the products of a sweep, or a quarter.
    """
    fields, (integers, tables), begin, forms, units = told
    total, high, low, sums = room
    total[:] = 0.0
    for layer in range(plan.shape[1] - 1):
        first, end, at_fields, how = plan[STARTS, layer], plan[STARTS, layer + 1], plan[PLACES, layer], forms[layer]
        kind, n_rows, begins, unit, n = how[0], how[1], how[2], units[layer], end - first
        if start is not None and kind == PULLED:
            for i in range(first, end):
                for lane in range(total.shape[0]):
                    total[lane] += start[i, lane] * np.float64(values[i, lane])
        if few is not None:
            _sum_rows(few, how, words, plan, integers)
        if start is not None and kind == SUMMED:
            for i in range(n):
                for lane in range(total.shape[0]):
                    total[lane] += np.float64(fields[at_fields + i, lane] * values[first + i, lane])
        high[:] = 0
        low[:] = 0
        for j in range(0, n_rows, GRAIN):
            some = sums[: min(GRAIN, n_rows - j)]
            for k in range(some.shape[0]):
                copy_row(some[k], begin[begins + j + k])
            if few is None:
                for side in range(3, 9, 3):
                    near_by = how[side]
                    if near_by >= 0:
                        up = values[plan[STARTS, near_by] : plan[STARTS, near_by + 1]]
                        bits = words[plan[MARKS, near_by] : plan[MARKS, near_by + 1]]
                        here, at = integers[how[side + 1] :], how[side + 2]
                        _add_integers(some, up, bits, here, n_rows, tables, at, j)
            else:
                for k in range(some.shape[0]):
                    for c in range(few.shape[0]):
                        some[k, c] = np.int32(np.int64(some[k, c]) + np.int64(few[c, j + k]))
            if kind == FIXED:
                copy_row(high, some[0])
                copy_row(low, some[1])
            elif kind == NARROW:
                scale, last = np.float32(1.0 / (HALF_TURN * unit)), min(2 * (j + GRAIN), n)
                if TILED:
                    field, up = fields[at_fields + 2 * j :], values[first + 2 * j :]
                    where = high.ctypes.data, low.ctypes.data, some.ctypes.data, some.strides[0], field.ctypes.data
                    shape = last - 2 * j, total.shape[0]
                    add_turns(*where, field.strides[0], up.ctypes.data, up.strides[0], *shape, scale)
                    continue
                for k in range(2 * j, last, 2):
                    place = at_fields + k
                    field, up = fields[place : place + 2], values[first + k : first + k + 2]
                    _add_narrow(high, low, some[k // 2 - j], field, up, k + 1 < n, scale)
            if near is not None and kind == WIDE:
                last = min(j + GRAIN, n)
                field, up = fields[at_fields + j : at_fields + last], values[first + j : first + last]
                _add_wide(total, near, low, some, field, up, unit)
        if kind in (FIXED, NARROW):
            for lane in range(total.shape[0]):
                total[lane] += (np.float64(high[lane]) * HALF_TURN + np.float64(low[lane])) * unit
    for c in range(energies.shape[0]):
        energies[c] = total[c]


@apart_borrowing
def fill_energies_layers(energies, up, machine, room):
    """Write energies without offset of the first lanes. Mutates `energies` (n_chains,) and `room` (rows, lanes).

    `up` (n_units, lanes) float64 of 0 and 1; `machine` are the units where layers begin and end, the biases (n_units,
    lanes) or (n_units, 1), the products from each layer to the next in float64, sums of all rows of each, the value of
    units that are down, and by how much that of others is above it. Terms are added unit by unit, layer by layer.
    """
    starts, bias, products, whole, low, span = machine
    fields, total = room[1:], room[0]
    total[:] = 0.0
    for i in range(up.shape[0]):
        for lane in range(up.shape[1]):
            total[lane] += bias[i, lane if bias.shape[1] > 1 else 0] * (low + span * up[i, lane])
    for lane in range(energies.shape[0]):
        energies[lane] = -total[lane]
    for layer in range(starts.shape[0] - 2):
        first, begin, end = starts[layer], starts[layer + 1], starts[layer + 2]
        field = fields[: end - begin]
        field[:] = 0.0
        add_packed(field, product_at(products, layer, field), up[first:begin], None, None)
        total[:] = 0.0
        for j in range(end - begin):
            for lane in range(up.shape[1]):
                here = span * field[j, lane] + low * whole[begin + j]
                total[lane] += here * (low + span * up[begin + j, lane])
        for lane in range(energies.shape[0]):
            energies[lane] -= total[lane]


@apart_borrowing
def weigh_layers(values, plan, words, told, summed, energies):
    """Write energies without offset, after sweeps.

    Mutates `energies` (n_chains,), and room. `values`, `plan` and `words` are as for `sweep_layers`; one of `told` and
    `summed` is None. By `told` energies are those of `fill_energies_of_fields`; it is what that takes beside, by how
    much its energies are multiplied, and those of all units down, (n_chains,). By `summed` they are those of
    `fill_energies_layers`; it is room for `values` in float64, the machine of that, and its room.
    """
    if told is not None:
        about, start, near, few, of_energies, (factor, lowest) = told
        fill_energies_of_fields(energies, values, words, plan, about, start, near, few, of_energies)
        for c in range(energies.shape[0]):
            energies[c] = factor * energies[c] + lowest[c]
    if summed is not None:
        up, weighed, of_sums = summed
        for i in range(up.shape[0]):
            for lane in range(up.shape[1]):
                up[i, lane] = np.float64(values[i, lane])
        fill_energies_layers(energies, up, weighed, of_sums)


@borrowing
def record_layers(values, chains, machine, room, hold, thin, weighing, found):
    """Take samples after every `thin` sweeps, or of states as they are where that is 0; return the number of flips.

    Mutates `found`, (packed (n_samples, n_chains, ceil(n_units / 8)) uint8, energies (n_samples, n_chains)), and what
    `sweep_layers`, `pack_sample` and `weigh_layers` do; `weighing` is what the latter takes as `told` and `summed`, and
    the room of `pack_sample`.
    """
    (told, summed, joined), (packed, energies), words, flips = weighing, found, room[1], 0
    for t in range(packed.shape[0]):
        flips += sweep_layers(values, chains, machine, room, hold, thin)
        pack_sample(words, machine[0], joined, packed[t])
        weigh_layers(values, machine[0], words, told, summed, energies[t])
    return flips
