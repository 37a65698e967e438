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

from ..arrays import copy_row, empty, sum_row
from ..functions import (
    MOST_FACTORS,
    add_logs,
    bits_of,
    exp2_float64,
    exp_float64,
    log1p_float64,
    multiply_exponentials,
    number_of,
)
from ..jit import borrowing, inlined, kernel
from ..vectors import FACTORS, TILED, multiply_factors

ROOM = 600.0  # a product of factors within exp(+-ROOM) is a normal number
LANES = 64  # rows side by side: sums of so many lanes run as vectors, without a change of their order
_LOG2_E, _LN_2 = 1.4426950408889634, 0.6931471805599453


class Flips:
    """Log-odds of what units are not, given all others, in the same rows of one machine after the other.

    Parameters
    ----------
    up : (n_units, n_rows) bool array
        The rows' own bits.
    n_hidden : int

    Attributes
    ----------
    fields : (at least n_rows, n_hidden) float64 array
        Room for the fields of hidden units.
    found : (1 + n_units, at least n_rows) float64 array
        Room for sums over hidden units, and for log-odds.
    """

    def __init__(self, up: np.ndarray, n_hidden: int) -> None:
        (n_units, n_rows) = up.shape
        n_padded = -(-n_rows // FACTORS) * FACTORS
        self.fields, self.found = np.zeros((n_padded, n_hidden)), np.zeros((1 + n_units, n_padded))
        self._own = np.zeros(self.found.shape)
        self._own[1:, :n_rows] = up
        self._rises, self._exponents = np.ones((1 + n_units, 2, n_hidden)), np.empty((n_units, 2, n_hidden))
        lines, sums = np.empty((2, n_hidden)), np.ones((4, FACTORS))
        self._room = np.empty((n_hidden, FACTORS)), np.empty(2 * n_hidden + 1, np.int64), *lines, *sums

    def add(self, scale: float, weights: np.ndarray) -> None:
        """Add sum_h log(1 + exp(-field)) to row 0 of `found`, and to the others what hidden units do for log-odds.

        `scale` times `fields` are beta times the hidden units' fields in bits; `weights` (n_units, n_hidden) beta times
        the couplings.
        """
        exponents, rises = self._exponents, self._rises[1:]
        np.maximum(weights, -ROOM, out=exponents[:, 0])
        np.minimum(exponents[:, 0], ROOM, out=exponents[:, 0])
        np.negative(exponents[:, 0], out=exponents[:, 1])
        rises.fill(1.0)
        flat = rises.shape[0] * 2, rises.shape[2]
        multiply_exponentials(rises.reshape(flat), exponents.reshape(flat), 0.0)
        widths = np.abs(weights).max(axis=0, initial=0.0)
        if add_factors(self.fields, scale, widths, self._rises, self._own, self.found, self._room):
            add_large_factors(self.fields, scale, widths, np.ascontiguousarray(weights), self._own, self.found)


@borrowing
def add_factors(fields, scale, widths, rises, own, found, room):
    """Add to log-odds of what units are not what hidden units contribute; return whether some of these are left out.

    `scale` times `fields` (rows, n_hidden) are beta times the hidden units' fields in bits, rows a multiple of
    `FACTORS`; `widths` (n_hidden,) the largest beta |W| of each, `rises` (1 + n_units, 2, n_hidden) exp(+-beta W), cut
    at `ROOM`, of no unit, which are 1, and of all units; `own` (1 + n_units, rows) 1 where a unit is up, else 0.
    Mutates `found` (1 + n_units, rows): the sums sum_h log(1 + exp(-field)), and log-odds; and `room`, terms (n_hidden,
    `FACTORS`), ends of products (2 n_hidden + 1,), two rows (n_hidden,), and four (`FACTORS`,). Hidden units that are
    left out, with a factor beyond exp(+-ROOM), are those of `add_large_factors`.
    Cost: a multiplication and an addition for every coupling and row.
    """
    terms, ends, largest, line, product, powers, odds, none = room
    n_hidden, left_out = widths.size, False
    for first in range(0, fields.shape[0], FACTORS):
        for h in range(n_hidden):
            largest[h] = widths[h]
        for r in range(FACTORS):
            row = fields[first + r]
            for h in range(n_hidden):
                f = scale * row[h]
                largest[h] = max(largest[h], abs(f))
                line[h] = exp2_float64(_LOG2_E * min(max(-f, -ROOM), ROOM))
            for h in range(n_hidden):
                terms[h, r] = line[h]
        n_ends, some_left_out = _cut(largest, ends)
        left_out |= some_left_out
        none[:] = 0.0
        for i in range(rises.shape[0]):
            product[:] = 1.0
            powers[:] = 0.0
            for k in range(0, n_ends, 2):
                _multiply(product, own[i, first:], terms[ends[k] :], rises[i, :, ends[k] :], ends[k + 1] - ends[k])
                for r in range(FACTORS):  # powers of two go, so that products are from 1 to 2 where the next ones begin
                    word = bits_of(product[r])
                    exponent = np.int64(word >> np.int64(52)) - np.int64(1023)
                    powers[r] += np.float64(exponent)
                    product[r] = number_of(np.int64(word - np.int64(exponent << np.int64(52))))
            for r in range(FACTORS):
                odds[r] = powers[r] * _LN_2 + log1p_float64(product[r] - 1.0)
            here = found[i, first:]
            for r in range(FACTORS):
                here[r] += odds[r] - none[r]
            if i == 0:  # to which all others are compared
                copy_row(none, odds)
    return left_out


@inlined
def _multiply(product, own, terms, rises, n):
    """Multiply products by terms + rises, the second rises where `own` is not 0. Mutates `product`."""
    if TILED:
        multiply_factors(
            product.ctypes.data, own.ctypes.data, terms.ctypes.data, rises[0].ctypes.data, rises[1].ctypes.data, n
        )
    else:
        for h in range(n):
            for r in range(FACTORS):
                product[r] *= terms[h, r] + rises[0 if own[r] == 0.0 else 1, h]


@borrowing
def _cut(largest, ends):
    """Write where products begin and end that stay in the range of float64, a pair each; return how many numbers.

    A hidden unit whose factor alone leaves it is in none of them; the second number returned is whether there is one.
    """
    n, room, left_out = 0, -1.0, False
    for h in range(largest.size):
        need = largest[h] + 1.0
        if largest[h] > ROOM:
            room, left_out = -1.0, True
            continue
        if need > room:
            ends[n], room = h, ROOM + 1.0
            n += 2
        room -= need
        ends[n - 1] = h + 1
    return n, left_out


@kernel
def add_large_factors(fields, scale, widths, weights, own, found):
    """Add what `add_factors` leaves out, with the same arguments; `weights` (n_units, n_hidden) is beta W.

    Mutates `found`.  Cost: four logarithms for every coupling and row.
    """
    for first in range(0, fields.shape[0], FACTORS):
        for h in range(widths.size):
            largest = widths[h]
            for r in range(first, first + FACTORS):
                largest = max(largest, abs(scale * fields[r, h]))
            if largest > ROOM:
                for r in range(first, first + FACTORS):
                    f = scale * fields[r, h]
                    found[0, r] += max(-f, 0.0) + math.log1p(math.exp(-abs(f)))
                    for i in range(weights.shape[0]):
                        found[i + 1, r] += _log_factor(f, weights[i, h] if own[i + 1, r] == 0.0 else -weights[i, h])


@kernel
def _log_factor(field, w):
    """softplus(field + w) - softplus(field)."""
    after = max(field + w, 0.0) + math.log1p(math.exp(-abs(field + w)))
    return after - max(field, 0.0) - math.log1p(math.exp(-abs(field)))


@borrowing
def sum_log_probabilities(against, room):
    """Return the sum of log p of what every unit is, given the log-odds of what it is not, `against` (n_units, n_rows).

    Each is the larger exponent, and the log of a factor between 1 and 2, of which products are taken before their log.
    Mutates `room` (2, `LANES`), zeros and ones at first.  Cost: an exponential a number, in vectors.
    """
    part, product = room[0], room[1]
    n_rows, n_factors = against.shape[1], 0
    whole, rest = n_rows // LANES * LANES, 0.0
    for i in range(against.shape[0]):
        odds = against[i]
        for first in range(0, whole, LANES):
            for k in range(LANES):
                x = odds[first + k]
                part[k] += max(x, 0.0)
                product[k] *= 1.0 + exp_float64(-abs(x))
            n_factors += 1
            if n_factors == MOST_FACTORS // LANES:
                add_logs(part, product)
                n_factors = 0
        for r in range(whole, n_rows):
            rest += max(odds[r], 0.0) + log1p_float64(exp_float64(-abs(odds[r])))
    add_logs(part, product)
    total = 0.0
    for k in range(LANES):
        total += part[k]
    return -total - rest


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
        sums[i] = sum_row(lanes)


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
        sums[i] = sum_row(lanes)
