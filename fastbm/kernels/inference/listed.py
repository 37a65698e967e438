"""Means of few free units by a list of all their states, for many rows of which each leaves other units free.

With x = 1 where a unit is up, log p(x) = sum_i a_i x_i + sum_{i<j} A_ij x_i x_j + constant. States are numbered by
their bits, and their exponents made by doubling: those with unit k as the highest that is up are those below it plus
what unit k adds to each of them, which is made in the same way.
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty
from ..functions import exp_float64
from ..jit import kernel


@kernel
def _list_exponents(exponents, rises, fields, here, couplings, factor):
    """Write the exponents of all states of units `here`, and return the largest. Mutates `exponents`, `rises`."""
    exponents[0] = top = 0.0
    for k in range(here.size):
        rises[0] = fields[here[k]]
        for j in range(k):
            half, rise = 1 << j, factor * couplings[here[k], here[j]]
            below, above = rises[:half], rises[half : 2 * half]
            for s in range(half):
                above[s] = below[s] + rise
        half = 1 << k
        below, above = exponents[:half], exponents[half : 2 * half]
        for s in range(half):
            above[s] = below[s] + rises[s]
            top = max(top, above[s])
    return top


@kernel
def average_listed(means, free, fields, couplings, factor, room):
    """Write P(up) of every free unit. Mutates `means` (n_rows, n_units) where `free` is true, and `room`.

    `fields` (n_rows, n_units) are a, in which units that are not free have their part; A is `factor` times `couplings`
    (n_units, n_units). `room` is (2, 2^m) for at most m free units a row.  Cost: an exponential and five additions a
    state.
    """
    here, weights, rises = empty(free.shape[1], np.int64), room[0], room[1]
    for row in range(free.shape[0]):
        m = 0
        for i in range(free.shape[1]):
            if free[row, i]:
                here[m] = i
                m += 1
        top = _list_exponents(weights, rises, fields[row], here[:m], couplings, factor)
        for s in range(1 << m):
            weights[s] = exp_float64(weights[s] - top)
        for k in range(m - 1, -1, -1):
            half, total = 1 << k, 0.0
            below, above = weights[:half], weights[half : 2 * half]
            for s in range(half):
                total += above[s]
                below[s] += above[s]
            means[row, here[k]] = total
        for k in range(m):
            means[row, here[k]] /= weights[0]
