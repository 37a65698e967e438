"""Exact sums of few units in three blocks, each in one compiled call: ten calls would take longer than the sum.

Formulas and parts are those of `fastbm.kernels.exact.blocks`.
"""

from __future__ import annotations

import math

import numpy as np

from ..jit import kernel
from .blocks import add_pairs, covary_products, fill_table, form_blocks, sum_product, weigh_product

FLAT = 1e-200  # variance of heights up to which they do not vary


@kernel
def tabulate(form, beta, tilt, centre):
    """Return a table of a form, as `fill_table` writes it."""
    table = np.empty((form[0].size, form[1].size))
    fill_table(form, beta, tilt, centre, table, 0)
    return table


@kernel
def total_small(rises, fields, sizes, beta):
    """Return the sum of all weights, and the integer energy that they are relative to.

    `rises` (n, n) and `fields` (n,) int64; the first `sizes`[0] units make a block, and so on; `beta` in inverse
    heights.  Cost: 2^n multiplications.
    """
    first, second, third = form_blocks(rises, fields, sizes)
    f, g, h = tabulate(first, beta, 0.0, 0.0), tabulate(second, beta, 0.0, 0.0), tabulate(third, beta, 0.0, 0.0)
    return sum_product(f, g, h), first[3] + second[3] + third[3]


@kernel
def _weighed(left, right, table, form):
    """Return what `weigh_product` adds to nothing."""
    k = 0
    while 1 << k < table.shape[1]:
        k += 1
    by_row, by_col = np.zeros((table.shape[0], k + 1)), np.zeros((3, table.shape[1]))
    weigh_product(left, right, table, form, by_row, by_col)
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
    f, g, h = tabulate(first, beta, 0.0, 0.0), tabulate(second, beta, 0.0, 0.0), tabulate(third, beta, 0.0, 0.0)
    of_b, of_c = sizes[0], sizes[0] + sizes[1]
    by_row, by_col = _weighed(h, np.ascontiguousarray(g.T), f, first)
    add_pairs(by_row, by_col, np.int64(0), of_b, pairs)
    _, mean_f, variance_f = _spread(by_col)
    by_row, by_col = _weighed(np.ascontiguousarray(f.T), h, g, second)
    add_pairs(by_row, by_col, of_b, of_c, pairs)
    _, mean_g, variance_g = _spread(by_col)
    by_row, by_col = _weighed(f, g, h, third)
    add_pairs(by_row, by_col, np.int64(0), of_c, pairs)
    total, mean_h, variance = _spread(by_col)
    variance += variance_f + variance_g
    largest = max(variance_f, variance_g)
    if varies and largest > FLAT:
        tilt = 1.0 / math.sqrt(largest)
        left = tabulate(first, beta, tilt, mean_f), tabulate(first, beta, -tilt, mean_f)
        right = tabulate(second, beta, tilt, mean_g), tabulate(second, beta, -tilt, mean_g)
        sums = np.zeros((2, h.shape[1]))
        covary_products(left, right, h, third, sums)
        both, one = 0.0, 0.0
        for x in range(sums.shape[1]):
            both += sums[0, x]
            one += sums[1, x]
        variance = max(variance + 2.0 * ((both - total) / tilt + one) / (tilt * total), 0.0)
    return total, first[3] + second[3] + third[3], mean_f + mean_g + mean_h, variance
