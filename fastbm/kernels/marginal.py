"""Single-unit updates of one side of a bipartite machine, the other side summed out.

With x = 1 where a unit is up, a path of machines has
log f_t(x) = sum_j x_j ((1 - t) a_j + t c_j) + sum_i log(1 + exp((1 - t) a_i + t y_i)),  y_i = b_i + sum_j x_j w_ji,
j over the units that are kept, i over those that are summed out; a are log-odds of a product model, and b, c, w hold the
factor beta. Arrays are (n_units, lanes), one lane per chain, each at a t of its own.
"""

import numpy as np

from .._jit import inlined, kernel
from .functions import exp_float32
from .random import draw_bits, log_float32, logit_of_bits

GROUP = 32  # factors from 1 to 2 that are multiplied before the logarithm of the product is taken


@kernel
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


@inlined
def _add_group(fields, pull, low, high, weights, signs, first, last, sums, product, rise):
    """Add log(1 + exp(x)) of summed units `first` to `last` - 1 to `sums` (lanes,) float64, in
    x = low pull + high (y + sign w). Mutates `sums`, `product`, `rise`.
    """
    product[:] = np.float32(1.0)
    rise[:] = np.float32(0.0)
    for i in range(first, last):
        a, w, row = pull[i], weights[i], fields[i]
        for lane in range(row.size):
            x = np.float32(low[lane] * a + high[lane] * (row[lane] + signs[lane] * w))
            product[lane] *= np.float32(1.0) + exp_float32(-abs(x))
            rise[lane] += max(x, np.float32(0.0))
    for lane in range(rise.size):
        sums[lane] += np.float64(rise[lane] + log_float32(product[lane]))


@kernel
def sum_out(fields, pull, steps, sums):
    """Write sum_i log(1 + exp(x_i)) of every lane. Mutates `sums` (lanes,) float64.

    x_i = (1 - t) pull_i + t y_i with `fields` y (n, lanes), `pull` (n,), t = `steps` (lanes,).  Cost: an exponential a
    unit and lane, vectorised over lanes.
    """
    kind = fields.dtype.type
    lanes = fields.shape[1]
    low, high, none = np.empty(lanes, fields.dtype), np.empty(lanes, fields.dtype), np.zeros(lanes, fields.dtype)
    still = np.zeros(fields.shape[0], fields.dtype)
    product, rise = np.empty(lanes, np.float32), np.empty(lanes, np.float32)
    for lane in range(lanes):
        low[lane], high[lane] = kind(1.0 - steps[lane]), kind(steps[lane])
        sums[lane] = 0.0
    for first in range(0, fields.shape[0], GROUP):
        _add_group(fields, pull, low, high, still, none, first, min(first + GROUP, fields.shape[0]), sums, product, rise)


@kernel
def sweep_marginal(up, fields, sums, weights, pulls, steps, streams):
    """Draw every kept unit in turn given the other kept ones. Mutates `up` (m, lanes) of 0 and 1, `fields`, `sums`,
    `streams`.

    `weights` (m, n); `pulls` = (log-odds a of kept units, c of kept units, a of summed units); t = `steps` (lanes,).
    Invariant: fields == b + up weights, sums == `sum_out` of them.  Cost: an exponential for every pair of a kept and a
    summed unit and lane, vectorised over lanes.
    """
    base, bias, pull = pulls
    kind = fields.dtype.type
    n, lanes = fields.shape
    bits = np.empty(lanes, np.uint32)
    low, high, signs = np.empty(lanes, fields.dtype), np.empty(lanes, fields.dtype), np.empty(lanes, fields.dtype)
    flipped, product, rise = np.empty(lanes), np.empty(lanes, np.float32), np.empty(lanes, np.float32)
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
