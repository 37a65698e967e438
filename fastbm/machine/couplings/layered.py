"""Couplings between neighbouring layers: one block each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .protocol import Csr, frozen
from .sparse import symmetric


class Layered:
    """Blocks between neighbouring layers, block k of shape (size of layer k, size of layer k + 1)."""

    kind = "layered"

    def __init__(self, blocks: Sequence[np.ndarray]) -> None:
        self.blocks = tuple(frozen(block) for block in blocks)
        self.sizes = (*(len(block) for block in self.blocks), self.blocks[-1].shape[1])
        self.n_units = sum(self.sizes)
        starts = (0, *itertools.accumulate(self.sizes))
        self.layers = tuple(slice(a, b) for a, b in itertools.pairwise(starts))

    def __reduce__(self) -> Any:
        """Return how a copy is made, whose arrays are read-only again."""
        return Layered, (self.blocks,)

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The blocks between neighbouring layers."""
        return self.blocks

    def matrix(self) -> np.ndarray:
        """Return the whole symmetric (n_units, n_units) matrix."""
        whole = np.zeros((self.n_units, self.n_units))
        for k, block in enumerate(self.blocks):
            whole[self.layers[k], self.layers[k + 1]] = block
            whole[self.layers[k + 1], self.layers[k]] = block.T
        return frozen(whole)

    def csr(self) -> Csr:
        """Return the whole symmetric matrix without its zeros: indptr, indices and values."""
        return self._csr

    @cached_property
    def _csr(self) -> Csr:
        places = [np.nonzero(block) for block in self.blocks]
        upper = np.concatenate([self.layers[k].start + i for k, (i, _) in enumerate(places)])
        lower = np.concatenate([self.layers[k + 1].start + j for k, (_, j) in enumerate(places)])
        values = np.concatenate([block[place] for block, place in zip(self.blocks, places, strict=True)])
        whole = symmetric(self.n_units, np.stack([upper, lower], axis=1), values)
        return frozen(whole.indptr, np.int64), frozen(whole.indices, np.int32), frozen(whole.data)

    @cached_property
    def n_entries(self) -> int:
        """Number of entries of the whole matrix that are not zero."""
        return 2 * sum(int(np.count_nonzero(block)) for block in self.blocks)

    def field(self, values: np.ndarray) -> np.ndarray:
        """Return W s for every row of `values` (m, n_units)."""
        field = np.zeros(values.shape, np.result_type(values, np.float64))
        for k, block in enumerate(self.blocks):
            field[:, self.layers[k + 1]] += values[:, self.layers[k]] @ block
            field[:, self.layers[k]] += values[:, self.layers[k + 1]] @ block.T
        return field

    def field_at(self, values: np.ndarray, units: np.ndarray) -> np.ndarray:
        """Return the entries (m, k) of W s that belong to `units`."""
        found: np.ndarray = values @ self.columns(units)
        return found

    def columns(self, units: np.ndarray) -> np.ndarray:
        """Return the columns of the whole matrix that belong to `units`, (n_units, k)."""
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
        """Return sums over the rows of s_i s_j, in the shape of `arrays`."""
        return tuple(values[:, self.layers[k]].T @ values[:, self.layers[k + 1]] for k in range(len(self.blocks)))

    def pick(self, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the blocks between neighbouring layers of a full matrix."""
        return tuple(matrix[a, b] for a, b in itertools.pairwise(self.layers))

    def scaled(self, factor: float) -> Layered:
        """Return the same couplings times `factor`."""
        return Layered([block * factor for block in self.blocks])

    def restrict(self, units: np.ndarray) -> Layered:
        """Return the couplings among `units` (increasing indices)."""
        kept = [units[(units >= layer.start) & (units < layer.stop)] - layer.start for layer in self.layers]
        return Layered([block[np.ix_(kept[k], kept[k + 1])] for k, block in enumerate(self.blocks)])

    def absolute_sums(self) -> np.ndarray:
        """Return sum_j |W_ij| for every unit."""
        sums = np.zeros(self.n_units)
        for k, block in enumerate(self.blocks):
            sums[self.layers[k]] += np.abs(block).sum(axis=1)
            sums[self.layers[k + 1]] += np.abs(block).sum(axis=0)
        return sums

    def with_arrays(self, arrays: Sequence[np.ndarray]) -> Layered:
        """Return couplings of the same kind and sizes that hold `arrays` (trusted)."""
        return Layered(arrays)

    def to_vector(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the entries of all blocks as one vector."""
        return np.concatenate([array.ravel() for array in arrays])

    def from_vector(self, vector: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the blocks whose entries a vector holds, as `to_vector` made it."""
        ends = np.cumsum([block.size for block in self.blocks])[:-1]
        parts = np.split(vector, ends)
        return tuple(part.reshape(block.shape) for part, block in zip(parts, self.blocks, strict=True))
