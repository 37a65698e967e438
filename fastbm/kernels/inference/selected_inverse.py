"""Entries of the inverse of a sparse symmetric matrix, from its factors L D L^T.

Takahashi, Fagan and Chen, PICA conference (1973), p. 63: Z_ij = -sum_(k > j) L_kj Z_ik and Z_jj = 1 / d_j - sum_(k > j)
L_kj Z_kj, from the last column to the first, need Z at the entries of L alone.
"""

import numpy as np

from ..arrays import zeros
from ..jit import kernel


@kernel
def selected_inverse(lower, pivots, columns, wanted, values):
    """Compute the inverse at the pairs in `wanted`, which must be entries of L or L^T. Mutates `values` (m,).

    `lower` holds the columns of L, of unit diagonal, and `columns` is (indptr, indices), rows increasing from the
    diagonal on; `pivots` (n,) is D; `wanted` is (i, j). Cost: sum over columns of their length times those of the
    columns they name.
    """
    indptr, indices = columns
    n = pivots.shape[0]
    inverse = zeros(lower.shape[0], np.float64)
    row = zeros(n, np.float64)
    for j in range(n - 1, -1, -1):
        first, last = indptr[j] + 1, indptr[j + 1]  # below the diagonal
        for a in range(first, last):
            row[indices[a]] = 0.0
        for a in range(first, last):
            k = indices[a]
            factor, b = lower[a], a + 1
            row[k] -= factor * inverse[indptr[k]]
            for e in range(indptr[k] + 1, indptr[k + 1]):  # column k holds all that column j names below k
                if b == last:
                    break
                i = indices[e]
                if i == indices[b]:
                    row[i] -= factor * inverse[e]
                    row[k] -= lower[b] * inverse[e]
                    b += 1
        own = 1.0 / pivots[j]
        for a in range(first, last):
            inverse[a] = row[indices[a]]
            own -= lower[a] * inverse[a]
        inverse[indptr[j]] = own
    for p in range(values.shape[0]):
        column, below = min(wanted[0][p], wanted[1][p]), max(wanted[0][p], wanted[1][p])
        low, high = indptr[column], indptr[column + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if indices[middle] < below:
                low = middle + 1
            else:
                high = middle
        values[p] = inverse[low]
