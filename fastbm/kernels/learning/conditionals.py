"""Single units given all others: log-odds of visible units, and the losses of local rules as residuals.

Flipping a visible unit of a restricted machine changes the free energy. With f a hidden unit's field, softplus(f + w) -
softplus(f) = log(exp(-f) + exp(w)) - log(exp(-f) + 1): of all hidden units it is the log of a product, less that of a
product without w, and logs are taken only where a product might leave the range of float64.

Of losses what remains as a gradient is computed for rows side by side. With y = +-1 for a unit that is up or down and
margin u = y scale (field + bias), they are the logistic loss log(1 + exp(-u)) of pseudo-likelihood (Besag 1974), and
exp(-u) of interaction screening and of minimum probability flow (Vuffray, Misra, Lokhov and Chertkov 2016;
Sohl-Dickstein, Battaglino and DeWeese 2011).
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import empty, zeros
from ..functions import MOST_FACTORS, exp2_float64, exp_float64, log1p_float64, log_float64
from ..jit import kernel
from ..vectors import FACTORS, TILED, multiply_factors

ROOM = 600.0  # a product of factors within exp(+-ROOM) is a normal number
LANES = 64  # rows side by side: sums of so many lanes run as vectors, without a change of their order
_LOG2_E = 1.4426950408889634


@kernel
def add_conditional_log_odds(fields, scale, weights, up, log_odds, log_sums):
    """Add to every unit's log-odds what hidden units contribute to it. Mutates `log_odds` (n_units, rows), `log_sums`.

    To `log_sums` (rows,) sum_h log(1 + exp(-field)) is added.

    `scale` times `fields` (rows, n_hidden) are beta times the hidden units' fields in bits; `weights` (n_units,
    n_hidden) beta times the couplings; `up` (n_units, rows) bool, the rows' own bits.  Cost: a multiplication and an
    addition for every coupling and row.
    """
    n_units, n_hidden = weights.shape
    rises, widths = empty((2, n_units + 1, n_hidden), np.float64), zeros(n_hidden, np.float64)
    rises[:, n_units] = 1.0  # a unit without couplings, to which all others are compared
    for i in range(n_units):
        for h in range(n_hidden):
            w = min(max(weights[i, h], -ROOM), ROOM)
            rises[0, i, h], rises[1, i, h] = exp_float64(w), exp_float64(-w)
            widths[h] = max(widths[h], abs(weights[i, h]))
    terms, ends = np.ones((n_hidden, FACTORS)), empty(2 * n_hidden + 1, np.int64)
    line, largest = empty(n_hidden, np.float64), empty(n_hidden, np.float64)
    product, own, odds, apart = (
        empty(FACTORS, np.float64),
        zeros(FACTORS, np.float64),
        empty(FACTORS, np.float64),
        empty(FACTORS, np.float64),
    )
    for first in range(0, up.shape[1], FACTORS):
        some = min(up.shape[1] - first, FACTORS)
        for h in range(n_hidden):
            largest[h] = widths[h]
        for r in range(some):
            row = fields[first + r]
            for h in range(n_hidden):
                f = scale * row[h]
                largest[h] = max(largest[h], abs(f))
                line[h] = exp2_float64(_LOG2_E * min(max(-f, -ROOM), ROOM))
            for h in range(n_hidden):
                terms[h, r] = line[h]
        n_ends = _cut(largest, ends)
        own[:] = 0.0
        _log_product(terms, rises[:, n_units], ends[:n_ends], product, own, apart)
        for r in range(some):
            log_sums[first + r] += apart[r]
        for i in range(n_units):
            for r in range(some):
                own[r] = 1.0 if up[i, first + r] else 0.0
            _log_product(terms, rises[:, i], ends[:n_ends], product, own, odds)
            for r in range(some):
                more = odds[r] - apart[r]
                log_odds[i, first + r] += -more if own[r] else more
        for h in range(n_hidden):
            if largest[h] > ROOM:
                for r in range(some):
                    f = scale * fields[first + r, h]
                    log_sums[first + r] += max(-f, 0.0) + math.log1p(math.exp(-abs(f)))
                for i in range(n_units):
                    for r in range(some):
                        sign = -1.0 if up[i, first + r] else 1.0
                        f = scale * fields[first + r, h]
                        log_odds[i, first + r] += sign * _log_factor(f, sign * weights[i, h])


@kernel
def _cut(largest, ends):
    """Write where products begin and end that stay in the range of float64, a pair each; return how many numbers.

    A hidden unit whose factor alone leaves it is in none of them.
    """
    n, room = 0, -1.0
    for h in range(largest.size):
        need = largest[h] + 1.0
        if largest[h] > ROOM:
            room = -1.0
            continue
        if need > room:
            ends[n], room = h, ROOM + 1.0
            n += 2
        room -= need
        ends[n - 1] = h + 1
    return n


@kernel
def _log_product(terms, rises, ends, product, own, logs):
    """Write the logs of products of terms + rises, the second rises where `own` is not 0. Mutates `logs`."""
    logs[:] = 0.0
    for k in range(0, ends.size, 2):
        begin, end = ends[k], ends[k + 1]
        product[:] = 1.0
        if TILED:
            multiply_factors(
                product.ctypes.data, own.ctypes.data, terms[begin:].ctypes.data,
                rises[0, begin:].ctypes.data, rises[1, begin:].ctypes.data, end - begin,
            )  # fmt: skip
        else:
            for h in range(begin, end):
                for r in range(FACTORS):
                    product[r] *= terms[h, r] + rises[1 if own[r] else 0, h]
        for r in range(FACTORS):
            logs[r] += log_float64(product[r])


@kernel
def _log_factor(field, w):
    """softplus(field + w) - softplus(field)."""
    after = max(field + w, 0.0) + math.log1p(math.exp(-abs(field + w)))
    return after - max(field, 0.0) - math.log1p(math.exp(-abs(field)))


@kernel
def sum_log_probabilities(log_odds, up):
    """Return the sum of log p of what every unit is, given its log-odds. Both are (n_units, n_rows).

    Each is the larger exponent, and the log of a factor between 1 and 2, of which products are taken before their log.
    Cost: an exponential a number, in vectors.
    """
    part, product = zeros(LANES, np.float64), np.ones(LANES)
    n_rows, n_factors = up.shape[1], 0
    whole, rest = n_rows // LANES * LANES, 0.0
    for i in range(up.shape[0]):
        odds, own = log_odds[i], up[i]
        for first in range(0, whole, LANES):
            for k in range(LANES):
                x = -odds[first + k] if own[first + k] else odds[first + k]
                part[k] += max(x, 0.0)
                product[k] *= 1.0 + exp_float64(-abs(x))
            n_factors += 1
            if n_factors == MOST_FACTORS // LANES:
                for k in range(LANES):
                    part[k] += log_float64(product[k])
                product[:] = 1.0
                n_factors = 0
        for r in range(whole, n_rows):
            x = -odds[r] if own[r] else odds[r]
            rest += max(x, 0.0) + log1p_float64(exp_float64(-abs(x)))
    for k in range(LANES):
        part[k] += log_float64(product[k])
    return -part.sum() - rest


@kernel
def logistic_residuals(field, values, weights, bias, scale, sums):
    """Turn fields into the derivatives of the weighted logistic losses by them. Mutates `field` and `sums`.

    `field` and `values` (n_units, n_blocks, LANES), a unit being up where its value is positive; `weights` (n_blocks,
    LANES) of the rows; `sums` (n_units,) gets each unit's loss.
    Invariant: `field` comes without `bias` and leaves as d loss / d field, so residual @ values.T is the gradient.
    Cost: one pass, an exponential, a logarithm and two divisions a number.
    """
    lanes = empty(LANES, np.float64)
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
    lanes = empty(LANES, np.float64)
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
