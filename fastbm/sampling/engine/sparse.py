"""Chains on sparse couplings: fields summed from the neighbours at every attempt, lanes side by side."""

from __future__ import annotations

import numpy as np

from ..._base import arrays
from ...kernels.energy import energies_sparse
from ...kernels.sampling.sparse import sweep_sparse
from ...machine.up_form import up_form
from . import fixed_point
from .engine import HOLD, Engine


class SparseChains(Engine):
    """Single-spin Gibbs or Metropolis updates with the bits of `DenseChains`; see `fastbm.kernels.sampling.sparse`."""

    kernel = "sparse"
    block_lanes = 128

    def _couple(self) -> None:
        form, field = up_form(self.couplings, self.bias, self.units)
        indptr, indices, rises = form.csr()
        degree = int(np.diff(indptr).max(initial=0))
        self._point = fixed_point.choose(form, field, self.highest_beta)
        self._edges = (indptr, indices, self._point.integers(rises))
        field = self._point.integers(field)
        self._start = [self._lanes_of(field, k) for k in range(len(self.blocks))]
        self._biases = [self._lanes_of(self.bias, k) for k in range(len(self.blocks))]
        self._scale = [arrays.zeros((up.shape[1],), np.float32) for up in self.up]
        self._rescale()
        self.attempt_seconds = 5e-10 + 5e-11 * degree
        self.detail = self._point.detail(self.kernel)

    def _lanes_of(self, rows: np.ndarray, k: int) -> np.ndarray:
        """One column for all chains, or one for each lane of block `k`."""
        if len(rows) == 1:
            return np.ascontiguousarray(rows.T)
        block = self.blocks[k]
        lanes = arrays.zeros((self.n_units, self.up[k].shape[1]), rows.dtype)
        lanes[:, : block.stop - block.start] = rows[block].T
        return lanes

    def _rescale(self) -> None:
        self._point.fill_scales(self.beta, self.blocks, self._scale)

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        graph = (*self._edges, self._start[k])
        metropolis = self.rule == "metropolis"
        hold = HOLD if self.order == "random" else np.uint32(0)
        used = self.blocks[k].stop - self.blocks[k].start
        for rows, count in self._pieces(k, first, n_sweeps):
            self._flips[k] += sweep_sparse(
                self.up[k], graph, self._scale[k], self.lane_streams[k], rows, count, (metropolis, hold), used
            )

    def _energies_block(self, k: int) -> np.ndarray:
        used = self.blocks[k].stop - self.blocks[k].start
        energies = np.empty(self.up[k].shape[1])
        values = (float(self.units.lo), float(self.units.span))
        energies_sparse(self.up[k], self.couplings.csr(), self._biases[k], values, energies)
        return energies[:used]
