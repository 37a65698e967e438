"""Single units given all others: log-odds of visible units, and the losses of local rules as residuals.

Flipping a visible unit of a restricted machine changes the free energy. With f a hidden unit's field, softplus(f + w) -
softplus(f) = log(sigmoid(-f) + sigmoid(f) exp(w)): of all hidden units it is the log of a product, which is taken only
where the product might leave the range of float64.

Of losses what remains as a gradient is computed for rows side by side. With y = +-1 for a unit that is up or down and
margin u = y scale (field + bias), they are the logistic loss log(1 + exp(-u)) of pseudo-likelihood (Besag 1974), and
exp(-u) of interaction screening and of minimum probability flow (Vuffray, Misra, Lokhov and Chertkov 2016;
Sohl-Dickstein, Battaglino and DeWeese 2011).
"""

from __future__ import annotations

import math

import numpy as np

from ..functions import exp2_float64, exp_float64, log1p_float64
from ..jit import kernel

ROOM = 600.0  # a product of factors within exp(+-ROOM) is a normal number
LANES = 64  # rows side by side: sums of so many lanes run as vectors, without a change of their order
_LOG2_E = 1.4426950408889634


@kernel
def add_conditional_log_odds(fields, weights, up, log_odds):
    """Add to every unit's log-odds what hidden units contribute to it. Mutates `log_odds` (n_units, rows).

    `fields` (n_hidden, rows) are beta times the hidden units' fields in bits; `weights` (n_units, n_hidden) beta times
    the couplings; `up` (n_units, rows) bool, the rows' own bits.  Cost: a multiplication and an addition for every
    coupling and row.
    """
    n_hidden, n_rows = fields.shape
    high, low = np.empty((n_hidden, n_rows)), np.empty((n_hidden, n_rows))
    for h in range(n_hidden):
        for r in range(n_rows):
            small = exp_float64(-abs(fields[h, r]))
            one, other = 1.0 / (1.0 + small), small / (1.0 + small)
            high[h, r] = one if fields[h, r] >= 0.0 else other
            low[h, r] = other if fields[h, r] >= 0.0 else one
    product, sign = np.empty(n_rows), np.empty(n_rows)
    for i in range(weights.shape[0]):
        for r in range(n_rows):
            product[r] = 1.0
            sign[r] = -1.0 if up[i, r] else 1.0
        room = ROOM
        for h in range(n_hidden):
            w = weights[i, h]
            if abs(w) > ROOM:
                for r in range(n_rows):
                    log_odds[i, r] += sign[r] * _log_factor(fields[h, r], sign[r] * w)
                continue
            room -= abs(w)
            if room < 0.0:
                _take_logs(product, sign, log_odds[i])
                room = ROOM - abs(w)
            if_down, if_up = math.exp(w), math.exp(-w)
            for r in range(n_rows):
                product[r] *= low[h, r] + high[h, r] * (if_up if up[i, r] else if_down)
        _take_logs(product, sign, log_odds[i])


@kernel
def _take_logs(product, sign, log_odds):
    for r in range(product.size):
        log_odds[r] += sign[r] * math.log(product[r])
        product[r] = 1.0


@kernel
def _log_factor(field, w):
    """softplus(field + w) - softplus(field)."""
    after = max(field + w, 0.0) + math.log1p(math.exp(-abs(field + w)))
    return after - max(field, 0.0) - math.log1p(math.exp(-abs(field)))


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
