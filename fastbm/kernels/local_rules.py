"""Losses of single units given all others, and what remains of them as a gradient, for rows side by side.

With y = +-1 for a unit that is up or down and margin u = y scale (field + bias): the logistic loss log(1 + exp(-u)) of
pseudo-likelihood (Besag 1974), and exp(-u) of interaction screening and of minimum probability flow (Vuffray, Misra,
Lokhov and Chertkov 2016; Sohl-Dickstein, Battaglino and DeWeese 2011).
"""

import numpy as np

from .._jit import kernel
from .functions import exp2_float64, log1p_float64

LANES = 64  # rows side by side: sums of so many lanes run as vectors, without a change of their order
_LOG2_E = 1.4426950408889634


@kernel
def logistic_residuals(field, values, weights, bias, scale, sums):
    """Turn fields into the derivatives of the weighted logistic losses by them. Mutates `field` and `sums`.

    `field` and `values` (n_units, n_blocks, LANES), a unit being up where its value is positive; `weights` (n_blocks,
    LANES) of the rows; `sums` (n_units,) gets each unit's loss.
    Invariant: `field` comes without `bias` and leaves as d loss / d field, so residual @ values.T is the gradient.
    Cost: one pass, an exponential, a logarithm and two divisions a number.
    """
    lanes = np.empty(LANES)
    for i in range(field.shape[0]):
        b = bias[i]
        lanes[:] = 0.0
        for block in range(field.shape[1]):
            f, v, w = field[i, block], values[i, block], weights[block]
            for k in range(LANES):
                factor = scale if v[k] > 0.0 else -scale
                margin = factor * (f[k] + b)
                e = exp2_float64(max(-abs(margin) * _LOG2_E, -1021.0))
                lanes[k] += w[k] * (max(-margin, 0.0) + log1p_float64(e))
                f[k] = -w[k] * factor * ((e if margin > 0.0 else 1.0) / (1.0 + e))
        sums[i] = lanes.sum()


@kernel
def exponential_residuals(field, values, weights, bias, scale, sums, peaks):
    """Turn fields into the derivatives of the weighted exponential losses by them. Mutates `field`, `sums`, `peaks`.

    Shapes as for `logistic_residuals`; `peaks` (n_units,) gets the largest exponent of each unit.
    Invariant: unit i's loss is exp(peaks[i]) sums[i] and the derivatives are exp(peaks[i]) field[i], so that nothing
    overflows and sums are at least the smallest weight; rows of weight 0 must repeat others of the block.
    Cost: two passes, an exponential a number.
    """
    lanes = np.empty(LANES)
    for i in range(field.shape[0]):
        b = bias[i]
        lanes[:] = -np.inf
        for block in range(field.shape[1]):
            f, v = field[i, block], values[i, block]
            for k in range(LANES):
                exponent = (-scale if v[k] > 0.0 else scale) * (f[k] + b)
                f[k] = exponent
                lanes[k] = exponent if exponent > lanes[k] else lanes[k]
        peak = lanes.max()
        peaks[i] = peak
        lanes[:] = 0.0
        for block in range(field.shape[1]):
            f, v, w = field[i, block], values[i, block], weights[block]
            for k in range(LANES):
                e = w[k] * exp2_float64(max((f[k] - peak) * _LOG2_E, -1021.0))
                lanes[k] += e
                f[k] = (-scale if v[k] > 0.0 else scale) * e
        sums[i] = lanes.sum()
