"""Energies of layered machines from the fields that a sweep has computed, each pair of layers counted once.

With f the fields where all units are down, and F those of a layer given the layers drawn before it in a sweep, E =
E(all down) - sum x f - sum x F over units of layers that are drawn first, and of others. Where F is float32, it says
how large a sum over some units is, and integers modulo 2^32 say the rest: couplings are multiples of a unit so coarse
that the roundings of F are less than 2^31 of it, and so fine that these multiples are nearly the couplings.
"""

from __future__ import annotations

import numpy as np

from ..bit_vectors import store_word
from ..bits import HALF, NARROW, ROWS, WIDE, add_product, pack_lanes, pack_units
from ..jit import apart, apart_borrowing, borrowing, inlined, kernel
from ..vector_forms import add_forms, add_forms_half, add_forms_wide
from ..vectors import COLUMNS, has_look_up
from .layered import ONCE, compute_fields, sweep_layers

GRAIN = 16  # units of a layer that are summed together
TURN = 2.0**32
LOOK_UP = has_look_up()


@kernel
def pack_sample(values, words, packed):
    """Pack each lane's units into words, and into bytes as `pack_units` does. Mutates `packed` (n_chains, n_bytes).

    Mutates `words` (ceil(n / 32), lanes) uint32, which are not written where nothing can be looked up by them.
    Cost: one pass over `values`.
    """
    if not LOOK_UP:
        pack_units(values, packed)
    else:
        pack_lanes(words, values)
        for w in range(0, words.shape[0], 2):
            n_bytes = packed.shape[1] - 4 * w
            for c in range(packed.shape[0]):
                word = np.uint64(words[w, c])
                if w + 1 < words.shape[0]:
                    word |= np.uint64(words[w + 1, c]) << np.uint64(32)
                if n_bytes >= 8:
                    store_word(packed.ctypes.data + c * packed.strides[0] + 4 * w, word)
                else:
                    for b in range(n_bytes):
                        packed[c, 4 * w + b] = np.uint8(word >> np.uint64(8 * b))


@borrowing
def _words_of_layer(words, own, values, first, end):
    """Return the address of a layer's words: in those of all units, or packed, where it does not begin at one of these.

    Mutates `own` then, rows as long as those of `words`.
    """
    if first % ROWS:
        pack_lanes(own, values[first:end])
        return own.ctypes.data
    return words.ctypes.data + first // ROWS * words.strides[0]


@inlined
def _addresses(near, rest, units, below, above, next_word, lane):
    """Return what `add_forms` takes of what `_add_looked_up` has, from a lane on."""
    (fields, k, up, start, i), (tables, words, n_words), (others, marks, n_marks), at = units, below, above, 4 * lane
    return (
        near.ctypes.data + at, rest.ctypes.data + at, fields.ctypes.data + k * fields.strides[0] + at,
        fields.strides[0], up.ctypes.data + i * up.strides[0] + at, up.strides[0],
        start.ctypes.data + i * start.strides[0] + at, start.strides[0], tables, words + at, n_words, others,
        marks + at, n_marks, next_word,
    )  # fmt: skip


@borrowing
def _add_looked_up(near, rest, units, below, above, next_word):
    """Do what `_add_unit` does for `COLUMNS` units; `below` and `above` are tables and words of layers beside.

    These are addresses, with the number of words; `units` are the fields and the first one's row in them, what all
    units are, what is added to their fields where all are down, and the first one's row there.
    """
    wide, halves = near.shape[0] // WIDE * WIDE, near.shape[0] // HALF * HALF
    for lane in range(0, wide, WIDE):
        add_forms_wide(*_addresses(near, rest, units, below, above, next_word, lane))
    for lane in range(wide, halves, HALF):
        add_forms_half(*_addresses(near, rest, units, below, above, next_word, lane))
    for lane in range(halves, near.shape[0], NARROW):
        add_forms(*_addresses(near, rest, units, below, above, next_word, lane))


@borrowing
def _add_unit(near, rest, sums, units, below, above):
    """Add the field of a unit, where it is up, to `near`, and what is added to it in integers to `rest`.

    Mutates both, and `sums` (lanes,) int32, which is room; `units` are as for `_add_looked_up`; `below` and `above` are
    the integers that units of layers beside add, (n, m), and between which units these lie.
    """
    fields, k, values, start, unit = units
    field, up, first = fields[k], values[unit], start[unit]
    for lane in range(sums.shape[0]):
        sums[lane] = first[lane]
    for integers, begin, end in (below, above):
        for i in range(begin, end):
            integer, others = np.int64(integers[i - begin, k]), values[i]
            for lane in range(sums.shape[0]):
                more = integer if others[lane] != 0 else np.int64(0)
                sums[lane] = np.int32(np.int64(sums[lane]) + more)
    for lane in range(sums.shape[0]):
        near[lane] += field[lane] * up[lane]
        more = np.int64(sums[lane]) if up[lane] != 0 else np.int64(0)
        rest[lane] = np.int32(np.int64(rest[lane]) + more)


@borrowing
def _add_grains(total, near, rest, grain):
    """Add to `total` what `near` float32 and `rest` int32, in units of `grain`, are together. Mutates all three."""
    for lane in range(total.shape[0]):
        units = np.float64(rest[lane])
        turns = np.floor((np.float64(near[lane]) / grain - units) / TURN + 0.5)
        total[lane] += (turns * TURN + units) * grain
        near[lane] = 0.0
        rest[lane] = 0


@apart_borrowing
def fill_energies_of_fields(energies, values, words, machine, told, room):
    """Write energies above that of all units down of the first lanes, negative, in units of the fields.

    Mutates `energies` (n_chains,), `room`.
    `values` and `machine` are as for `fastbm.kernels.sampling.layered.sweep_layers`, and `words` as `pack_sample` gives
    them; `told` are the fields of layers given those drawn before them, those where all units are down in float64, and
    what is added to these in integers modulo 2^32: for all units down, and for each product of the machine, (n, m) and
    as tables; and the units (n_units,) of these, none for float64. `room` are (lanes,) of float64, of
    int32 twice and of float32, and words of layers.
    Cost: half of the products of a sweep.
    """
    (starts, places, ranks), _, _, _ = machine
    fields, start, integers, forms, grains = told
    total, sums, rest, near, own = room
    total[:] = 0.0
    for layer in range(starts.shape[0] - 1):
        first, end = starts[layer], starts[layer + 1]
        lower = layer > 0 and ranks[layer - 1] < ranks[layer]
        upper = layer + 2 < starts.shape[0] and ranks[layer + 1] < ranks[layer]
        if not lower:  # then nor is the one above, in any order
            for i in range(first, end):
                if start.shape[1] > 1:
                    for lane in range(total.shape[0]):
                        total[lane] += start[i, lane] * np.float64(values[i, lane])
                else:
                    pull, up = start[i, 0], values[i]
                    for lane in range(total.shape[0]):
                        total[lane] += pull * np.float64(up[lane])
            continue
        field = fields[places[layer] : places[layer] + end - first]
        if not grains.shape[0]:
            for i in range(field.shape[0]):
                for lane in range(values.shape[1]):
                    total[lane] += field[i, lane] * values[first + i, lane]
            continue
        begin, last = starts[layer - 1], starts[layer + 2] if upper else end
        form, other = forms[2 * layer - 2], forms[2 * layer + 1 if upper else 2 * layer - 2]
        n_below, n_above, at_below, at_above = 0, 0, 0, 0
        if LOOK_UP:  # bits beyond the end of a layer pick zeros
            n_below, n_above = (first - begin + ROWS - 1) // ROWS, (last - end + ROWS - 1) // ROWS
            at_below = _words_of_layer(words, own[:n_below], values, begin, first)
            at_above = _words_of_layer(words, own[n_below : n_below + n_above], values, end, last)
        tabled = field.shape[0] // COLUMNS * COLUMNS if LOOK_UP and form[1].shape[0] else 0
        near[:] = 0.0
        rest[:] = 0
        for j in range(0, field.shape[0], GRAIN):
            stop = min(j + GRAIN, field.shape[0])
            if LOOK_UP:  # elsewhere there is no such code
                for k in range(j, min(stop, tabled), COLUMNS):
                    units, b = (field, k, values, integers, first + k), k // COLUMNS
                    below = form[1].ctypes.data + b * form[1].strides[0], at_below, n_below
                    above = other[1].ctypes.data + b * other[1].strides[0], at_above, n_above
                    _add_looked_up(near, rest, units, below, above, words.strides[0])
            for k in range(min(max(j, tabled), stop), stop):
                units = field, k, values, integers, first + k
                _add_unit(near, rest, sums, units, (form[0], begin, first), (other[0], end, last))
            _add_grains(total, near, rest, grains[first + j])
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
        add_product(field, products[layer], up[first:begin], None, None)
        total[:] = 0.0
        for j in range(end - begin):
            for lane in range(up.shape[1]):
                here = span * field[j, lane] + low * whole[begin + j]
                total[lane] += here * (low + span * up[begin + j, lane])
        for lane in range(energies.shape[0]):
            energies[lane] -= total[lane]


@apart
def weigh_layers(values, machine, told, summed, packed, energies):
    """Pack a sample and write its energies without offset, after a sweep.

    Mutates `packed` (n_chains, ceil(n_units / 8)) uint8, `energies` (n_chains,), and room. One of `told` and `summed`
    is None. By `told` energies are those of `fill_energies_of_fields`; it is words of all units, what that
    takes beside, by how much its energies are multiplied, and those of all units down, (n_chains,). By `summed` they
    are those of `fill_energies_layers`; it is room for `values` in float64, the machine of that, and its room.
    """
    if told is not None:
        words, about, of_energies, (factor, lowest) = told
        pack_sample(values, words, packed)
        fill_energies_of_fields(energies, values, words, machine, about, of_energies)
        for c in range(energies.shape[0]):
            energies[c] = factor * energies[c] + lowest[c]
    if summed is not None:
        up, weighed, of_sums = summed
        pack_units(values, packed)
        for i in range(up.shape[0]):
            for lane in range(up.shape[1]):
                up[i, lane] = np.float64(values[i, lane])
        fill_energies_layers(energies, up, weighed, of_sums)


@kernel
def record_layers(values, chains, machine, room, hold, thin, weighing, packed, energies):
    """Take samples after every `thin` sweeps, or of states as they are where that is 0; return the number of flips.

    Mutates `packed` (n_samples, n_chains, ceil(n_units / 8)) uint8, `energies` (n_samples, n_chains), and what
    `sweep_layers` and `weigh_layers` do; `weighing` is what the latter takes as `told` and `summed`.
    """
    (told, summed), flips = weighing, 0
    for t in range(packed.shape[0]):
        if thin > 0:
            flips += sweep_layers(values, chains, machine, room, hold, thin)
        else:
            for layer in machine[1]:
                compute_fields(room[0], layer, values, machine, room[1], room[2], ONCE)
        weigh_layers(values, machine, told, summed, packed[t], energies[t])
    return flips
