"""Annealed importance sampling: chains that follow a path from a product model to the machine, and their weights.

On the way a unit's log-odds are (1 - t) base + t field. Limits of Gibbs updates are drawn before the state is looked
at, as in `fastbm.kernels.sampling.limits`: a unit goes up where tilt_i + field / scale > logit(u), that is where its
field exceeds (logit(u) - tilt_i) scale.

Couplings and fields, dense or sparse, are integers, as in `fastbm.kernels.sampling.dense`. So are the gains: the
weights are exact for the machine in integers. On sparse couplings they rise or fall by the field with every flip, on
dense ones they are summed after every sweep. Both kernels give the same bits. On layered machines a layer that is not
summed out is drawn at once, given its neighbours.
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty
from ..jit import apart, apart_borrowing, borrowing, kernel
from ..random import draw_bits, logit_of_bits, next_word
from ..sampling.dense import COLUMNS, are_blocks_faster, enter_block, leave_block, visit_units
from ..sampling.field_energies import sum_fields, words_of_units
from ..sampling.layered import add_fields, anneal_layer
from ..sampling.limits import ROWS, largest_float32


@apart
def draw_tempered_layer(up, fields, base, t, tilt, streams, sums):
    """Draw a layer between its product model and the machine. Mutates `up` (n, lanes) of 0 or 1, `streams`, `sums`.

    Log-odds are (1 - t) base + t field, `base` (n,) and `fields` (n, lanes). Adds sum_i tilt_i up_i, `tilt` (n,)
    float64, to `sums` (lanes,) float64.  Cost: one draw a unit, vectorised over lanes.
    """
    lanes = up.shape[1]
    kind = up.dtype.type
    bits = empty(lanes, np.uint32)
    one, zero, rate = kind(1), kind(0), kind(t)
    for i in range(up.shape[0]):
        draw_bits(streams, bits)
        pull, here = kind((1.0 - t) * base[i]), tilt[i]
        row, field = up[i], fields[i]
        for lane in range(lanes):
            new = one if pull + rate * field[lane] > logit_of_bits(bits[lane]) else zero
            sums[lane] += here * np.float64(new)
            row[lane] = new


@kernel
def follow_layers(up, sums, streams, machine, models, room, path):
    """Weigh and draw layers at every temperature of `path` after the first, at which even layers were drawn.

    Layers of odd number are summed out. Mutates `up` (n_units, lanes) of 0 or 1, of the fields' type, the streams
    (4, lanes), `room`, as `sweep_layers` does, and `sums`: log weights so far, and the sum over even layers of
    tilt_i up_i, (lanes,) float64 each.
    `machine` is as for `sweep_layers`, but for the order of layers; `models` are the log-odds of the product model
    in the fields' type and in float64, and `tilt`, what those of the bias are above them, (n_units,) each. A path of
    one temperature draws the even layers alone.
    """
    starts, start, products = machine
    low, base, tilt = models
    fields, words, tables = room
    totals, tilts = sums
    n_layers = starts.shape[0] - 1
    for step in range(path.shape[0]):
        after = path[step]
        if step > 0:
            before = path[step - 1]
            for lane in range(totals.shape[0]):
                totals[lane] += (after - before) * tilts[lane]
            for layer in range(1, n_layers, 2):
                first, end = starts[layer], starts[layer + 1]
                field = fields[: end - first]
                add_fields(field, layer, up, starts, start, products, words, tables)
                anneal_layer(up[first:end], field, low[first:end], before, after, streams, totals)
        if step > 0 or path.shape[0] == 1:
            tilts[:] = 0.0
            for layer in range(0, n_layers, 2):
                first, end = starts[layer], starts[layer + 1]
                field = fields[: end - first]
                add_fields(field, layer, up, starts, start, products, words, tables)
                draw_tempered_layer(up[first:end], field, base[first:end], after, tilt[first:end], streams, tilts)


@apart_borrowing
def tilted_limits(streams, tilts, scale, limits):
    """Draw limits of Gibbs updates: a field goes up where it is larger. Mutates `streams`, `limits` (rows, lanes).

    `tilts` (rows,) float32 are log-odds that come to those of the fields, `scale` (float32) turns log-odds into the
    units of the fields; the largest number where fields have no say.  Cost: one draw and one logarithm an entry.
    """
    most = largest_float32(limits)
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    for row in range(limits.shape[0]):
        tilt = tilts[row]
        for lane in range(limits.shape[1]):
            word, s0[lane], s1[lane], s2[lane], s3[lane] = next_word(s0[lane], s1[lane], s2[lane], s3[lane])
            limit = np.floor(np.float32(np.float32(logit_of_bits(word) - tilt) * scale))
            limits[row, lane] = min(max(limit, -most), most)


@apart_borrowing
def _sum_anew(up, fields, start, base, gains, tilts, words, octets, room):
    """Compute gains and tilts as `anneal_dense` has them, exactly. Mutates these and the last three, room."""
    tilts[:] = 0.0
    for i in range(up.shape[0]):
        here = base[i]
        for lane in range(up.shape[1]):
            tilts[lane] += here * np.float64(up[i, lane])
    words_of_units(up, words, octets)
    if fields.itemsize == 8:  # there are bits to spare for the sum, which float64 has not
        for c in range(fields.shape[0]):
            total = np.int64(0)
            for i in range(up.shape[0]):
                bit = np.int64(words[c, i // 64] >> np.uint64(i % 64)) & 1
                total += (fields[c, i] + start[0, i]) * bit
            gains[c] = total // 2
    else:
        sum_fields(words, fields, start, np.int64(1), room)
        for c in range(fields.shape[0]):
            gains[c] = np.int64(room[c]) // 2


@borrowing
def anneal_dense(up, chains, sums, base, path, streams, sites, room):
    """Weigh and sweep at every step of `path`. Mutates `up`, fields, `sums`, `streams`, `room`.

    `up` (n_units, lanes) uint8 holds the bits, `chains` is (fields, rises, start): one row of fields for each chain,
    couplings as in `fastbm.kernels.sampling.dense`, and the fields (1, width) int64 with all units down. `room` is what
    `dense_room` has made, and (words, octets, sums (n_chains,) float64, pulls (`ROWS`,) float32). `base` (n_units,) are
    the log-odds of the product model, multiples of a power of 2 whose sums do not round. A row of `path` is (step, t,
    unit): log w rises by step (unit gain - tilt), then every unit in the order of `sites` is drawn with log-odds
    (1 - t) base + t unit field.
    Invariant: `sums` is (gains (lanes,) int64, tilts, log w), with gains = x A x / 2 + a x in integers and tilts =
    base x.
    Cost: O(lanes) an attempt, plus O(n_units) a flip and a chain of a step.
    """
    (fields, rises, start_of), (gains, tilts, log_w) = chains, sums
    (limits, room_of_block), (words, octets, here, pulls) = room
    _, moves, _, _, distances = room_of_block
    by_blocks, is_run = are_blocks_faster(np.int64(1), np.int64(4), fields, rises), False
    for s in range(path.shape[0]):
        step, t, unit = path[s, 0], path[s, 1], path[s, 2]
        for c in range(fields.shape[0]):
            log_w[c] += step * (unit * np.float64(gains[c]) - tilts[c])
        scale = scale_of(t * unit)
        for start in range(0, sites.shape[0], COLUMNS):
            some, n_flips = sites[start : start + COLUMNS], 0
            if by_blocks:
                is_run = enter_block(fields, some, room_of_block)
            for first in range(0, some.shape[0], ROWS):
                m = min(ROWS, some.shape[0] - first)
                for p in range(m):
                    pulls[p] = (1.0 - t) * base[some[first + p]]
                tilted_limits(streams, pulls, scale, limits[:m])
                block = (some, first, by_blocks, is_run)
                n_flips += visit_units(up, (fields, rises), block, limits[:m], None, room_of_block)
            if by_blocks:
                leave_block((fields, rises), some, moves, distances)
            by_blocks = are_blocks_faster(n_flips, some.shape[0] * fields.shape[0], fields, rises)
        _sum_anew(up, fields, start_of, base, gains, tilts, words, octets, here)


@kernel
def scale_of(unit):
    """Return what turns log-odds into fields whose `unit` in log-odds this is.

    It is never so small that signs of limits are lost, nor more than float32 holds.
    """
    scale = 1.0 / unit if unit > 0.0 else np.inf
    return np.float32(min(max(scale, 1e-30), 3.4e38))


@kernel
def anneal_sparse(up, sums, graph, base, path, streams, sites):
    """Weigh and sweep at every step of `path`. Mutates `up` (n_units, lanes) uint8, `sums`, `streams`.

    `graph` is (indptr, indices, rises, start): what each neighbour that is up adds, and the field (n_units,) with all
    units down. All else, and the invariant, as for `anneal_dense`.
    Cost: O(degree lanes) an attempt, vectorised over lanes.
    """
    gains, tilts, log_w = sums
    indptr, indices, rises, start = graph
    kind, lanes = rises.dtype.type, up.shape[1]
    limits = empty((ROWS, lanes), rises.dtype)
    pulls = empty(ROWS, np.float32)
    field = empty(lanes, rises.dtype)
    for s in range(path.shape[0]):
        step, t, unit = path[s, 0], path[s, 1], path[s, 2]
        for lane in range(lanes):
            log_w[lane] += step * (unit * np.float64(gains[lane]) - tilts[lane])
        scale = scale_of(t * unit)
        for first in range(0, sites.shape[0], ROWS):
            m = min(ROWS, sites.shape[0] - first)
            for p in range(m):
                pulls[p] = (1.0 - t) * base[sites[first + p]]
            tilted_limits(streams, pulls, scale, limits[:m])
            for p in range(m):
                i, limit = sites[first + p], limits[p]
                here = start[i]
                for lane in range(lanes):
                    field[lane] = here
                # four neighbours at a time: checks before vector code are paid once for four
                k, last = indptr[i], indptr[i + 1]
                while k + 4 <= last:
                    w0, w1, w2, w3 = rises[k], rises[k + 1], rises[k + 2], rises[k + 3]
                    r0, r1, r2, r3 = up[indices[k]], up[indices[k + 1]], up[indices[k + 2]], up[indices[k + 3]]
                    for lane in range(lanes):
                        low = w0 * kind(r0[lane]) + w1 * kind(r1[lane])
                        field[lane] += low + (w2 * kind(r2[lane]) + w3 * kind(r3[lane]))
                    k += 4
                while k < last:
                    w, r = rises[k], up[indices[k]]
                    for lane in range(lanes):
                        field[lane] += w * kind(r[lane])
                    k += 1
                bits, tilt = up[i], base[i]
                for lane in range(lanes):
                    bit = np.uint8(field[lane] > limit[lane])
                    change = np.int64(bit) - np.int64(bits[lane])
                    gains[lane] += change * np.int64(field[lane])
                    tilts[lane] += np.float64(change) * tilt
                    bits[lane] = bit
