"""Couplings of every pair of units: one symmetric matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from .protocol import Csr, frozen, row_blocks

ROWS, ENTRIES = 16, 65_536  # of which sums of sizes are taken at a time: at least, and about


class Dense:
    """A symmetric matrix with zero diagonal."""

    kind = "dense"

    def __init__(self, weights: np.ndarray) -> None:
        self._weights = frozen(weights)
        self.n_units = len(weights)
        self.sizes = (self.n_units,)

    def __reduce__(self) -> Any:
        """Return how a copy is made, whose arrays are read-only again."""
        return Dense, (self._weights,)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The symmetric matrix, as a tuple of one array."""
        return (self._weights,)

    def matrix(self) -> np.ndarray:
        """Return the whole symmetric (n_units, n_units) matrix."""
        return self._weights

    def csr(self) -> Csr:
        """Return the whole symmetric matrix without its zeros: indptr, indices and values."""
        return self._csr

    @cached_property
    def _csr(self) -> Csr:
        counts = np.count_nonzero(self._weights, axis=1)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        indices = np.empty(int(indptr[-1]), np.int32)
        for rows in row_blocks(self.n_units, self.n_units):
            indices[indptr[rows.start] : indptr[rows.stop]] = np.nonzero(self._weights[rows])[1]
        values = self._weights[self._weights != 0.0]
        return frozen(indptr, np.int64), frozen(indices, np.int32), frozen(values)

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of the whole matrix that are not zero."""
        return int(np.count_nonzero(self._weights))

    def field(self, values: np.ndarray) -> np.ndarray:
        """Return W s for every row of `values` (m, n_units)."""
        found: np.ndarray = values @ self._weights
        return found

    def field_at(self, values: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the entries (m, k) of W s that belong to `units`."""
        found: np.ndarray = values @ self._weights[:, units]
        return found

    def columns(self, units: np.ndarray) -> np.ndarray:
        """Return the columns of the whole matrix that belong to `units`, (n_units, k)."""
        return self._weights[:, units]

    def pair_sums(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return sums over the rows of s_i s_j, in the shape of `arrays`."""
        return (values.T @ values,)

    def pick(self, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the coupled pairs of a full matrix, in the shape of `arrays`, with a zero diagonal."""
        picked = np.array(matrix)
        np.fill_diagonal(picked, 0.0)
        return (picked,)

    def scaled(self, factor: float) -> Dense:
        """Return the same couplings times `factor`."""
        return Dense(self._weights * factor)

    def restrict(self, units: np.ndarray) -> Dense:
        """Return the couplings among `units` (increasing indices)."""
        return Dense(self._weights[np.ix_(units, units)])

    def absolute_sums(self) -> np.ndarray:
        """Return sum_j |W_ij| for every unit."""
        return self._absolute_sums

    @cached_property
    def _absolute_sums(self) -> np.ndarray:
        step = max(ROWS, ENTRIES // max(self.n_units, 1))  # so many stay in the cache
        firsts = range(0, self.n_units, step)
        parts = [np.abs(self._weights[first : first + step]).sum(axis=1) for first in firsts]
        return frozen(np.concatenate(parts) if parts else np.zeros(0))

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Dense:
        """Return couplings of the same kind and sizes that hold `arrays` (trusted)."""
        return Dense(arrays[0])

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the entries above the diagonal of the matrix as one vector."""
        found: np.ndarray = arrays[0][_upper(self.n_units)]
        return found

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the symmetric matrix whose entries above the diagonal a vector holds."""
        upper = np.zeros((self.n_units, self.n_units))
        upper[_upper(self.n_units)] = vector
        return (upper + upper.T,)


@lru_cache(maxsize=1)  # learning asks some times a step, for which making them would take longer than the rest
def _upper(n_units: int) -> np.ndarray:
    """Return which entries of a matrix belong to the pairs i < j."""
    return np.triu(np.ones((n_units, n_units), bool), 1)
