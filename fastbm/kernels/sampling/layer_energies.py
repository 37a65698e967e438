"""Energies of layered machines from the fields that a sweep has computed, each pair of layers counted once.

With f the fields where all units are down, and F those of a layer given the layers drawn before it in a sweep, E =
E(all down) - sum x f - sum x F over units of layers that are drawn first, and of others. Where F is float32, it says
how large a sum over some units is, and integers modulo 2^32 say the rest: couplings are multiples of a unit so coarse
that the roundings of F are less than 2^31 of it, and so fine that these multiples are nearly the couplings.
"""

from __future__ import annotations

import numpy as np

from ..bit_vectors import store_word
from ..bits import NARROW, ROWS, WIDE, pack_lanes, pack_units
from ..jit import apart_borrowing, borrowing, kernel
from ..vectors import COLUMNS, add_tabled_integers, add_tabled_integers_wide, has_look_up

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
def _pack_unless_whole(words, values, first, end):
    """Pack a layer into words, unless it begins at one of all units' words; tell whether. Mutates `words`."""
    if first % ROWS:
        pack_lanes(words, values[first:end])
    return first % ROWS > 0


@borrowing
def _add_integers(sums, form, column, up, words):
    """Add to `sums` (4, lanes) int32 what units of a layer that are up add to four units, from `column` on."""
    integers, tables = form
    if LOOK_UP and tables.shape[0]:
        table = tables.ctypes.data + column // COLUMNS * tables.strides[0]
        here, bits = sums.ctypes.data, words.ctypes.data
        wide = sums.shape[1] // WIDE * WIDE
        for lane in range(0, wide, WIDE):
            add_tabled_integers_wide(
                here + 4 * lane, sums.strides[0], table, bits + 4 * lane, words.strides[0], words.shape[0]
            )
        for lane in range(wide, sums.shape[1], NARROW):
            add_tabled_integers(
                here + 4 * lane, sums.strides[0], table, bits + 4 * lane, words.strides[0], words.shape[0]
            )
        return
    for k in range(COLUMNS):
        for i in range(up.shape[0]):
            integer = integers[i, column + k]
            for lane in range(sums.shape[1]):
                more = np.int64(integer) if up[i, lane] != 0 else np.int64(0)
                sums[k, lane] = np.int32(np.int64(sums[k, lane]) + more)


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
    as tables; and the units (n_units,) of these, none for float64. `room` are sums (lanes,) of float64 and (4, lanes)
    of int32, (lanes,) of float32 and int32, and words of layers.
    Cost: half of the products of a sweep.
    """
    (starts, places, ranks), _, _, _ = machine
    fields, start, integers, forms, grains = told
    total, sums, near, rest, own = room
    total[:] = 0.0
    for layer in range(starts.shape[0] - 1):
        first, end = starts[layer], starts[layer + 1]
        lower = layer > 0 and ranks[layer - 1] < ranks[layer]
        upper = layer + 2 < starts.shape[0] and ranks[layer + 1] < ranks[layer]
        if not (lower or upper):
            for i in range(first, end):
                for lane in range(values.shape[1]):
                    total[lane] += start[i, lane if start.shape[1] > 1 else 0] * np.float64(values[i, lane])
            continue
        field = fields[places[layer] : places[layer] + end - first]
        if not grains.shape[0]:
            for i in range(field.shape[0]):
                for lane in range(values.shape[1]):
                    total[lane] += field[i, lane] * values[first + i, lane]
            continue
        below = above = own
        if LOOK_UP:
            n_below = 0
            if lower:
                begin = starts[layer - 1]
                n_below = (first - begin + ROWS - 1) // ROWS
                below = own[:n_below]
                if not _pack_unless_whole(below, values, begin, first):  # bits beyond its end pick zeros
                    below = words[begin // ROWS : begin // ROWS + n_below]
            if upper:
                last = starts[layer + 2]
                n_above = (last - end + ROWS - 1) // ROWS
                above = own[n_below : n_below + n_above]
                if not _pack_unless_whole(above, values, end, last):
                    above = words[end // ROWS : end // ROWS + n_above]
        near[:] = 0.0
        rest[:] = 0
        for j in range(0, field.shape[0], COLUMNS):
            n = min(COLUMNS, field.shape[0] - j)
            for k in range(n):
                for lane in range(sums.shape[1]):
                    sums[k, lane] = integers[first + j + k, lane if integers.shape[1] > 1 else 0]
            if lower:
                _add_integers(sums, forms[2 * layer - 2], j, values[starts[layer - 1] : first], below)
            if upper:
                _add_integers(sums, forms[2 * layer + 1], j, values[end : starts[layer + 2]], above)
            for k in range(n):
                for lane in range(sums.shape[1]):
                    up = values[first + j + k, lane]
                    near[lane] += field[j + k, lane] * up
                    more = np.int64(sums[k, lane]) if up != 0 else np.int64(0)
                    rest[lane] = np.int32(np.int64(rest[lane]) + more)
            if (j + COLUMNS) % GRAIN == 0 or j + COLUMNS >= field.shape[0]:
                _add_grains(total, near, rest, grains[first + j])
    for c in range(energies.shape[0]):
        energies[c] = total[c]
