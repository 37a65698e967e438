"""Annealed importance sampling on layered machines: the layers that are not summed out; see `anneal_layer`."""

import numpy as np

from .._jit import kernel
from .random import draw_bits, logit_of_bits


@kernel
def draw_tempered_layer(up, fields, base, t, tilt, streams, sums):
    """Draw a layer between its product model and the machine. Mutates `up` (n, lanes) of 0 or 1, `streams`, `sums`.

    Log-odds are (1 - t) base + t field, `base` (n,) and `fields` (n, lanes). Adds sum_i tilt_i up_i, `tilt` (n,)
    float64, to `sums` (lanes,) float64.  Cost: one draw a unit, vectorised over lanes.
    """
    lanes = up.shape[1]
    kind = up.dtype.type
    bits = np.empty(lanes, np.uint32)
    one, zero, rate = kind(1), kind(0), kind(t)
    for i in range(up.shape[0]):
        draw_bits(streams, bits)
        pull, here = kind((1.0 - t) * base[i]), tilt[i]
        row, field = up[i], fields[i]
        for lane in range(lanes):
            new = one if pull + rate * field[lane] > logit_of_bits(bits[lane]) else zero
            sums[lane] += here * np.float64(new)
            row[lane] = new
