"""Single-unit updates of one side of a bipartite machine, the other side summed out.

With x = 1 where a unit is up, a path of machines has
log f_t(x) = sum_j x_j ((1 - t) a_j + t c_j) + sum_i log(1 + exp((1 - t) a_i + t y_i)),  y_i = b_i + sum_j x_j w_ji,
j over the units that are kept, i over those that are summed out; a are log-odds of a product model, and b, c, w hold
the factor beta. Arrays are (n_units, lanes), one lane per chain, each at a t of its own.
"""

import numpy as np

from ..arrays import copy_row, empty, zeros
from ..functions import exp_float32
from ..jit import apart, apart_borrowing, kernel
from ..random import draw_bits, log_float32, logit_of_bits

GROUP = 32  # factors from 1 to 2 that are multiplied before the logarithm of the product is taken


@apart
def set_fields(fields, up, weights, bias):
    """Write y = bias + up weights. Mutates `fields` (n, lanes).

    `up` (m, lanes) of 0 and 1, `weights` (m, n), `bias` (n,).  Cost: m additions an entry.
    """
    for i in range(fields.shape[0]):
        fields[i, :] = bias[i]
    for j in range(up.shape[0]):
        for i in range(fields.shape[0]):
            w = weights[j, i]
            for lane in range(fields.shape[1]):
                fields[i, lane] += w if up[j, lane] else fields.dtype.type(0.0)


@apart_borrowing
def _add_group(fields, pull, low, high, weights, signs, first, last, sums, product, rise):
    """Add log(1 + exp(x)) of summed units `first` to `last` - 1 to `sums`.

    x = low pull + high (y + sign w); `sums` is (lanes,) float64. Mutates `sums`, `product`, `rise`.
    """
    product[:] = np.float32(1.0)
    rise[:] = rise.dtype.type(0.0)
    for i in range(first, last):
        a, w, row = pull[i], weights[i], fields[i]
        for lane in range(row.size):
            x = low[lane] * a + high[lane] * (row[lane] + signs[lane] * w)
            product[lane] *= np.float32(1.0) + exp_float32(-np.float32(min(abs(x), rise.dtype.type(100.0))))
            rise[lane] += max(x, rise.dtype.type(0.0))
    for lane in range(rise.size):
        sums[lane] += np.float64(rise[lane]) + np.float64(log_float32(product[lane]))


@apart
def sum_out(fields, pull, steps, sums):
    """Write sum_i log(1 + exp(x_i)) of every lane. Mutates `sums` (lanes,) float64.

    x_i = (1 - t) pull_i + t y_i with `fields` y (n, lanes), `pull` (n,), t = `steps` (lanes,).  Cost: an exponential a
    unit and lane, vectorised over lanes.
    """
    kind = fields.dtype.type
    lanes = fields.shape[1]
    low, high, none = empty(lanes, fields.dtype), empty(lanes, fields.dtype), zeros(lanes, fields.dtype)
    still = zeros(fields.shape[0], fields.dtype)
    product, rise = empty(lanes, np.float32), empty(lanes, fields.dtype)
    for lane in range(lanes):
        low[lane], high[lane] = kind(1.0 - steps[lane]), kind(steps[lane])
        sums[lane] = 0.0
    for first in range(0, still.size, GROUP):
        _add_group(fields, pull, low, high, still, none, first, min(first + GROUP, still.size), sums, product, rise)


@apart
def sweep_marginal(up, fields, sums, weights, pulls, steps, streams):
    """Draw every kept unit in turn given the other kept ones.

    Mutates `up` (m, lanes) of 0 and 1, `fields`, `sums`, `streams`.
    `weights` (m, n); `pulls` = (log-odds a of kept units, c of kept units, a of summed units); t = `steps` (lanes,).
    Invariant: fields == b + up weights, sums == `sum_out` of them.  Cost: an exponential for every pair of a kept and a
    summed unit and lane, vectorised over lanes.
    """
    base, bias, pull = pulls
    kind = fields.dtype.type
    n, lanes = fields.shape
    bits = empty(lanes, np.uint32)
    low, high, signs = empty(lanes, fields.dtype), empty(lanes, fields.dtype), empty(lanes, fields.dtype)
    flipped, product, rise = empty(lanes, np.float64), empty(lanes, np.float32), empty(lanes, fields.dtype)
    for lane in range(lanes):
        low[lane], high[lane] = kind(1.0 - steps[lane]), kind(steps[lane])
    for j in range(up.shape[0]):
        row = weights[j]
        for lane in range(lanes):
            signs[lane] = kind(-1.0) if up[j, lane] else kind(1.0)
            flipped[lane] = 0.0
        for first in range(0, n, GROUP):
            _add_group(fields, pull, low, high, row, signs, first, min(first + GROUP, n), flipped, product, rise)
        draw_bits(streams, bits)
        moved = False
        for lane in range(lanes):
            own = (1.0 - steps[lane]) * base[j] + steps[lane] * bias[j]
            gain = flipped[lane] - sums[lane] + np.float64(signs[lane]) * own
            if gain > np.float64(logit_of_bits(bits[lane])):
                sums[lane] = flipped[lane]
                up[j, lane] = np.uint8(1) - up[j, lane]
                moved = True
            else:
                signs[lane] = kind(0.0)
        if moved:
            for i in range(n):
                w = row[i]
                for lane in range(lanes):
                    fields[i, lane] += signs[lane] * w


@kernel
def follow_marginal(up, fields, sums, log_w, machine, ladder, level, ends, streams, swaps, visited, n_rounds, first):
    """Weigh the step of every chain to another level, take it or not, and sweep, `n_rounds` times.

    A chain in a lane stands at level[lane] of `ladder` (n_levels,), which are t. Walks, where `swaps` (4, 0) has no
    stream, take the step to the next level, and `log_w` (lanes,) rises by log f_t'(x) - log f_t(x). Others are replicas
    of one ladder, one at each level, and lanes beyond these idle at level 0: every second pair of neighbours tries to
    swap, and round t of `visited` (n_rounds, m) gets the kept units of the last level. `ends` (lanes,) is 1 for a
    replica that has come down from the last level to the first, 2 for one that has been at the last; `first` is the
    number of the first round. `machine` is (weights, bias, pulls) as for `sweep_marginal`, the bias of summed units.

    Mutates `up`, `fields`, `sums`, `log_w`, `level`, `ends`, `streams`, `swaps`, `visited`. Returns round trips.
    Invariant: on exit, also after no round, as for `sweep_marginal` at levels.  Cost: as that, and a sum over the
    summed units a round.
    """
    weights, bias, pulls = machine
    (base, field, pull), n_levels, lanes = pulls, ladder.size, up.shape[1]
    steps, others, there = empty(lanes, np.float64), empty(lanes, np.float64), empty(lanes, np.float64)
    gains, replica, bits = empty(lanes, np.float64), empty(n_levels, np.int64), empty(1, np.uint32)
    is_walk, trips = swaps.shape[1] == 0, 0
    for lane in range(lanes):
        steps[lane] = ladder[level[lane]]
    for t in range(max(n_rounds, 1)):
        if t % 16 == 0:
            set_fields(fields, up, weights, bias)
            sum_out(fields, pull, steps, sums)
        if n_rounds == 0:
            break
        parity = (first + t) % 2
        copy_row(others, steps)
        if is_walk:
            for lane in range(lanes):
                level[lane] += 1
                others[lane] = ladder[level[lane]]
        else:
            for r in range(n_levels):
                replica[level[r]] = r
            for k in range(parity, n_levels - 1, 2):
                others[replica[k]], others[replica[k + 1]] = ladder[k + 1], ladder[k]
        sum_out(fields, pull, others, there)
        gains[:] = 0.0
        for j in range(up.shape[0]):
            rise = field[j] - base[j]
            for lane in range(lanes):
                gains[lane] += rise * np.float64(up[j, lane])
        for lane in range(lanes):
            gains[lane] = (others[lane] - steps[lane]) * gains[lane] + there[lane] - sums[lane]
        if is_walk:
            for lane in range(lanes):
                log_w[lane] += gains[lane]
        else:
            for k in range(parity, n_levels - 1, 2):
                a, b = replica[k], replica[k + 1]
                draw_bits(swaps, bits)
                if np.log((np.float64(bits[0]) + 0.5) * 2.0**-32) < gains[a] + gains[b]:
                    level[a], level[b] = k + 1, k
                else:
                    others[a], others[b], there[a], there[b] = steps[a], steps[b], sums[a], sums[b]
        copy_row(steps, others)
        copy_row(sums, there)
        sweep_marginal(up, fields, sums, weights, pulls, steps, streams)
        if not is_walk:
            for r in range(n_levels):
                if level[r] == 0 and ends[r] == 2:
                    ends[r] = 1
                elif level[r] == n_levels - 1:
                    trips += ends[r] == 1
                    ends[r] = 2
                    for j in range(up.shape[0]):
                        visited[t, j] = up[j, r]
    return trips
