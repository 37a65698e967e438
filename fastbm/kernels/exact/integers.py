"""Machines in 64-bit integers: couplings and biases rounded to one scale, in one call for machines of few units."""

from __future__ import annotations

import math

import numpy as np

from ..jit import borrowing


@borrowing
def round_machine(parameters, exponent, lo, span, whole):
    """Round parameters to integers in steps of 2^-exponent; return the energy with all units down.

    `parameters` (n + 1, n) float64 are the couplings and, last, the biases; units are `lo` or `lo` + `span`. Mutates
    `whole` (n + 1, n) int64: the energy is -sum_{i<j} whole_ij x_i x_j - sum_i whole_ni x_i, x_i = 1 where a unit is
    up.
    """
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
    return -lo * total - lo * lo * (pulls // 2)
