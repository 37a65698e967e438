"""Updates of one layer at a time, each drawn given its neighbours, and whole sweeps of them.

Units of a layer are independent given their neighbours.

Arrays are (n_units of the layer, lanes), one lane per chain; fields are float32 or float64, as the engine chose. Of few
chains, rows of weights of units that are up are added one chain after the other, with columns in the lanes of vectors,
in the order of `fastbm.kernels.bits`: one chain takes no more time than its own rows do.
"""

import numpy as np

from ..arrays import copy_row, empty
from ..bits import ROWS, add_packed, add_product, pack_lanes, product_at
from ..functions import exp_float32
from ..jit import apart, apart_borrowing, inlined, inlined_borrowing
from ..random import draw_bits, log_float32, log_of_bits, logit_of_bits, next_word

STARTS, PLACES, RANKS, MARKS = range(4)  # rows of a plan of layers
FEWER = 4  # chains, up to which units are drawn one chain after the other
GROUP = 4  # rows of weights that are summed before they are added
LOWEST = np.array([0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0], np.int8)  # the lowest bit of four
ONCE, TWICE = np.int64(1), np.int64(2)  # stages of fields: Numba compiles a function for each number in a call


@inlined
def count_moved(moved, n_chains):
    """Return the flips in the first lanes."""
    total = 0
    for lane in range(n_chains):
        total += moved[lane]
    return total


@inlined
def _with_bit(word, i, is_up):
    """Return a lane's word of units with its bit for unit i, the first of which clears those of units after it."""
    kept = word if i % ROWS else np.uint32(0)
    return np.uint32(kept | (np.uint32(np.uint32(1) << np.uint32(i % ROWS)) if is_up else np.uint32(0)))


@apart_borrowing
def _gibbs_few(up, words, fields, scale, streams, n_chains, room):
    """Do what `gibbs_layer` does for the first lanes alone, one after the other.

    `room` are at least n numbers of the fields' type, and n of uint32.
    Cost: a few operations a unit and chain, half of them vectorised over units.
    """
    row, bits = room
    one, zero = up.dtype.type(1), up.dtype.type(0)
    n, flips = up.shape[0], 0
    for lane in range(n_chains):
        a, b, c, d = streams[0, lane], streams[1, lane], streams[2, lane], streams[3, lane]
        for i in range(n):
            bits[i], a, b, c, d = next_word(a, b, c, d)
            row[i] = fields[i, lane]
        streams[0, lane], streams[1, lane], streams[2, lane], streams[3, lane] = a, b, c, d
        own_scale = scale[lane]
        for i in range(n):
            row[i] = one if row[i] * own_scale > logit_of_bits(bits[i]) else zero
        word = np.uint32(0)
        for i in range(n):
            flips += np.int64(row[i] != up[i, lane])
            up[i, lane] = row[i]
            word = _with_bit(word, i, row[i] != zero)
            words[i // ROWS, lane] = word
    return flips


@apart_borrowing
def gibbs_layer(up, words, fields, scale, streams, n_chains, room, of_few):
    """Draw every unit of a layer from its conditional distribution.

    Mutates `up` (n, lanes) of 0 or 1, `words` (ceil(n / 32), lanes) uint32, which are the same bits, `streams`, and
    `room`, (lanes,) of uint32 and of int32; returns the number of flips in the first `n_chains` lanes. `scale` (lanes,)
    is beta (hi - lo): P(up) = sigmoid(scale field). `of_few` is None, or what `_gibbs_few` takes as room.
    Cost: one draw a unit, vectorised over lanes.
    """
    if of_few is not None:  # noqa: SIM102 (two conditions in one would be compiled where it is None)
        if n_chains <= FEWER:
            return _gibbs_few(up, words, fields, scale, streams, n_chains, of_few)
    bits, moved = room
    moved[:] = 0
    one, zero = up.dtype.type(1), up.dtype.type(0)
    for i in range(up.shape[0]):
        draw_bits(streams, bits)
        word = words[i // ROWS]
        for lane in range(up.shape[1]):
            new = one if fields[i, lane] * scale[lane] > logit_of_bits(bits[lane]) else zero
            moved[lane] += np.int32(new != up[i, lane])
            up[i, lane] = new
            word[lane] = _with_bit(word[lane], i, new != zero)
    return count_moved(moved, n_chains)


@apart_borrowing
def metropolis_layer(up, words, fields, scale, streams, n_chains, room):
    """Propose to flip every unit of a layer and accept with min(1, exp(-beta dE)).

    Mutates `up`, `words`, `streams`, `room`; returns the number of flips in the first `n_chains` lanes.
    Units of one layer do not interact, so that this is one sequential pass.  Cost: as `gibbs_layer`.
    """
    bits, moved = room
    moved[:] = 0
    one, zero = up.dtype.type(1), up.dtype.type(0)
    for i in range(up.shape[0]):
        draw_bits(streams, bits)
        word = words[i // ROWS]
        for lane in range(up.shape[1]):
            rise = fields[i, lane] * scale[lane]
            rise = rise if up[i, lane] == zero else -rise
            flip = rise >= log_of_bits(bits[lane])
            up[i, lane] = one - up[i, lane] if flip else up[i, lane]
            moved[lane] += np.int32(flip)
            word[lane] = _with_bit(word[lane], i, up[i, lane] != zero)
    return count_moved(moved, n_chains)


@apart_borrowing
def sweep_layers(values, chains, machine, room, hold, n_sweeps):
    """Draw layers given their neighbours, `n_sweeps` times; return the number of flips.

    Mutates `values` (n_units, lanes) of 0 or 1, of the fields' type, the streams, and `room`.
    `chains` are the streams, beta (hi - lo) of each lane, and the number of lanes that count; `machine` the plan of
    layers (rows of the units where they begin and where the last one ends, of the rows of their fields in `room`, and
    where one begins that is used for a while, of their ranks in a sweep, and of where their words begin), the layers to
    draw, in this order, the fields where all units are down, (n_units, lanes) or (n_units, 1), and the products, from
    each layer to the next and back, as `fastbm.kernels.bits.product_at` takes them; `room` fields, the words of layers,
    what these products need, whether the words are those of `values`, (1,), what `gibbs_layer` takes, and a row of
    fields and one of uint32, as long as the largest layer, or None where rows are not added chain by chain. `hold` is
    None for Gibbs.
    On exit the rows of layers that have any neighbour drawn before them hold the fields given those, also after none.
    """
    streams, scale, n_chains = chains
    plan, visited, _, _ = machine
    fields, words, _, is_packed, of_lanes, of_few = room
    flips = 0
    if not is_packed[0]:
        for layer in range(plan.shape[1] - 1):
            up = values[plan[STARTS, layer] : plan[STARTS, layer + 1]]
            pack_lanes(words[plan[MARKS, layer] : plan[MARKS, layer + 1]], up)
        is_packed[0] = True
    for _ in range(n_sweeps):
        for layer in visited:
            first, end = plan[STARTS, layer], plan[STARTS, layer + 1]
            place = compute_fields(layer, values, machine, room, TWICE, n_chains, of_few)
            field, own = fields[place : place + end - first], words[plan[MARKS, layer] : plan[MARKS, layer + 1]]
            if hold is None:
                flips += gibbs_layer(values[first:end], own, field, scale, streams, n_chains, of_lanes, of_few)
            else:
                flips += metropolis_layer(values[first:end], own, field, scale, streams, n_chains, of_lanes)
    if n_sweeps == 0:
        for layer in visited:
            compute_fields(layer, values, machine, room, ONCE, n_chains, of_few)
    return flips


@inlined_borrowing
def _four_of(words, i, lane):
    """Return the bits of units i to i + 3 of a lane; i is a multiple of four."""
    return (np.int64(words[i // ROWS, lane]) >> (i % ROWS)) & 15


@apart_borrowing
def add_rows(row, weights, words, lane):
    """Add to `row` (m,) the rows of `weights` (n, m), which may be integers, of units that a lane has up.

    Mutates `row`.
    """
    for first in range(0, weights.shape[0], GROUP):
        left = _four_of(words, first, lane)
        if not left:
            continue
        a = weights[first + LOWEST[left]]
        left &= left - 1
        if not left:
            for j in range(row.shape[0]):
                row[j] += a[j]
            continue
        b = weights[first + LOWEST[left]]
        left &= left - 1
        if not left:
            for j in range(row.shape[0]):
                row[j] += a[j] + b[j]
            continue
        c = weights[first + LOWEST[left]]
        left &= left - 1
        if not left:
            for j in range(row.shape[0]):
                row[j] += (a[j] + b[j]) + c[j]
            continue
        d = weights[first + LOWEST[left]]
        for j in range(row.shape[0]):
            row[j] += ((a[j] + b[j]) + c[j]) + d[j]


@apart_borrowing
def add_to_few(fields, weights, words, n_chains, row):
    """Do what `fastbm.kernels.bits.add_packed` does for the first lanes alone.

    Mutates `fields` (m, lanes), and `row`, room for at least m numbers of their type. `weights` (n, m) are the rows
    whose columns those of that product are.  Cost: for each chain an addition a column and unit that is up.
    """
    own = row[: fields.shape[0]]
    for lane in range(n_chains):
        for j in range(own.shape[0]):
            own[j] = fields[j, lane]
        add_rows(own, weights, words, lane)
        for j in range(own.shape[0]):
            fields[j, lane] = own[j]


@apart_borrowing
def compute_fields(layer, values, machine, room, n_stages, n_chains, of_few):
    """Compute the fields of a layer given neighbours drawn before it, and in a second stage given those drawn later.

    Mutates the fields of `room`; returns the row where these begin. The first ones stay where they are if there are any
    of both. Words are those of `values`. Of few chains only their own lanes have a meaning.
    """
    plan, _, start, products = machine
    fields, words, tables, _, _, _ = room
    first, end = plan[STARTS, layer], plan[STARTS, layer + 1]
    n, place = end - first, plan[PLACES, layer]
    _start_fields(fields[place : place + n], first, start)
    n_added = 0
    for stage in range(n_stages):
        lower = layer > 0 and (plan[RANKS, layer - 1] > plan[RANKS, layer]) == (stage > 0)
        upper = layer + 2 < plan.shape[1] and (plan[RANKS, layer + 1] > plan[RANKS, layer]) == (stage > 0)
        if stage > 0 and n_added > 0 and (lower or upper):
            place = plan[PLACES, plan.shape[1] - 1]
            for i in range(n):
                copy_row(fields[place + i], fields[plan[PLACES, layer] + i])
        for one in range(2):
            if lower if one == 0 else upper:
                beside = layer - 1 if one == 0 else layer + 1
                up = values[plan[STARTS, beside] : plan[STARTS, beside + 1]]
                bits = words[plan[MARKS, beside] : plan[MARKS, beside + 1]]
                which = 2 * layer - 2 if one == 0 else 2 * layer + 1
                if of_few is None:
                    add_packed(fields[place : place + n], product_at(products, which, fields), up, bits, tables)
                else:  # the columns of the product back are the rows of this
                    back = product_at(products, which ^ 1, fields)[0]
                    add_to_few(fields[place : place + n], back, bits, n_chains, of_few[0])
                n_added += 1
    return place


@apart_borrowing
def _start_fields(fields, first, start):
    for i in range(fields.shape[0]):
        if start.shape[1] == 1:
            here = start[first + i, 0]
            for lane in range(fields.shape[1]):
                fields[i, lane] = here
        else:
            copy_row(fields[i], start[first + i])


@apart_borrowing
def add_fields(fields, layer, values, starts, start, products, words, tables):
    """Compute the fields of a layer given its neighbours. Mutates `fields`; arguments are those of `sweep_layers`."""
    first, end = starts[layer], starts[layer + 1]
    _start_fields(fields, first, start)
    if layer > 0:
        product = product_at(products, 2 * layer - 2, fields)
        add_product(fields, product, values[starts[layer - 1] : first], words, tables)
    if layer + 2 < starts.shape[0]:
        product = product_at(products, 2 * layer + 1, fields)
        add_product(fields, product, values[end : starts[layer + 2]], words, tables)


@apart
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
