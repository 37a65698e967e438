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

from ..functions import exp2_float64, exp_float64, log1p_float64, log_float64
from ..jit import kernel
from ..vectors import FACTORS, TILED, multiply_factors

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
    rises = np.empty((weights.shape[0], n_hidden, 2))
    for i in range(weights.shape[0]):
        for h in range(n_hidden):  # those that are too large are not used
            w = min(max(weights[i, h], -ROOM), ROOM)
            rises[i, h, 0], rises[i, h, 1] = exp_float64(w), exp_float64(-w)
    high, low = np.zeros((n_hidden, FACTORS)), np.ones((n_hidden, FACTORS))
    product, own = np.empty(FACTORS), np.zeros(FACTORS)
    for first in range(0, n_rows, FACTORS):
        some = min(n_rows - first, FACTORS)
        for h in range(n_hidden):
            field = fields[h, first : first + some]
            for r in range(some):
                small = exp_float64(-abs(field[r]))
                one = 1.0 / (1.0 + small)
                other = small * one
                high[h, r] = one if field[r] >= 0.0 else other
                low[h, r] = other if field[r] >= 0.0 else one
        for i in range(weights.shape[0]):
            for r in range(some):
                own[r] = 1.0 if up[i, first + r] else 0.0
            product[:] = 1.0
            room, begin, odds = ROOM, 0, log_odds[i, first : first + some]
            for h in range(n_hidden):
                w = abs(weights[i, h])
                if w <= room:
                    room -= w
                    continue
                _multiply(product, own, low[begin:h], high[begin:h], rises[i, begin:h])
                _take_logs(product, own, odds)
                room, begin = ROOM - w, h
                if w > ROOM:
                    for r in range(some):
                        sign = -1.0 if own[r] else 1.0
                        odds[r] += sign * _log_factor(fields[h, first + r], sign * weights[i, h])
                    room, begin = ROOM, h + 1
            _multiply(product, own, low[begin:], high[begin:], rises[i, begin:])
            _take_logs(product, own, odds)


@kernel
def _multiply(product, own, low, high, rises):
    """Multiply by low + high rise, for every hidden unit."""
    if TILED:
        multiply_factors(
            product.ctypes.data, own.ctypes.data, low.ctypes.data, high.ctypes.data, rises.ctypes.data, len(low)
        )
        return
    for h in range(len(low)):
        for r in range(FACTORS):
            product[r] *= low[h, r] + high[h, r] * rises[h, 1 if own[r] else 0]


@kernel
def _take_logs(product, own, odds):
    for r in range(odds.size):
        log = log_float64(product[r])
        odds[r] += -log if own[r] else log
    product[:] = 1.0


@kernel
def _log_factor(field, w):
    """softplus(field + w) - softplus(field)."""
    after = max(field + w, 0.0) + math.log1p(math.exp(-abs(field + w)))
    return after - max(field, 0.0) - math.log1p(math.exp(-abs(field)))


@kernel
def sum_log_probabilities(log_odds, up):
    """Return the sum of log p of what every unit is, given its log-odds. Both are (n_units, n_rows).

    Cost: an exponential and a logarithm a number, in vectors.
    """
    total, part = 0.0, np.empty(16)
    for i in range(up.shape[0]):
        odds, own, whole = log_odds[i], up[i], up.shape[1] // 16 * 16
        part[:] = 0.0
        for first in range(0, whole, 16):
            for k in range(16):
                x = -odds[first + k] if own[first + k] else odds[first + k]
                part[k] += max(x, 0.0) + log1p_float64(exp_float64(-abs(x)))
        total += part.sum()
        for r in range(whole, up.shape[1]):
            x = -odds[r] if own[r] else odds[r]
            total += max(x, 0.0) + log1p_float64(exp_float64(-abs(x)))
    return -total


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
