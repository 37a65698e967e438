"""Exact sums of few units in three blocks, each in one compiled call: ten calls would take longer than the sum.

Formulas and parts are those of `fastbm.kernels.exact.blocks`.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import empty, zeros
from ..functions import exp_float64
from ..jit import apart, kernel
from .blocks import (
    FARTHEST,
    HEIGHT,
    add_pairs,
    covary_products,
    form_blocks,
    row_energies,
    sum_product,
    weigh_product,
)

FLAT = 1e-200  # variance of heights up to which they do not vary


@apart
def list_energies(form):
    """Return the energies of a form's states less the lowest, (rows, columns) int64."""
    energies = empty((form[0].size, form[1].size), np.int64)
    for row in range(energies.shape[0]):
        row_energies(form, row, 0, energies[row])
    return energies


@apart
def tabulate(energies, beta):
    """Return a table as `fill_table` writes it, all rows in one loop: those of few units are shorter than vectors."""
    table = empty(energies.shape, np.float64)
    flat, own = table.reshape(table.size), energies.reshape(energies.size)
    for x in range(flat.size):
        exponent = beta * (HEIGHT * np.float64(own[x]))
        weight = exp_float64(-exponent)
        flat[x] = weight if exponent < FARTHEST else 0.0
    return table


@kernel
def _tilted(table, energies, tilt, centre):
    """Return a table with its entries times 1 + tilt (h - centre), h a state's height."""
    found = empty(table.shape, np.float64)
    flat, given, own = found.reshape(found.size), table.reshape(table.size), energies.reshape(energies.size)
    for x in range(flat.size):
        flat[x] = given[x] * (1.0 + tilt * (HEIGHT * np.float64(own[x]) - centre))
    return found


@kernel
def total_small(rises, fields, sizes, beta):
    """Return the sum of all weights, and the integer energy that they are relative to.

    `rises` (n, n) and `fields` (n,) int64; the first `sizes`[0] units make a block, and so on; `beta` in inverse
    heights.  Cost: 2^n multiplications.
    """
    first, second, third = form_blocks(rises, fields, sizes)
    f, g = tabulate(list_energies(first), beta), tabulate(list_energies(second), beta)
    h = tabulate(list_energies(third), beta)
    return sum_product(f, g, h), first[3] + second[3] + third[3]


@kernel
def _weighed(left, right, table, energies):
    """Return what `weigh_product` adds to nothing."""
    k = 0
    while 1 << k < table.shape[1]:
        k += 1
    by_row, by_col = zeros((table.shape[0], k + 1), np.float64), zeros((3, table.shape[1]), np.float64)
    weigh_product(left, right, table, energies, by_row, by_col)
    return by_row, by_col


@kernel
def _spread(by_col):
    """Return the sum of weights, and mean and variance of the table's height."""
    total, first, second = 0.0, 0.0, 0.0
    for x in range(by_col.shape[1]):
        total += by_col[0, x]
        first += by_col[1, x]
        second += by_col[2, x]
    mean = first / total
    return total, mean, max(second / total - mean * mean, 0.0)


@kernel
def average_small(rises, fields, sizes, beta, varies, pairs):
    """Return what `total_small` does, and mean and variance of the height; 0 for the latter unless it `varies`.

    Mutates `pairs` (n, n): P(i and j up).  Cost: 3 2^n multiplications, 5 2^n with the variance.
    """
    first, second, third = form_blocks(rises, fields, sizes)
    of_f, of_g, of_h = list_energies(first), list_energies(second), list_energies(third)
    f, g, h = tabulate(of_f, beta), tabulate(of_g, beta), tabulate(of_h, beta)
    of_b, of_c = sizes[0], sizes[0] + sizes[1]
    by_row, by_col = _weighed(h, np.ascontiguousarray(g.T), f, of_f)
    add_pairs(by_row, by_col, np.int64(0), of_b, pairs)
    _, mean_f, variance_f = _spread(by_col)
    by_row, by_col = _weighed(np.ascontiguousarray(f.T), h, g, of_g)
    add_pairs(by_row, by_col, of_b, of_c, pairs)
    _, mean_g, variance_g = _spread(by_col)
    by_row, by_col = _weighed(f, g, h, of_h)
    add_pairs(by_row, by_col, np.int64(0), of_c, pairs)
    total, mean_h, variance = _spread(by_col)
    variance += variance_f + variance_g
    largest = max(variance_f, variance_g)
    if varies and largest > FLAT:
        tilt = 1.0 / math.sqrt(largest)
        left = _tilted(f, of_f, tilt, mean_f), _tilted(f, of_f, -tilt, mean_f)
        right = _tilted(g, of_g, tilt, mean_g), _tilted(g, of_g, -tilt, mean_g)
        sums = zeros((2, h.shape[1]), np.float64)
        covary_products(left, right, h, of_h, sums)
        both, one = 0.0, 0.0
        for x in range(sums.shape[1]):
            both += sums[0, x]
            one += sums[1, x]
        variance = max(variance + 2.0 * ((both - total) / tilt + one) / (tilt * total), 0.0)
    return total, first[3] + second[3] + third[3], mean_f + mean_g + mean_h, variance
