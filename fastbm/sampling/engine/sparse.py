"""Chains on sparse couplings: fields summed from the neighbours at every attempt, lanes side by side."""

from __future__ import annotations

import numpy as np

from ...kernels.energy import energies_sparse
from ...kernels.sampling.cooling import cool_kept, cool_sparse, init_kept
from ...kernels.sampling.few import sweep_sparse_few
from ...kernels.sampling.record import record_sparse
from ...kernels.sampling.sparse import sweep_sparse
from . import fixed_point
from .cooling import CoolingChains
from .lanes import LANES

# about how many nanoseconds an attempt takes, and more for each neighbour: by sums of neighbours, of all chains and for
# every 16 lanes; and with fields that are kept, where an attempt is no flip and more where it is one
SUM, SUM_OF_LANES = (10.0, 1.4), (6.5, 0.65)
KEPT, FLIP = 2.0, (18.0, 0.45)
MOST_KEPT = 1 << 17  # units, whose fields a processor holds in its own cache


class SparseChains(CoolingChains):
    """Single-spin Gibbs or Metropolis updates with the bits of `DenseChains`; see `fastbm.kernels.sampling.sparse`.

    Chains that are cooled keep their fields as long as few attempts are flips: that takes less time, and all bits are
    the same.
    """

    kernel = "sparse"
    block_lanes = 128
    few = 4
    _in_groups = True

    def _couple(self) -> None:
        self._point, edges, start = fixed_point.sparse_integers(
            self.couplings, self.bias, self.units, self.highest_beta
        )
        degree = int(np.diff(edges[0]).max(initial=0))
        self._edges = edges
        self._swept = _in_fours(*edges) if self.n_chains <= self.few else edges
        self._degree = len(edges[1]) / self.n_units
        self._flip_rate = [1.0] * len(self.blocks)  # flips of an attempt, when they were last counted
        self._forget()
        self._start = [self.lanes.spread(k, start) for k in range(len(self.blocks))]
        self._biases = [self.lanes.spread(k, self.bias) for k in range(len(self.blocks))]
        self._scale = [scale[0] for scale in self.lanes.room(1, np.float32)]
        self._rescale()
        self.attempt_seconds = 5e-10 + 5e-11 * degree
        self.detail = self._point.detail(self.kernel)

    def _rescale(self) -> None:
        self._point.fill_scales(self.beta, self.lanes, self._scale)

    def _forget(self) -> None:
        self._kept: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(self.blocks)

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        up, used, chains = self.up[k], self.lanes.used(k), (scales, self._scale[k], self.lane_streams[k])
        if self._keeps(k):
            graph = (*self._edges, self._start[k])
            n_flips = cool_kept(up, *self._fields(k, graph), graph, *chains, self._hold)
        else:
            self._kept[k] = None
            ways = (self._hold, *((True, None) if self._one_by_one else (None, True)))
            n_flips = cool_sparse(up, (*self._swept, self._start[k]), *chains, sites, ways, used)
        self._flip_rate[k] = n_flips / (used * self.n_units * len(scales))
        return int(n_flips)

    def _keeps(self, k: int) -> bool:
        """Return whether block `k` is the faster with fields that are kept, flips being as frequent as they were."""
        if self.order != "sequential" or self.n_units > MOST_KEPT:
            return False
        if self._one_by_one:
            return True
        n_vectors, degree = self._lanes() // LANES, self._degree
        sums = SUM[0] + SUM[1] * degree + n_vectors * (SUM_OF_LANES[0] + SUM_OF_LANES[1] * degree)
        kept = KEPT + self._flip_rate[k] * (FLIP[0] + FLIP[1] * degree)
        return bool(self.lanes.used(k) * kept < sums)

    def _fields(self, k: int, graph: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the fields of block `k`, and where its units are up, as the kernel keeps them."""
        found = self._kept[k]
        if found is None:
            shape, kind = (self.lanes.used(k), self.n_units), graph[2].dtype
            found = self._kept[k] = np.empty(shape, kind), np.empty(shape, kind)
            init_kept(*found, self.up[k], graph)
        return found

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        self._kept[k] = None
        graph, chains = (*self._swept, self._start[k]), (self._scale[k], self.lane_streams[k])
        for rows, count in self._pieces(k, first, n_sweeps):
            if self._one_by_one:
                self._flips[k] += sweep_sparse_few(self.up[k], graph, *chains, rows, count, self._hold)
            else:
                used = self.lanes.used(k)
                self._flips[k] += sweep_sparse(self.up[k], graph, *chains, rows, count, self._hold, used)

    def _record_group(self, k: int, sites: np.ndarray, thin: int, packed: np.ndarray) -> np.ndarray:
        self._kept[k] = None
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
    degree = np.diff(indptr)
    ends = np.concatenate([[0], np.cumsum(-(-degree // 4) * 4)])
    places = np.arange(len(indices)) + np.repeat(ends[:-1] - indptr[:-1], degree)
    four_indices, four_rises = np.zeros(ends[-1], indices.dtype), np.zeros(ends[-1], rises.dtype)
    four_indices[places], four_rises[places] = indices, rises
    return ends, four_indices, four_rises
