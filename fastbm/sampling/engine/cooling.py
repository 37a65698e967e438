"""Chains that are cooled: every sweep has a temperature of its own, all chains the same."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from .engine import Engine
from .fixed_point import FixedPoint


def cool(engine: Engine, betas: np.ndarray, told: Sequence[int] = ()) -> np.ndarray:
    """Do a sweep at each of `betas` (n_sweeps,), none above the engine's `highest_beta`; all lanes are alike.

    Returns
    -------
    (len(told), n_chains) array
        Energies without offset after so many of these sweeps, increasing numbers from 1 on.
    """
    if isinstance(engine, CoolingChains) and engine.cools:
        return engine.cool(betas, told)
    energies = np.empty((len(told), engine.n_chains))
    ends = np.append(np.flatnonzero(np.diff(betas)) + 1, len(betas))
    first = 0
    for end in np.union1d(ends, told).astype(np.int64).tolist():
        if (engine.beta != betas[first]).any():
            engine.set_beta(np.full(engine.n_chains, betas[first]))
        engine.sweep(end - first)
        first = end
        if end in told:
            energies[told.index(end)] = engine.energies()
    return energies


class CoolingChains(Engine):
    """Chains that take many temperatures in one call; a sweep of them must not be too long to be cut."""

    _point: FixedPoint

    @property
    def _ways(self) -> tuple[bool | None, bool | None]:
        """Whether chains are few, and whether many, as kernels take it that compile only what is not None."""
        return (True, None) if self._one_by_one else (None, True)

    @property
    def cools(self) -> bool:
        """Whether a sweep fits into a piece between two looks for a stop."""
        return bool(self.n_units <= self._longest_piece())

    def cool(self, betas: np.ndarray, told: Sequence[int] = ()) -> np.ndarray:
        """Do what `cool` does; each block goes its way without waiting for the others."""
        self._prepare()
        if told:
            self._prepare_energies()
        self._since_check = [0] * len(self.blocks)
        ends, energies = np.array(told, np.int64), np.empty((len(told), self.n_chains))
        self._for_blocks(partial(self._cool, self._scales(betas), ends, energies), len(betas))
        self.n_swept += len(betas)
        self.beta = np.full(self.n_chains, betas[-1])
        return energies

    def _scales(self, betas: np.ndarray) -> np.ndarray:
        """Return betas as chains have them in kernels."""
        return self._point.scales(betas).astype(np.float32)

    def _cool(self, scales: np.ndarray, ends: np.ndarray, energies: np.ndarray, k: int) -> None:
        """Cool block `k`, some sweeps at a time, until a stop is asked for. Mutates its part of `energies`."""
        step = self._longest_piece() // self.n_units
        for t in range(0, len(scales), step):
            some = scales[t : t + step]
            if self._must_stop(k, self.n_units * len(some)):
                return
            sites, rows = self._rows_of(self.n_swept + t, len(some)), (t < ends) & (ends <= t + step)
            energies[rows, self.blocks[k]] = self._cool_piece(k, sites, some, ends[rows] - t)

    def _cool_piece(self, k: int, sites: np.ndarray, scales: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Cool block `k` as `_cool_block` does; return its energies after the sweeps of `ends`."""
        energies, first = np.empty((len(ends), self.lanes.used(k))), 0
        for row, end in enumerate([*ends.tolist(), len(scales)]):
            if first < end:
                own = sites if len(sites) == 1 else sites[first:end]
                self._flips[k] += self._cool_block(k, own, scales[first:end])
                first = end
            if row < len(ends):
                energies[row] = self._energies_block(k)
        return energies

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        """Do a sweep of block `k` at each of `scales`, rows of `sites` as `_rows_of` has them; return the flips."""
        raise NotImplementedError
