"""Means and second moments of recorded states, gathered piece by piece."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import diagnostics
from ..kernels.moments import count_pairs
from ..kernels.packing import pack_chains
from ..model import BoltzmannMachine
from ..sampling.unseen import rarely
from .monte_carlo import N_BLOCKS, PairCounts
from .result import moments_from_up
from .temperatures import FEWEST_SPREAD, spread_error


class TargetMoments:
    """Moments of `n_samples` states of `n_chains` chains, which come packed, in the order in which they were taken."""

    def __init__(self, model: BoltzmannMachine, n_samples: int, n_chains: int) -> None:
        self._units, self._n_units = model.convention, model.n_units
        self._pairs = PairCounts(model.n_units)
        self._block = np.arange(n_samples) * min(N_BLOCKS, n_samples) // n_samples
        self._sums = np.zeros((self._block[-1] + 1, n_chains, model.n_units))
        self._done = 0

    def add(self, packed: np.ndarray) -> None:
        """Count states, (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        up = np.unpackbits(packed, axis=2, count=self._n_units, bitorder="little")
        for t, states in enumerate(up):
            self._sums[self._block[self._done + t]] += states
        rows = np.ascontiguousarray(up.reshape(-1, self._n_units).T)
        words = np.empty((self._n_units, -(-rows.shape[1] // 64)), np.uint64)
        pack_chains(rows, rows.shape[1], words)
        count_pairs(words, self._pairs.counts)
        self._pairs.n += rows.shape[1]
        self._done += len(packed)

    def means(self) -> np.ndarray:
        """The part of the time that units are up in blocks of samples, (n_blocks, n_chains, n_units)."""
        return self._sums / np.bincount(self._block)[:, None, None]

    def result(self, ess: float) -> dict[str, Any]:
        """Moment fields of an Inference; no error is smaller than Laplace's of what `ess` samples never see."""
        blocks = self.means()
        error = np.maximum(diagnostics.standard_error(blocks), rarely(ess))
        if blocks.shape[1] >= FEWEST_SPREAD:
            of_chains = blocks.mean(axis=0)
            error = np.maximum(error, spread_error(of_chains - of_chains.mean(axis=0)))
        return moments_from_up(self._units, self._pairs.up()) | {"mean_error": self._units.span * error}
