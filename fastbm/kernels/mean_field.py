"""Naive mean field: coordinate ascent on the lower bound S(m) - beta E(m), one unit after the other.

Peterson and Anderson, Complex Systems 1, 995 (1987); the bound: Saul, Jaakkola and Jordan, J. Artif. Intell. Res. 4, 61
(1996), doi:10.1613/jair.251.
"""

import math

import numpy as np

from .._jit import kernel


@kernel
def sweep_mean_field(means, weights, bias, beta, damping):
    """Set every mean to tanh(beta field), in turn. Mutates `means` (n_units, lanes); returns the largest change per
    lane.

    `bias` is (n_units, lanes). Without damping each step maximises the bound in one mean, so that it never falls.
    Cost: n_units^2 multiplications and additions a lane, vectorised over lanes.
    """
    n, lanes = means.shape
    field = np.empty(lanes)
    change = np.zeros(lanes)
    for i in range(n):
        for lane in range(lanes):
            field[lane] = bias[i, lane]
        for j in range(n):
            w = weights[i, j]
            for lane in range(lanes):
                field[lane] += w * means[j, lane]
        for lane in range(lanes):
            mean = damping * means[i, lane] + (1.0 - damping) * math.tanh(beta * field[lane])
            change[lane] = max(change[lane], abs(mean - means[i, lane]))
            means[i, lane] = mean
    return change
