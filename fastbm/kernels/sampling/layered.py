"""Updates of one layer at a time: the passes that follow a matrix product.

Units of a layer are independent given their neighbours.

Arrays are (n_units of the layer, lanes), one lane per chain; fields are float32 or float64, as the engine chose.
"""

import numpy as np

from ..arrays import empty, zeros
from ..functions import exp_float32
from ..jit import kernel
from ..random import draw_bits, log_float32, log_of_bits, logit_of_bits


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
