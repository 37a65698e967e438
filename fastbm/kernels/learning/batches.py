"""Mini-batches of contrastive divergence on restricted machines of binary units, many of them in one call.

A lane is a row of the batch, or a chain. Most visible units are down, so that hidden fields are sums of those rows of
the weights (n_visible, n_hidden) whose units are up, and <v h> of a visible unit is a sum of the hidden means of lanes
in which it is up, one by one.

The work may be shared among threads that call `run_batches` side by side, each with a number of its own: lanes while
units are drawn, visible units while weights move. They meet at barriers; every number is computed by one of them, in an
order that does not depend on how many there are.
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row
from ..barrier import meet
from ..functions import count_bits
from ..jit import apart_borrowing, borrowing
from .contrastive import (
    VECTOR,
    add_hidden,
    add_listed,
    add_visible,
    draw_words,
    list_bits,
    transpose,
    transpose_words,
    turn_words,
    write_means,
)

OFFSET_RATE = 0.01  # of hidden units' offsets, a mini-batch
PIECE = 16  # visible units whose parts of a sum over all of them are added up first


@apart_borrowing
def draw_hidden(hidden, fields, room, streams, n_hidden):
    """Draw hidden units from their fields (width, m). Mutates bits `hidden` (n_words, width), the room, the streams."""
    _, _, _, turned_fields, drawn, _, _ = room
    transpose(turned_fields, fields)
    draw_words(hidden, turned_fields, streams, n_hidden, drawn)


@apart_borrowing
def sweep(visible, hidden, room, bias, weights, streams, masks):
    """Draw visible units given hidden ones, and compute the hidden fields that follow.

    Mutates `visible` (lanes, n_words), `streams` (4, width) and `room`: visible fields (n, width), words of visible
    units (n_words, width), hidden fields (width, m), hidden fields turned, random bits (width,), and what `add_hidden`
    and `add_visible` need. `hidden` is (n_words, width), `bias` (n,) and (m,).
    """
    visible_fields, words, fields, _, drawn, tables, places = room
    n_visible = bias[0].size
    for i in range(visible_fields.shape[0]):
        visible_fields[i] = bias[0][i] if i < n_visible else np.float32(0.0)
    add_hidden(visible_fields, weights, hidden, masks, tables)
    draw_words(words, visible_fields, streams, n_visible, drawn)
    transpose_words(visible, words)
    add_visible(fields, bias[1], weights, visible, places)


@borrowing
def add_halves_of_means(noise, pair, unit, means, places):
    """Add -n_chains times the hidden means of chains in which a visible unit is up, for its pairs from `pair` on.

    Returns the first pair of a later unit. `noise` holds sums (2, n_pairs), of which this mutates those of chains of
    even number, row 0, and of odd number; the pairs (2, n_pairs) by visible unit; the first word of turned bits that is
    of chains; and n_chains. `places` are the chains' lanes, rows of `means`, in which the unit is up.
    """
    sums, pairs, _, n_chains = noise
    while pair < pairs.shape[1] and pairs[0, pair] == unit:
        even, odd, column = 0.0, 0.0, pairs[1, pair]
        for lane in places:
            mean = np.float64(means[np.uint32(lane), column])
            of_odd = mean if lane & 1 else 0.0
            even += mean - of_odd
            odd += of_odd
        sums[0, pair] -= n_chains * even
        sums[1, pair] -= n_chains * odd
        pair += 1
    return pair


@apart_borrowing
def step_couplings(machine, velocity, lanes, gaps, taken, noise, numbers, units):
    """Take a step of gradient ascent with momentum, for the couplings of visible `units`, the first and the last.

    Mutates `machine`: beta times couplings, and the sum of <v h>_clamped - <v h>_free so far, both (at least n_visible,
    m) float32, and room for a slope (m,) float32 and for places (n_lanes + 16,) int32; the couplings' `velocity`; and
    `taken`, what centring takes from the slopes of biases: (n_visible,), and for pieces of visible units (n_pieces,
    n_hidden); and `noise`, as `add_halves_of_means` does. Without momentum `velocity` is None, without centring `taken`
    is, and nothing is compiled for them.
    Cost: a vector addition for every bit, and a pass over the couplings of units that are up in some lane.
    """
    weights, gap, slope, places = machine
    turned, means = lanes
    visible_gap, hidden_gap, visible_centre, hidden_centre = gaps
    beta, rate, momentum, l2, _ = numbers
    up, decay = np.float32(rate * beta * beta), np.float32(rate * l2)
    plain = l2 == 0.0 and velocity is None and taken is None
    first, last = units
    pair = np.int64(0)
    while pair < noise[1].shape[1] and noise[1][0, pair] < first:
        pair += 1
    if taken is not None:
        for piece in range(first // PIECE, -(-last // PIECE)):
            taken[1][piece] = 0.0
    for i in range(first, last):
        n = n_rows = np.int64(0)  # a literal would compile what it is given to once more
        for w in range(turned.shape[0]):
            n_rows = n if w == noise[2] else n_rows
            n = list_bits(places, n, np.int64(turned[w, i]), VECTOR * w)
        pair = add_halves_of_means(noise, pair, i, means, places[n_rows:n])
        if n == 0 and plain:
            continue
        slope[:] = 0
        add_listed(slope, means, places, n)
        row, sums = weights[i], gap[i]
        for h in range(row.size):
            sums[h] += slope[h]
        if taken is not None:
            total, parts, shrink = 0.0, taken[1][i // PIECE], l2 / (beta * beta)
            for h in range(hidden_gap.size):
                slope[h] -= np.float32(hidden_gap[h] * visible_centre[i] + hidden_centre[h] * visible_gap[i])
                parts[h] += (np.float64(slope[h]) - shrink * np.float64(row[h])) * visible_centre[i]
            for h in range(hidden_gap.size):
                total += (np.float64(slope[h]) - shrink * np.float64(row[h])) * hidden_centre[h]
            taken[0][i] = total
        if velocity is not None:
            v, memory = velocity[i], np.float32(momentum)
            for h in range(row.size):
                v[h] = memory * v[h] + (up * slope[h] - decay * row[h])
                row[h] += v[h]
        elif plain:
            for h in range(row.size):
                row[h] += up * slope[h]
        else:
            for h in range(row.size):
                row[h] += up * slope[h] - decay * row[h]


@apart_borrowing
def sum_units(visible_gap, hidden_gap, hidden_sums, lanes, split, n_rows, n_chains):
    """Compute the differences of both phases' means, and the sums of hidden means over the batch's rows.

    Mutates `visible_gap` (n_visible,), `hidden_gap` and `hidden_sums` (n_hidden,). Lanes from `split` on are chains.
    """
    turned, means = lanes
    visible_gap[:] = 0.0
    for w in range(turned.shape[0]):
        size = 1.0 / n_rows if VECTOR * w < split else -1.0 / n_chains
        row = turned[w]
        for i in range(visible_gap.size):
            visible_gap[i] += size * np.float64(count_bits(np.uint64(row[i])))
    hidden_gap[:] = 0.0
    for lane in range(means.shape[0]):
        if lane == split:
            copy_row(hidden_sums, hidden_gap)
        for h in range(hidden_gap.size):
            hidden_gap[h] += np.float64(means[lane, h])


@apart_borrowing
def step_biases(bias, velocity, offsets, gaps, taken, hidden_sums, numbers):
    """Take the step of the biases, and let the offsets of hidden units follow.

    Mutates `bias`, its `velocity`, `offsets`.

    Cost: one pass.
    """
    visible_gap, hidden_gap, _, _ = gaps
    beta, rate, momentum, _, l2_bias = numbers
    n_visible = visible_gap.size
    held = l2_bias
    if taken is not None:
        held = 0.0  # the gaps have it
        for i in range(n_visible):
            visible_gap[i] -= taken[0][i]
        for piece in range(taken[1].shape[0]):
            for h in range(hidden_gap.size):
                hidden_gap[h] -= taken[1][piece, h]
    for i in range(bias.size):
        slope = visible_gap[i] if i < n_visible else hidden_gap[i - n_visible]
        velocity[i] = momentum * velocity[i] + rate * (beta * slope - held * bias[i])
        bias[i] += velocity[i]
    if taken is not None:
        for h in range(hidden_sums.size):
            offsets[n_visible + h] += OFFSET_RATE * (hidden_sums[h] - offsets[n_visible + h])


@apart_borrowing
def write_lanes(lanes, part, first, bits, fields, n_hidden, size):
    """Write visible bits, and hidden means times `size`, where both are read.

    Mutates `lanes`; `part` is the thread's.
    """
    start, end = first + part[0], first + part[1]
    turn_words(lanes[0][start // VECTOR : -(-end // VECTOR)], bits)
    write_means(lanes[1][start:end], fields, n_hidden, size)


@borrowing
def run_batches(rows, order, machine, chains, lanes, noise, numbers, room, plan):
    """Do mini-batches: both phases, and a step along their difference.

    Parameters
    ----------
    rows : (n_rows, n_words) uint32
        Bits of the data.
    order : (n_batches, batch_size) int64
        The rows of each batch.
    machine : tuple
        beta W (at least n_visible, m), its velocity or None, and the sum of <v h>_clamped - <v h>_free, float32;
        biases, their velocity, and offsets of units, (n_units,) float64. m is a multiple of 64, and all beyond the
        units is 0.
    chains : tuple
        Of the thread's chains bits of visible units (n_lanes, n_words) and of hidden ones (n_words, width), and
        streams (4, width), uint32, width being a multiple of 16; and the number of all chains.
    lanes : tuple
        Room for bits (n_lanes / 16, 32 n_words) uint16 and hidden means (n_lanes, m) float32, 0 at first, those of
        chains from the first multiple of 16 on; what centring takes (n_visible,), (n_pieces, n_hidden), or None; the
        barrier's counter; `fastbm.kernels.bits.MASKS`.
    noise : tuple
        Sums (2, n_pairs) over chains of even and of odd number, and the pairs (2, n_pairs) by visible unit.
    numbers : tuple
        beta, rate, momentum, l2, l2 of biases.
    room : tuple
        For a thread's chains, as `sweep` takes it; for its rows, bits (n, n_words) and fields (width, m); for biases
        (n_visible,) and (m,), float32, 0 at first; for gaps (n_visible,), (n_hidden,), and sums (n_hidden,); for a
        slope (m,) float32.
    plan : tuple of int
        n_hidden; whether chains persist; sweeps; the thread's number, and the number of threads; and the first and the
        last of its rows, of its chains, and of its visible units.

    Mutates all but `rows`, `order`, `numbers` and `plan`.
    Invariant: bits do not depend on the number of threads, nor on how batches are cut into calls.
    """
    weights, velocity, gap, bias, bias_velocity, offsets = machine
    turned, means, taken, counter, masks = lanes
    n_hidden, persistent, n_sweeps, shard, n_shards, of_rows, of_chains, units = plan
    bits, hidden, streams, n_chains = chains
    room_of_chains, row_bits, row_fields, biases, gap_of, sums, slope = room
    fields, places = room_of_chains[2], room_of_chains[6]
    n_visible, n_rows = bias.size - n_hidden, order.shape[1]
    split = -(-n_rows // VECTOR) * VECTOR
    gaps = gap_of[0], gap_of[1], offsets[:n_visible], offsets[n_visible:]
    both, n_met = (turned, means), np.int64(0)
    for batch in range(order.shape[0]):
        for i in range(n_visible):
            biases[0][i] = np.float32(numbers[0] * bias[i])
        for h in range(n_hidden):
            biases[1][h] = np.float32(numbers[0] * bias[n_visible + h])
        for k in range(len(row_bits)):
            copy_row(row_bits[k], rows[order[batch, of_rows[0] + k]])
        add_visible(row_fields, biases[1], weights, row_bits, places)
        write_lanes(both, of_rows, np.int64(0), row_bits, row_fields, n_hidden, 1.0 / n_rows)
        for k in range(n_sweeps if len(bits) else 0):
            if not persistent:
                draw_hidden(hidden, row_fields if k == 0 else fields, room_of_chains, streams, n_hidden)
            sweep(bits, hidden, room_of_chains, biases, weights, streams, masks)
            if persistent:
                draw_hidden(hidden, fields, room_of_chains, streams, n_hidden)
        write_lanes(both, of_chains, split, bits, fields, n_hidden, -1.0 / n_chains)
        n_met = meet(counter, n_met, n_shards)
        sum_units(gaps[0], gaps[1], sums, both, split, n_rows, n_chains)
        if taken is not None:  # penalties are centred with all else
            for i in range(bias.size):
                held = numbers[4] / numbers[0] * bias[i]
                if i < n_visible:
                    gaps[0][i] -= held
                else:
                    gaps[1][i - n_visible] -= held
        halves = noise[0], noise[1], split // VECTOR, n_chains
        step_couplings((weights, gap, slope, places), velocity, both, gaps, taken, halves, numbers, units)
        n_met = meet(counter, n_met, n_shards)
        if shard == 0:
            step_biases(bias, bias_velocity, offsets, gaps, taken, sums, numbers)
        n_met = meet(counter, n_met, n_shards)
