"""What flipping a visible unit does to the free energy of a restricted machine.

With f a hidden unit's field, softplus(f + w) - softplus(f) = log(sigmoid(-f) + sigmoid(f) exp(w)): of all hidden units
it is the log of a product, which is taken only where the product might leave the range of float64.
"""

import math

import numpy as np

from .._jit import kernel
from .functions import exp_float64

ROOM = 600.0  # a product of factors within exp(+-ROOM) is a normal number


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
