"""What every kind of couplings can do, and how large a dense matrix may be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

DENSE_LIMIT = 16_384  # units: beyond it a dense float64 matrix takes more than 2 GiB
MOST_UNITS = (1 << 31) - 1  # that the indices of sparse couplings, 32 bits each, can name
Csr = tuple[np.ndarray, np.ndarray, np.ndarray]
BLOCK = 1 << 22  # numbers that a temporary array may hold where many rows are worked on at once


def check_size(n_units: int) -> None:
    """Refuse what would not fit as a dense matrix."""
    if n_units > DENSE_LIMIT:
        gigabytes = 8.0 * n_units**2 / 1e9
        raise ValueError(
            f"{n_units} units are too many: couplings as one dense matrix would take {gigabytes:.3g} GB; the limit is "
            f"{DENSE_LIMIT} units. Couplings given as a scipy.sparse matrix, or as a list of blocks for a layered "
            "machine, are stored as they are and may have more, where what is asked of them needs no dense matrix."
        )


def check_indices(argument: str, n_units: int) -> None:
    """Refuse more units than sparse couplings can have."""
    if n_units > MOST_UNITS:
        raise ValueError(
            f"{argument} must ask for at most {MOST_UNITS} units, which indices of 32 bits can name; got {n_units}."
        )


class Couplings(Protocol):
    """Couplings between units; frozen. Arrays are read-only and C-contiguous."""

    @property
    def kind(self) -> str:
        """Kind of couplings: "dense", "layered" or "sparse"."""

    @property
    def n_units(self) -> int:
        """Number of units."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the layers; a single one where there are no layers."""

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The stored arrays.

        They are one symmetric matrix, one block between each two neighbouring layers, or one number an edge.
        """

    @property
    def n_entries(self) -> int:
        """Number of entries of the whole matrix that are not zero."""

    def matrix(self) -> np.ndarray:
        """Return the whole symmetric (n_units, n_units) matrix."""

    def csr(self) -> Csr:
        """Return the whole symmetric matrix without its zeros: indptr, indices and values.

        These are (n_units + 1,) int64, int32 (increasing in each row) and float64; each pair of units stands there
        twice.
        """

    def field(self, values: np.ndarray) -> np.ndarray:
        """Return W s for every row of `values` (m, n_units)."""

    def field_at(self, values: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the entries (m, k) of W s that belong to `units`."""

    def columns(self, units: np.ndarray) -> np.ndarray:
        """Return the columns of the whole matrix that belong to `units`, (n_units, k)."""

    def pair_sums(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return sums over the rows of s_i s_j, in the shape of `arrays`."""

    def pick(self, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the coupled pairs of a full matrix, in the shape of `arrays`, with a zero diagonal."""

    def scaled(self, factor: float) -> Couplings:
        """Return the same couplings times `factor`."""

    def restrict(self, units: np.ndarray) -> Couplings:
        """Return the couplings among `units` (increasing indices)."""

    def absolute_sums(self) -> np.ndarray:
        """Return sum_j |W_ij| for every unit."""

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Couplings:
        """Return couplings of the same kind and sizes that hold `arrays` (trusted)."""

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the numbers of arrays in the shape of `arrays` as one vector, each pair of units once."""

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the arrays whose numbers a vector holds, as `to_vector` made it, with a zero diagonal."""


def frozen(array: np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return `array` as a read-only C-contiguous one."""
    array = np.ascontiguousarray(array, dtype=dtype)
    array.setflags(write=False)
    return array


def row_blocks(n_rows: int, width: int) -> Iterator[slice]:
    """Slices of rows of `width` numbers that keep a temporary array within `BLOCK` numbers, at least one row each."""
    step = max(1, BLOCK // max(width, 1))
    return (slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step))
