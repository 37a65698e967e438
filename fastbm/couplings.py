"""Couplings between units: dense or layered; frozen, and checked once when they are made.

Sparse couplings will be a third class with the same methods; until then a sparse matrix is stored densely.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from . import _checks

DENSE_LIMIT = 16_384  # units: beyond it a dense float64 matrix takes more than 2 GiB
ROUNDING = 1e-12  # an asymmetry below this part of the largest coupling is rounding, and is averaged away


class Couplings(Protocol):
    """What every kind of couplings can do. Arrays are read-only and C-contiguous."""

    @property
    def n_units(self) -> int:
        """Number of units."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the layers; a single one where there are no layers."""

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The stored arrays: one symmetric matrix, or one block between each two neighbouring layers."""

    def matrix(self) -> np.ndarray:
        """The whole symmetric (n_units, n_units) matrix."""

    def field(self, values: np.ndarray) -> np.ndarray:
        """W s for every row of `values` (m, n_units)."""

    def columns(self, units: np.ndarray) -> np.ndarray:
        """The columns of the whole matrix that belong to `units`, (n_units, k)."""

    def pair_sums(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """Sums over the rows of s_i s_j, in the shape of `arrays`."""

    def scaled(self, factor: float) -> Couplings:
        """The same couplings times `factor`."""

    def restrict(self, units: np.ndarray) -> Couplings:
        """The couplings among `units` (increasing indices)."""

    def absolute_sums(self) -> np.ndarray:
        """sum_j |W_ij| of every unit."""

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Couplings:
        """Couplings of the same kind and sizes that hold `arrays` (trusted)."""

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Arrays in the shape of `arrays` as one vector, each pair of units once."""

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """The way back from `to_vector`, with a zero diagonal."""


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array, dtype=np.float64)
    array.setflags(write=False)
    return array


class Dense:
    """A symmetric matrix with zero diagonal."""

    def __init__(self, weights: np.ndarray) -> None:
        self._weights = _frozen(weights)
        self.n_units = len(weights)
        self.sizes = (self.n_units,)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return (self._weights,)

    def matrix(self) -> np.ndarray:
        return self._weights

    def field(self, values: np.ndarray) -> np.ndarray:
        return values @ self._weights

    def columns(self, units: np.ndarray) -> np.ndarray:
        return self._weights[:, units]

    def pair_sums(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        return (values.T @ values,)

    def scaled(self, factor: float) -> Dense:
        return Dense(self._weights * factor)

    def restrict(self, units: np.ndarray) -> Dense:
        return Dense(self._weights[np.ix_(units, units)])

    def absolute_sums(self) -> np.ndarray:
        return np.abs(self._weights).sum(axis=1)

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Dense:
        return Dense(arrays[0])

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return arrays[0][np.triu_indices(self.n_units, 1)]

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        upper = np.zeros((self.n_units, self.n_units))
        upper[np.triu_indices(self.n_units, 1)] = vector
        return (upper + upper.T,)


class Layered:
    """Blocks between neighbouring layers, block k of shape (size of layer k, size of layer k + 1)."""

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = tuple(_frozen(block) for block in blocks)
        self.sizes = (*(len(block) for block in self.blocks), self.blocks[-1].shape[1])
        self.n_units = sum(self.sizes)
        starts = (0, *itertools.accumulate(self.sizes))
        self.layers = tuple(slice(a, b) for a, b in itertools.pairwise(starts))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.blocks

    def matrix(self) -> np.ndarray:
        whole = np.zeros((self.n_units, self.n_units))
        for k, block in enumerate(self.blocks):
            whole[self.layers[k], self.layers[k + 1]] = block
            whole[self.layers[k + 1], self.layers[k]] = block.T
        return _frozen(whole)

    def field(self, values: np.ndarray) -> np.ndarray:
        field = np.zeros(values.shape, np.result_type(values, np.float64))
        for k, block in enumerate(self.blocks):
            field[:, self.layers[k + 1]] += values[:, self.layers[k]] @ block
            field[:, self.layers[k]] += values[:, self.layers[k + 1]] @ block.T
        return field

    def columns(self, units: np.ndarray) -> np.ndarray:
        picked = np.zeros((self.n_units, len(units)))
        for k, unit in enumerate(units):
            layer = next(number for number, rows in enumerate(self.layers) if unit < rows.stop)
            inside = unit - self.layers[layer].start
            if layer > 0:
                picked[self.layers[layer - 1], k] = self.blocks[layer - 1][:, inside]
            if layer < len(self.blocks):
                picked[self.layers[layer + 1], k] = self.blocks[layer][inside]
        return picked

    def pair_sums(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(values[:, self.layers[k]].T @ values[:, self.layers[k + 1]] for k in range(len(self.blocks)))

    def scaled(self, factor: float) -> Layered:
        return Layered([block * factor for block in self.blocks])

    def restrict(self, units: np.ndarray) -> Layered:
        kept = [units[(units >= layer.start) & (units < layer.stop)] - layer.start for layer in self.layers]
        return Layered([block[np.ix_(kept[k], kept[k + 1])] for k, block in enumerate(self.blocks)])

    def absolute_sums(self) -> np.ndarray:
        sums = np.zeros(self.n_units)
        for k, block in enumerate(self.blocks):
            sums[self.layers[k]] += np.abs(block).sum(axis=1)
            sums[self.layers[k + 1]] += np.abs(block).sum(axis=0)
        return sums

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Layered:
        return Layered(arrays)

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([array.ravel() for array in arrays])

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        ends = np.cumsum([block.size for block in self.blocks])[:-1]
        parts = np.split(vector, ends)
        return tuple(part.reshape(block.shape) for part, block in zip(parts, self.blocks, strict=True))


def of_arrays(arrays: Sequence[np.ndarray], *, layered: bool) -> Couplings:
    """Make couplings of trusted arrays, those of a conditioned machine included, whose layers may be empty."""
    return Layered(arrays) if layered else Dense(arrays[0])


def check(weights: Any) -> Couplings:
    """Check what a user passed as `weights` and return its couplings.

    A list or tuple of two-dimensional blocks is layered; anything else is one matrix (sparse ones are made dense).
    """
    if isinstance(weights, (Dense, Layered)):
        return weights
    if _is_list_of_blocks(weights):
        return _check_layered(weights)
    if hasattr(weights, "toarray"):
        check_size(max(weights.shape))
        weights = weights.toarray()
    check_size(len(weights) if hasattr(weights, "__len__") else 0)
    matrix = _checks.finite_array("weights", weights)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"weights must be a square matrix; got shape {matrix.shape}. For a layered machine pass a list of blocks."
        )
    if not len(matrix):
        raise ValueError("weights must couple at least one unit; got an empty matrix.")
    _check_symmetric(matrix)
    return Dense(matrix if np.array_equal(matrix, matrix.T) else (matrix + matrix.T) / 2)


def _is_list_of_blocks(weights: Any) -> bool:
    if not isinstance(weights, (list, tuple)):
        return False
    blocks = [
        block if hasattr(block, "ndim") else _checks.any_array(f"weights[{k}]", block)
        for k, block in enumerate(weights)
    ]
    return len(blocks) > 0 and all(block.ndim == 2 for block in blocks)


def check_size(n_units: int) -> None:
    """Refuse what would not fit as a dense matrix."""
    if n_units > DENSE_LIMIT:
        gigabytes = 8.0 * n_units**2 / 1e9
        raise ValueError(
            f"{n_units} units are too many: couplings are stored as one dense matrix, which would take {gigabytes:.3g} "
            f"GB; the limit is {DENSE_LIMIT} units. A layered machine (a list of blocks) may be larger."
        )


def _check_symmetric(matrix: np.ndarray) -> None:
    diagonal = np.flatnonzero(np.diagonal(matrix))
    if diagonal.size:
        i = int(diagonal[0])
        raise ValueError(
            f"weights must have a zero diagonal; got {matrix[i, i]:g} at ({i}, {i}), {len(diagonal)} such "
            "entries in all. "
            "A unit's pull on itself belongs to the bias (binary units) or to the offset (spins)."
        )
    gap = np.abs(matrix - matrix.T)
    i, j = (int(k) for k in np.unravel_index(int(np.argmax(gap)), gap.shape))
    if gap[i, j] > ROUNDING * np.abs(matrix).max():
        raise ValueError(
            f"weights must be symmetric: max |W - W.T| = {gap[i, j]:.3g} at ({min(i, j)}, {max(i, j)}). "
            "Pass (W + W.T) / 2 to symmetrise; for a layered machine pass a list of blocks."
        )


def _check_layered(blocks: Sequence[Any]) -> Layered:
    blocks = [block.toarray() if hasattr(block, "toarray") else block for block in blocks]
    checked = [_checks.finite_array(f"weights[{k}]", block) for k, block in enumerate(blocks)]
    for k, (upper, lower) in enumerate(itertools.pairwise(checked)):
        if upper.shape[1] != lower.shape[0]:
            raise ValueError(
                f"weights must be blocks between neighbouring layers: weights[{k}] has shape {upper.shape}, so "
                f"weights[{k + 1}] must have {upper.shape[1]} rows; it has shape {lower.shape}."
            )
    if any(0 in block.shape for block in checked):
        raise ValueError(f"weights must couple layers of at least one unit; got blocks {[b.shape for b in checked]}.")
    return Layered(checked)
