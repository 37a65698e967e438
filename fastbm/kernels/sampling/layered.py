"""Updates of one layer at a time, each drawn given its neighbours, and whole sweeps of them.

Units of a layer are independent given their neighbours.

Arrays are (n_units of the layer, lanes), one lane per chain; fields are float32 or float64, as the engine chose.
"""

import numpy as np

from ..arrays import copy_row, empty, zeros
from ..bits import add_product, pack_units
from ..functions import exp_float32
from ..jit import apart, apart_borrowing, borrowing, kernel
from ..random import draw_bits, log_float32, log_of_bits, logit_of_bits
from .layer_energies import fill_energies_of_fields, pack_sample


@kernel
def gibbs_layer(up, fields, scale, streams, n_chains):
    """Draw every unit of a layer from its conditional distribution.

    Mutates `up` (n, lanes) of 0 or 1, `streams`; returns the number of flips in the first `n_chains` lanes.
    `scale` (lanes,) is beta (hi - lo): P(up) = sigmoid(scale field).  Cost: one draw a unit, vectorised over lanes.
    """
    bits, moved = empty(up.shape[1], np.uint32), zeros(up.shape[1], np.int32)
    one, zero = up.dtype.type(1), up.dtype.type(0)
    for i in range(up.shape[0]):
        draw_bits(streams, bits)
        for lane in range(up.shape[1]):
            new = one if fields[i, lane] * scale[lane] > logit_of_bits(bits[lane]) else zero
            moved[lane] += np.int32(new != up[i, lane])
            up[i, lane] = new
    return moved[:n_chains].sum()


@kernel
def metropolis_layer(up, fields, scale, streams, n_chains):
    """Propose to flip every unit of a layer and accept with min(1, exp(-beta dE)).

    Mutates `up`, `streams`; returns the number of flips in the first `n_chains` lanes.
    Units of one layer do not interact, so that this is one sequential pass.  Cost: as `gibbs_layer`.
    """
    bits, moved = empty(up.shape[1], np.uint32), zeros(up.shape[1], np.int32)
    one, zero = up.dtype.type(1), up.dtype.type(0)
    for i in range(up.shape[0]):
        draw_bits(streams, bits)
        for lane in range(up.shape[1]):
            rise = fields[i, lane] * scale[lane]
            rise = rise if up[i, lane] == zero else -rise
            flip = rise >= log_of_bits(bits[lane])
            up[i, lane] = one - up[i, lane] if flip else up[i, lane]
            moved[lane] += np.int32(flip)
    return moved[:n_chains].sum()


@apart
def sweep_layers(values, chains, machine, room, hold, n_sweeps):
    """Draw layers given their neighbours, `n_sweeps` times; return the number of flips.

    Mutates `values` (n_units, lanes) of 0 or 1, of the fields' type, the streams, and `room`.
    `chains` are the streams, beta (hi - lo) of each lane, and the number of lanes that count; `machine` the plan of
    layers (the units where they begin and where the last one ends, the rows of their fields in `room`, and where one
    begins that is used for a while, and their ranks in a sweep), the layers to draw, in this order, the fields where
    all units are down, (n_units, lanes) or (n_units, 1), and the products of `fastbm.kernels.bits.add_product`, from
    each layer to the next and back; `room` fields, and what these products need. `hold` is None for Gibbs.
    On exit the rows of layers that have any neighbour drawn before them hold the fields given those.
    """
    streams, scale, n_chains = chains
    (starts, places, ranks), visited, start, products = machine
    fields, words, tables = room
    flips = 0
    for _ in range(n_sweeps):
        for layer in visited:
            first, end = starts[layer], starts[layer + 1]
            field = fields[places[layer] : places[layer] + end - first]
            early = add_neighbours(field, layer, values, machine, words, tables, True)
            lower = layer > 0 and ranks[layer - 1] > ranks[layer]
            upper = layer + 2 < starts.shape[0] and ranks[layer + 1] > ranks[layer]
            if early and (lower or upper):
                whole = fields[places[-1] : places[-1] + end - first]
                for i in range(field.shape[0]):
                    copy_row(whole[i], field[i])
                field = whole
            add_neighbours(field, layer, values, machine, words, tables, False)
            if hold is None:
                flips += gibbs_layer(values[first:end], field, scale, streams, n_chains)
            else:
                flips += metropolis_layer(values[first:end], field, scale, streams, n_chains)
    return flips


@borrowing
def add_neighbours(field, layer, values, machine, words, tables, early):
    """Compute the fields of a layer given neighbours that are drawn before it, or add those drawn later.

    Mutates `field`; tells whether there are any.
    """
    (starts, _, ranks), _, start, products = machine
    first, end = starts[layer], starts[layer + 1]
    lower = layer > 0 and (ranks[layer - 1] < ranks[layer]) == early
    upper = layer + 2 < starts.shape[0] and (ranks[layer + 1] < ranks[layer]) == early
    if early:
        _start_fields(field, first, start)
    if lower:
        add_product(field, products[2 * layer - 2], values[starts[layer - 1] : first], words, tables)
    if upper:
        add_product(field, products[2 * layer + 1], values[end : starts[layer + 2]], words, tables)
    return lower or upper


@borrowing
def _start_fields(fields, first, start):
    for i in range(fields.shape[0]):
        if start.shape[1] == 1:
            fields[i, :] = start[first + i, 0]
        else:
            copy_row(fields[i], start[first + i])


@apart_borrowing
def add_fields(fields, layer, values, starts, start, products, words, tables):
    """Compute the fields of a layer given its neighbours. Mutates `fields`; arguments are those of `sweep_layers`."""
    first, end = starts[layer], starts[layer + 1]
    _start_fields(fields, first, start)
    if layer > 0:
        add_product(fields, products[2 * layer - 2], values[starts[layer - 1] : first], words, tables)
    if layer + 2 < starts.shape[0]:
        add_product(fields, products[2 * layer + 1], values[end : starts[layer + 2]], words, tables)


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


@kernel
def record_layers(values, chains, machine, room, hold, thin, told, summed, packed, energies):
    """Take samples after every `thin` sweeps; return the number of flips.

    Mutates `packed` (n_samples, n_chains, ceil(n_units / 8)) uint8, `energies` (n_samples, n_chains), and what
    `sweep_layers` does. Energies are those of `fill_energies_of_fields`, `told` being words of all units and what that
    takes beside, or of `fill_energies_layers` if it is None; `summed` are then room for `values` in float64, the
    machine of that, and its room.
    """
    flips = 0
    for t in range(packed.shape[0]):
        flips += sweep_layers(values, chains, machine, room, hold, thin)
        if told is not None:
            words, about, of_energies = told
            pack_sample(values, words, packed[t])
            fill_energies_of_fields(energies[t], values, words, machine, about, of_energies)
        if summed is not None:
            up, weighed, of_sums = summed
            pack_units(values, packed[t])
            for i in range(up.shape[0]):
                for lane in range(up.shape[1]):
                    up[i, lane] = np.float64(values[i, lane])
            fill_energies_layers(energies[t], up, weighed, of_sums)
    return flips


@kernel
def tell_energies_layers(values, machine, room, told, packed, energies):
    """Write what `record_layers` does of a sample, once fields are computed. Mutates `packed`, `energies`, `room`."""
    (starts, places, _), visited, _, _ = machine
    fields, of_words, tables = room
    words, about, of_energies = told
    for layer in visited:
        field = fields[places[layer] : places[layer] + starts[layer + 1] - starts[layer]]
        add_neighbours(field, layer, values, machine, of_words, tables, True)
    pack_sample(values, words, packed)
    fill_energies_of_fields(energies, values, words, machine, about, of_energies)


@kernel
def anneal_layer(up, fields, base, before, after, streams, totals):
    """Move a summed-out layer from temperature `before` to `after` of a path, then draw it.

    Mutates `up`, `streams`, `totals`.
    Log-odds are (1 - t) base + t field, `base` (n,) and `fields` (n, lanes). Adds to `totals` (lanes,) float64 the
    change of sum_i log(1 + exp(log-odds_i)), and draws `up` at t = `after`. Cost: two exponentials and one draw a unit,
    vectorised over lanes.
    """
    lanes = fields.shape[1]
    kind = fields.dtype.type
    bits = empty(lanes, np.uint32)
    old_product = empty(lanes, np.float32)
    new_product = empty(lanes, np.float32)
    rise = empty(lanes, fields.dtype)
    one, zero = kind(1), kind(0)
    t0, t1 = kind(before), kind(after)
    for first in range(0, fields.shape[0], 32):
        old_product[:] = np.float32(1.0)
        new_product[:] = np.float32(1.0)
        rise[:] = zero
        for i in range(first, min(first + 32, fields.shape[0])):
            draw_bits(streams, bits)
            for lane in range(lanes):
                old = (one - t0) * base[i] + t0 * fields[i, lane]
                new = (one - t1) * base[i] + t1 * fields[i, lane]
                old_product[lane] *= np.float32(1.0) + exp_float32(-abs(np.float32(old)))
                new_product[lane] *= np.float32(1.0) + exp_float32(-abs(np.float32(new)))
                rise[lane] += max(new, zero) - max(old, zero)
                up[i, lane] = one if new > logit_of_bits(bits[lane]) else zero
        for lane in range(lanes):
            totals[lane] += rise[lane] + (log_float32(new_product[lane]) - log_float32(old_product[lane]))
