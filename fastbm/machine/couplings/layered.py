"""Couplings between neighbouring layers: one block each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

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

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.blocks

    def matrix(self) -> np.ndarray:
        whole = np.zeros((self.n_units, self.n_units))
        for k, block in enumerate(self.blocks):
            whole[self.layers[k], self.layers[k + 1]] = block
            whole[self.layers[k + 1], self.layers[k]] = block.T
        return frozen(whole)

    def csr(self) -> Csr:
        return self._csr

    @cached_property
    def _csr(self) -> Csr:
        places = [np.nonzero(block) for block in self.blocks]
        upper = np.concatenate([self.layers[k].start + i for k, (i, _) in enumerate(places)])
        lower = np.concatenate([self.layers[k + 1].start + j for k, (_, j) in enumerate(places)])
        values = np.concatenate([block[place] for block, place in zip(self.blocks, places, strict=True)])
        whole = symmetric(self.n_units, np.stack([upper, lower], axis=1), values)
        return frozen(whole.indptr, np.int64), frozen(whole.indices, np.int32), frozen(whole.data)

    def field(self, values: np.ndarray) -> np.ndarray:
        field = np.zeros(values.shape, np.result_type(values, np.float64))
        for k, block in enumerate(self.blocks):
            field[:, self.layers[k + 1]] += values[:, self.layers[k]] @ block
            field[:, self.layers[k]] += values[:, self.layers[k + 1]] @ block.T
        return field

    def field_at(self, values: np.ndarray, units: np.ndarray) -> np.ndarray:
        return values @ self.columns(units)

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

    def pick(self, matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(matrix[a, b] for a, b in itertools.pairwise(self.layers))

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
