"""Chains on layered couplings: block Gibbs (or Metropolis), one matrix product and one pass of draws a layer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..couplings import Couplings, Layered
from ..kernels.layered import gibbs_layer, metropolis_layer
from .engine import BLOCK, Engine, up_form

LOG_ODDS_ERROR = 1e-4  # what float32 may change a conditional log-odds by, in the worst state, before float64 is taken


def field_of_layer(
    blocks: Sequence[np.ndarray], layers: Sequence[slice], layer: int, up: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """What the neighbouring layers in `up` (n_units, lanes) pull, on top of `start` (n_units, 1 or lanes); one layer
    of it.
    """
    pulls = [blocks[layer - 1].T @ up[layers[layer - 1]]] if layer > 0 else []
    if layer < len(blocks):
        pulls.append(blocks[layer] @ up[layers[layer + 1]])
    field: np.ndarray = pulls[0] if len(pulls) == 1 else pulls[0] + pulls[1]
    field += start[layers[layer]]
    return field


class LayeredChains(Engine):
    """Layers in order, each drawn given its neighbours. Products run on one BLAS thread for each block of 64 chains."""

    kernel = "layered"

    @staticmethod
    def _block_size(n_chains: int, threads: int) -> int:
        """Chains of a block, whatever the number of threads: the bits of a matrix product depend on its shape."""
        return BLOCK if n_chains > BLOCK else BLOCK // 2

    def couple(self, couplings: Couplings, bias: np.ndarray) -> None:
        assert isinstance(couplings, Layered)
        self._couplings, self._bias = couplings, np.atleast_2d(bias)
        form, field = up_form(couplings, self._bias, self.units)
        worst = float(self.beta.max(initial=0.0) * (form.absolute_sums() + np.abs(field).max(axis=0)).max(initial=0.0))
        single = worst * 2.0**-22 <= LOG_ODDS_ERROR
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._blocks = [block.astype(self.dtype) for block in form.arrays]
        self._start = [self._start_of(k, field) for k in range(len(self.blocks))]
        self._scale = []
        for block, up in zip(self.blocks, self.up, strict=True):
            scale = np.zeros(up.shape[1], self.dtype)
            scale[: block.stop - block.start] = self.beta[block]
            self._scale.append(scale)
        self._values = [up.astype(self.dtype) for up in self.up]
        self.detail = {
            "kernel": self.kernel,
            "fields": self.dtype.name,
            "largest log-odds error": worst * (2.0**-22 if single else 2.0**-51),
        }

    def _start_of(self, k: int, field: np.ndarray) -> np.ndarray:
        """The field with all units down: one column, or one for each chain of the block."""
        if len(field) == 1:
            return field.T.astype(self.dtype)
        block = self.blocks[k]
        start = np.zeros((self.n_units, self.up[k].shape[1]), self.dtype)
        start[:, : block.stop - block.start] = field[block].T
        return start

    def layer_field(self, k: int, layer: int) -> np.ndarray:
        """The field (in log-odds at beta = 1) of a layer for the chains of block `k`."""
        return field_of_layer(self._blocks, self._couplings.layers, layer, self._values[k], self._start[k])

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        draw = metropolis_layer if self.rule == "metropolis" else gibbs_layer
        values = self._values[k]
        for _ in range(n_sweeps):
            for layer, rows in enumerate(self._couplings.layers):
                draw(values[rows], self.layer_field(k, layer), self._scale[k], self.streams[k])
        self.up[k][:] = values

    def draw_layer(self, layer: int) -> None:
        """Draw one layer given its neighbours, the others staying as they are."""

        def draw(k: int) -> None:
            rows = self._couplings.layers[layer]
            gibbs_layer(self._values[k][rows], self.layer_field(k, layer), self._scale[k], self.streams[k])
            self.up[k][:] = self._values[k]

        self._for_blocks(draw, 1)

    def _load(self, up: np.ndarray, streams: np.ndarray) -> None:
        super()._load(up, streams)
        self._values = [lanes.astype(getattr(self, "dtype", np.float32)) for lanes in self.up]

    def _energies_block(self, k: int) -> np.ndarray:
        block = self.blocks[k]
        values = self.units.values(self.up[k][:, : block.stop - block.start].T, np.float64)
        bias = self._bias[block] if len(self._bias) > 1 else self._bias
        return -((0.5 * self._couplings.field(values) + bias) * values).sum(axis=1)
