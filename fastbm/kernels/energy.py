"""Energies of many states at once, in float64 from the user's couplings.

E = -sum_{j<i} W_ij s_i s_j - sum_i b_i s_i.
"""

import numpy as np

from .._jit import kernel


@kernel
def energies_dense(values, weights, bias, energies):
    """Compute the energy (without offset) of every lane. Mutates `energies` (lanes,).

    `values` (n_units, lanes) float64 holds the units' values, `bias` is (n_units, 1) or (n_units, lanes); lanes is a
    multiple of 16. Cost: n_units^2 / 2 multiplications and additions a lane, in the same order on every processor.
    """
    total = np.empty(16)
    field = np.empty(16)
    step = 1 if bias.shape[1] > 1 else 0
    for first in range(0, values.shape[1], 16):
        for k in range(16):
            total[k] = 0.0
        for i in range(values.shape[0]):
            for k in range(16):
                field[k] = bias[i, step * (first + k)]
            for j in range(i):
                w = weights[i, j]
                row = values[j]
                for k in range(16):
                    field[k] += w * row[first + k]
            for k in range(16):
                total[k] -= values[i, first + k] * field[k]
        for k in range(16):
            energies[first + k] = total[k]
