"""Couplings of some pairs of units: one number an edge. All here costs memory and time of the order of the edges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .protocol import Csr, check_size, frozen, row_blocks

CACHED, FEWEST_ROWS = 1 << 16, 16  # numbers that go into one product, which is four times as fast as with 2^22; rows


def symmetric(n_units: int, edges: np.ndarray, values: np.ndarray) -> Any:
    """Return the symmetric matrix of sorted edges i < j as a scipy.sparse.csr_array without stored zeros."""
    from scipy.sparse import csr_array

    starts = np.concatenate([[0], np.cumsum(np.bincount(edges[:, 0], minlength=n_units))])
    upper = csr_array((values, np.ascontiguousarray(edges[:, 1]), starts), shape=(n_units, n_units))
    whole = upper + upper.T  # scipy drops zeros here
    whole.sort_indices()
    return whole


class Sparse:
    """A symmetric sparse matrix with zero diagonal, stored once per edge.

    `edges` (n_edges, 2) int32 holds i < j, sorted by i, then j; `values` (n_edges,) their couplings. A value may be 0
    (learning may bring it there); the edge is kept, and `csr` leaves it out.
    """

    kind = "sparse"

    def __init__(self, n_units: int, edges: np.ndarray, values: np.ndarray) -> None:
        self.n_units = n_units
        self.sizes = (n_units,)
        self.edges = frozen(edges, np.int32)
        self._values = frozen(values)

    def __reduce__(self) -> Any:
        """Return how a copy is made, whose arrays are read-only again."""
        return Sparse, (self.n_units, self.edges, self._values)

    @classmethod
    def of_pairs(cls, n_units: int, i: np.ndarray, j: np.ndarray, values: np.ndarray) -> Sparse:
        """Take pairs i != j in any order; those that name the same two units add up, and zeros are dropped."""
        from scipy.sparse import coo_array

        low, high = np.minimum(i, j), np.maximum(i, j)
        upper = coo_array((np.asarray(values, np.float64), (low, high)), shape=(n_units, n_units)).tocsr()
        upper.sort_indices()
        upper.eliminate_zeros()
        return cls.of_upper(upper)

    @classmethod
    def of_upper(cls, upper: Any) -> Sparse:
        """Take the upper triangle, a canonical scipy.sparse.csr_array without zeros."""
        n = upper.shape[0]
        rows = np.repeat(np.arange(n, dtype=np.int32), np.diff(upper.indptr))
        return cls(n, np.stack([rows, upper.indices.astype(np.int32)], axis=1), upper.data)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """One number an edge, as a tuple of one array."""
        return (self._values,)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self._values)

    def matrix(self) -> np.ndarray:
        """Return the whole symmetric (n_units, n_units) matrix."""
        check_size(self.n_units)
        whole = np.zeros((self.n_units, self.n_units))
        i, j = self.edges.T
        whole[i, j] = whole[j, i] = self._values
        return frozen(whole)

    @cached_property
    def _whole(self) -> Any:
        whole = symmetric(self.n_units, self.edges, self._values)
        for array in (whole.data, whole.indices, whole.indptr):
            array.setflags(write=False)
        return whole

    def scipy(self) -> Any:
        """Return the whole matrix as a scipy.sparse.csr_array that shares its read-only arrays with these couplings."""
        from scipy.sparse import csr_array

        whole = self._whole
        return csr_array((whole.data, whole.indices, whole.indptr), shape=whole.shape)

    def csr(self) -> Csr:
        """Return the whole symmetric matrix without its zeros: indptr, indices and values."""
        return self._csr

    @cached_property
    def _csr(self) -> Csr:
        whole = self._whole
        return frozen(whole.indptr, np.int64), frozen(whole.indices, np.int32), frozen(whole.data)

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of the whole matrix that are not zero."""
        return len(self.csr()[2])

    def field(self, values: np.ndarray) -> np.ndarray:
        """Return W s for every row of `values` (m, n_units)."""
        return _product(self._whole, values)

    def field_at(self, values: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the entries (m, k) of W s that belong to `units`."""
        return _product(self._whole[units], values)

    def columns(self, units: np.ndarray) -> np.ndarray:
        """Return the columns of the whole matrix that belong to `units`, (n_units, k)."""
        return np.ascontiguousarray(self._whole[units].toarray().T)

    def pair_sums(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return sums over the rows of s_i s_j, one an edge."""
        by_unit = np.ascontiguousarray(values.T)
        sums = np.empty(self.n_edges, values.dtype)
        for edges in row_blocks(self.n_edges, len(values)):
            i, j = self.edges[edges].T
            sums[edges] = np.einsum("et,et->e", by_unit[i], by_unit[j])
        return (sums,)

    def pick(self, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the entries of a full matrix at the edges."""
        return (matrix[self.edges[:, 0], self.edges[:, 1]],)

    def scaled(self, factor: float) -> Sparse:
        """Return the same couplings times `factor`."""
        found = Sparse(self.n_units, self.edges, self._values * factor)
        if "_csr" in vars(self):
            indptr, indices, values = self._csr
            if (scaled := values * factor).all():  # else there are zeros to be left out
                found._csr = indptr, indices, frozen(scaled)
        return found

    def restrict(self, units: np.ndarray) -> Sparse:
        """Return the couplings among `units` (increasing indices)."""
        place = np.full(self.n_units, -1, np.int32)
        place[units] = np.arange(len(units), dtype=np.int32)
        edges = place[self.edges]
        kept = (edges >= 0).all(axis=1)
        return Sparse(len(units), edges[kept], self._values[kept])

    def absolute_sums(self) -> np.ndarray:
        """Return sum_j |W_ij| for every unit."""
        return self._absolute_sums

    @cached_property
    def _absolute_sums(self) -> np.ndarray:
        size, found = np.abs(self._values), np.zeros(self.n_units)
        for ends in self.edges.T:
            found += np.bincount(ends, weights=size, minlength=self.n_units)
        return frozen(found)

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Sparse:
        """Return couplings of the same kind and sizes that hold `arrays` (trusted)."""
        return Sparse(self.n_units, self.edges, arrays[0])

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the numbers of the edges as one vector."""
        return arrays[0]

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the numbers of the edges that a vector holds."""
        return (vector,)


def _product(rows: Any, values: np.ndarray) -> np.ndarray:
    """`values` (m, n) times the transpose of sparse `rows` (k, n), as many values at a time as stay in the cache."""
    product = np.empty((len(values), rows.shape[0]), np.result_type(values, np.float64))
    step = max(FEWEST_ROWS, CACHED // max(rows.shape[1], 1))
    for first in range(0, len(values), step):
        product[first : first + step] = (rows @ values[first : first + step].T).T
    return product
