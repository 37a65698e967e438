"""Machines in 64-bit integers: couplings and biases rounded to one scale, in one call for machines of few units."""

from __future__ import annotations

import math

import numpy as np

from ..jit import borrowing

BITS = 61  # of the sum of all sizes, at most
LARGEST_EXPONENT = 1023  # of a number


@borrowing
def round_machine(parameters, largest, lo, span, whole):
    """Round parameters to integers of one scale; return the energy with all units down, and the scale's exponent.

    `parameters` (n + 1, n) float64 are the couplings and, last, the biases, `largest` the sum of their sizes in steps
    of a unit from `lo` by `span`. Mutates `whole` (n + 1, n) int64: the energy is -sum_{i<j} whole_ij x_i x_j - sum_i
    whole_ni x_i, x_i = 1 where a unit is up, in steps of 2^-exponent.
    """
    _, bits = math.frexp(largest if largest > 0.0 else 1.0)
    exponent = BITS - min(np.int64(bits), LARGEST_EXPONENT)  # so that 2^61 steps are a number too
    n = parameters.shape[1]
    total, pulls = np.int64(0), np.int64(0)
    for i in range(n):
        pull = np.int64(0)
        for j in range(n):
            step = np.int64(np.rint(math.ldexp(parameters[i, j], exponent)))
            whole[i, j] = span * span * step
            pull += step
        bias = np.int64(np.rint(math.ldexp(parameters[n, i], exponent)))
        whole[n, i] = span * (bias + lo * pull)
        total += bias
        pulls += pull
    return -lo * total - lo * lo * (pulls // 2), exponent
