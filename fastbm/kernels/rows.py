"""Products of the bits of few chains with weights: rows of units that are up are added, one chain after the other.

Columns are side by side in the lanes of vectors, so that one chain takes no more time than its own rows do.
`fastbm.kernels.bits` has the same sums for many chains, in the order of here: four rows, then group by group.
"""

import numpy as np

from .bits import ROWS
from .jit import apart_borrowing, inlined_borrowing

GROUP = 4  # rows that are summed before they are added
_LOWEST = np.array([0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0], np.int8)  # the lowest bit of four


@inlined_borrowing
def _four_of(words, i, lane):
    """Return the bits of units i to i + 3 of a lane; i is a multiple of four."""
    return (np.int64(words[i // ROWS, lane]) >> (i % ROWS)) & 15


@apart_borrowing
def add_rows(row, weights, words, lane):
    """Add to `row` (m,) the rows of `weights` (n, m), which may be integers, of units that a lane has up.

    Mutates `row`.
    """
    for first in range(0, weights.shape[0], GROUP):
        left = _four_of(words, first, lane)
        if not left:
            continue
        a = weights[first + _LOWEST[left]]
        left &= left - 1
        if not left:
            for j in range(row.shape[0]):
                row[j] += a[j]
            continue
        b = weights[first + _LOWEST[left]]
        left &= left - 1
        if not left:
            for j in range(row.shape[0]):
                row[j] += a[j] + b[j]
            continue
        c = weights[first + _LOWEST[left]]
        left &= left - 1
        if not left:
            for j in range(row.shape[0]):
                row[j] += (a[j] + b[j]) + c[j]
            continue
        d = weights[first + _LOWEST[left]]
        for j in range(row.shape[0]):
            row[j] += ((a[j] + b[j]) + c[j]) + d[j]


@apart_borrowing
def add_to_few(fields, weights, words, n_chains, row):
    """Do what `fastbm.kernels.bits.add_packed` does for the first lanes alone.

    Mutates `fields` (m, lanes), and `row`, room for at least m numbers of their type. `weights` (n, m) are the rows
    whose columns those of that product are.  Cost: for each chain an addition a column and unit that is up.
    """
    own = row[: fields.shape[0]]
    for lane in range(n_chains):
        for j in range(own.shape[0]):
            own[j] = fields[j, lane]
        add_rows(own, weights, words, lane)
        for j in range(own.shape[0]):
            fields[j, lane] = own[j]
