"""Chains on sparse couplings: fields summed from the neighbours at every attempt, lanes side by side."""

from __future__ import annotations

import numpy as np

from ...kernels.energy import energies_sparse
from ...kernels.sampling.few import sweep_sparse_few
from ...kernels.sampling.record import record_sparse
from ...kernels.sampling.sparse import sweep_sparse
from . import fixed_point
from .engine import Engine


class SparseChains(Engine):
    """Single-spin Gibbs or Metropolis updates with the bits of `DenseChains`; see `fastbm.kernels.sampling.sparse`."""

    kernel = "sparse"
    block_lanes = 128
    few = 4
    _in_groups = True

    def _couple(self) -> None:
        self._point, edges, start = fixed_point.sparse_integers(
            self.couplings, self.bias, self.units, self.highest_beta
        )
        degree = int((edges[0][1:] - edges[0][:-1]).max(initial=0))
        self._swept = _in_fours(*edges) if self.n_chains <= self.few else edges
        self._start = [self.lanes.spread(k, start) for k in range(len(self.blocks))]
        self._biases = [self.lanes.spread(k, self.bias) for k in range(len(self.blocks))]
        self._scale = [scale[0] for scale in self.lanes.room(1, np.float32)]
        self._rescale()
        self.attempt_seconds = 5e-10 + 5e-11 * degree
        self.detail = self._point.detail(self.kernel)

    def _rescale(self) -> None:
        self._point.fill_scales(self.beta, self.lanes, self._scale)

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        graph, chains = (*self._swept, self._start[k]), (self._scale[k], self.lane_streams[k])
        for rows, count in self._pieces(k, first, n_sweeps):
            if self._one_by_one:
                self._flips[k] += sweep_sparse_few(self.up[k], graph, *chains, rows, count, self._hold)
            else:
                used = self.lanes.used(k)
                self._flips[k] += sweep_sparse(self.up[k], graph, *chains, rows, count, self._hold, used)

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray) -> np.ndarray:
        chains = (self._swept, self._start[k], self._scale[k], self.lane_streams[k])
        how = ((sites, thin), self._hold, *((True, None) if self._one_by_one else (None, True)))
        energies = np.empty(packed.shape[:2])
        units = (float(self.units.lo), float(self.units.span))
        self._flips[k] += record_sparse(
            self.up[k], chains, *how, self.couplings.csr(), self._biases[k], units, packed, energies
        )
        return energies

    def _energies_block(self, k: int) -> np.ndarray:
        used = self.lanes.used(k)
        energies = np.empty(self.up[k].shape[1])
        values = (float(self.units.lo), float(self.units.span))
        energies_sparse(self.up[k], self.couplings.csr(), self._biases[k], values, energies)
        return energies[:used]


def _in_fours(indptr: np.ndarray, indices: np.ndarray, rises: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a graph in which units have neighbours in multiples of four: unit 0, which adds nothing, fills them up."""
    degree = indptr[1:] - indptr[:-1]
    ends = np.zeros(len(indptr), np.int64)
    np.cumsum((degree + 3) & -4, out=ends[1:])
    places = np.arange(len(indices)) + np.repeat(ends[:-1] - indptr[:-1], degree)
    four_indices, four_rises = np.zeros(ends[-1], indices.dtype), np.zeros(ends[-1], rises.dtype)
    four_indices[places], four_rises[places] = indices, rises
    return ends, four_indices, four_rises
