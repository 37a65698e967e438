"""Steepest descent of integer energies from scattered starts: a low state, found cheaply."""

import numpy as np

from .._jit import kernel

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiples of it scatter bits evenly


@kernel
def descend(rises, fields, n_starts):
    """Return the lowest energy -sum_{i<j} rises_ij x_i x_j - sum_i fields_i x_i that descents reach.

    Starts are scattered evenly and always the same.  Cost: O(n^2) a start.
    """
    n = fields.size
    up, field = np.empty(n, np.int64), np.empty(n, np.int64)
    lowest = np.int64(0)
    for start in range(n_starts):
        energy = np.int64(0)
        field[:] = fields
        for i in range(n):
            word = (np.uint64(start * n + i + 1) * _SPREAD) >> np.uint64(40)
            up[i] = np.int64(word & np.uint64(1))
            if up[i]:
                energy -= field[i]
                field += rises[i]
        while True:
            steepest, drop = -1, np.int64(0)
            for i in range(n):
                change = field[i] if up[i] else -field[i]
                if change < drop:
                    steepest, drop = i, change
            if steepest < 0:
                break
            energy += drop
            if up[steepest]:
                field -= rises[steepest]
            else:
                field += rises[steepest]
            up[steepest] ^= 1
        lowest = min(lowest, energy)
    return lowest
