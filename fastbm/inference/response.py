"""Covariances by linear response: the inverse of the matrix of second derivatives at a fixed point.

The matrix is M = D^1/2 C^-1 D^1/2 with D = 1 - m^2, so that C = D^1/2 M^-1 D^1/2 and units that are frozen (D = 0) do
no harm. M has an entry for each coupled pair and its diagonal; at a stable fixed point it is positive definite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..couplings import Couplings
from ..couplings.limits import DENSE_LIMIT
from ..couplings.protocol import row_blocks
from ..kernels.selected_inverse import selected_inverse
from .inverse import SMALLEST_CONDITION, invert

Entries = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def sech(arguments: np.ndarray) -> np.ndarray:
    """1 / cosh, the root of 1 - tanh^2, without cancellation or overflow."""
    x = np.abs(arguments)
    root: np.ndarray = 2 * np.exp(-x) / (1 + np.exp(-2 * x))
    return root


@dataclass(frozen=True)
class ResponseMatrix:
    """M: its diagonal, and `entries(couplings, i, j)` of coupled pairs, which takes arrays that go together."""

    couplings: Couplings
    diagonal: np.ndarray
    entries: Entries

    def dense(self) -> np.ndarray:
        """The whole matrix."""
        n = self.couplings.n_units
        if self.couplings.kind == "dense":
            weights, units = self.couplings.matrix(), np.arange(n)
            matrix: np.ndarray = np.empty((n, n))
            for rows in row_blocks(n, 16 * n):
                matrix[rows] = self.entries(weights[rows], units[rows, None], units)
        else:
            matrix = np.zeros((n, n))
            i, indices, values = self._slots()
            matrix[i, indices] = self.entries(values, i, indices)
        np.fill_diagonal(matrix, self.diagonal)
        return matrix

    def _slots(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        indptr, indices, values = self.couplings.csr()
        return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr)), indices, values

    def sparse(self) -> Any:
        """The matrix as a scipy.sparse.csc_array."""
        from scipy.sparse import csc_array

        n = self.couplings.n_units
        i, j, values = self._slots()
        own = np.arange(n, dtype=np.int32)
        data = np.concatenate([self.entries(values, i, j), self.diagonal])
        return csc_array((data, (np.concatenate([i, own]), np.concatenate([j, own]))), shape=(n, n))

    def covariance(self, root: np.ndarray, threads: int = 1) -> Any:
        """root_i (M^-1)_ij root_j, or None where M is not positive definite or nearly singular.

        A matrix; for sparse couplings of more than `DENSE_LIMIT` units a scipy.sparse.csr_array of the coupled pairs
        and the diagonal.
        """
        if self.couplings.n_units > DENSE_LIMIT:
            return _sparse_covariance(self.sparse(), root)
        inverse = invert(self.dense(), threads)
        if inverse is None:
            return None
        inverse *= root[:, None]
        inverse *= root[None, :]
        return inverse


def _sparse_covariance(matrix: Any, root: np.ndarray) -> Any:
    """The entries of root M^-1 root that stand where M has any, from the sparse factors of M.

    Which entries its factors have is taken from those of a matrix of the same places in which nothing can cancel: the
    order depends on the places alone.
    """
    from scipy.sparse import csc_array, csr_array, diags_array

    n = len(root)
    places = csc_array((np.full(matrix.nnz, -1.0), matrix.indices, matrix.indptr), shape=matrix.shape)
    pattern = _factors(places + diags_array(np.diff(matrix.indptr) + 1.0, format="csc"))
    factors = _factors(matrix)
    if pattern is None or factors is None or not np.array_equal(pattern.perm_c, factors.perm_c):
        return None
    pivots = factors.U.diagonal()
    if not np.array_equal(factors.perm_r, factors.perm_c) or not np.all(pivots > SMALLEST_CONDITION * pivots.max()):
        return None
    filled, lower = (factor.L.tocsc() for factor in (pattern, factors))
    filled.sort_indices()
    keys, found = (np.repeat(np.arange(n), np.diff(f.indptr)) * n + f.indices for f in (filled, lower))
    values = np.zeros(filled.nnz)
    values[np.searchsorted(keys, found)] = lower.data
    place, rows = factors.perm_c.astype(np.int64), matrix.tocsr()
    i, j = np.repeat(np.arange(n), np.diff(rows.indptr)), rows.indices
    inverse = np.empty(len(j))
    columns = filled.indptr.astype(np.int64), filled.indices.astype(np.int32)
    selected_inverse(values, pivots, columns, (place[i], place[j]), inverse)
    return csr_array((inverse * root[i] * root[j], j, rows.indptr), shape=(n, n))


def _factors(matrix: Any) -> Any:
    """Factors L U of a symmetric matrix with pivots on the diagonal; None where it is singular."""
    from scipy.sparse.linalg import splu

    try:
        return splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True, "Equil": False}
        )
    except RuntimeError:
        return None
