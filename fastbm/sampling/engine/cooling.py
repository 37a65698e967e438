"""Chains that are cooled: every sweep has a temperature of its own, all chains the same."""

from __future__ import annotations

import numpy as np

from .engine import Engine
from .fixed_point import FixedPoint


def cool(engine: Engine, betas: np.ndarray) -> None:
    """Do a sweep at each of `betas` (n_sweeps,), none above the engine's `highest_beta`; all lanes are alike."""
    if isinstance(engine, CoolingChains) and engine.cools:
        engine.cool(betas)
        return
    ends = np.append(np.flatnonzero(np.diff(betas)) + 1, len(betas))
    first = 0
    for end in ends.tolist():
        if (engine.beta != betas[first]).any():
            engine.set_beta(np.full(engine.n_chains, betas[first]))
        engine.sweep(end - first)
        first = end


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

    def cool(self, betas: np.ndarray) -> None:
        """Do a sweep at each of `betas` (n_sweeps,), none above `highest_beta`."""
        self._prepare()
        self._since_check = [0] * len(self.blocks)
        scales = self._point.scales(betas).astype(np.float32)
        self._for_blocks(lambda k: self._cool(k, scales), len(betas))
        self.n_swept += len(betas)
        self.beta = np.full(self.n_chains, betas[-1])

    def _cool(self, k: int, scales: np.ndarray) -> None:
        """Cool block `k`, some sweeps at a time, until a stop is asked for."""
        step = self._longest_piece() // self.n_units
        for t in range(0, len(scales), step):
            some = scales[t : t + step]
            if self._must_stop(k, self.n_units * len(some)):
                return
            self._flips[k] += self._cool_block(k, self._rows_of(self.n_swept + t, len(some)), some)

    def _cool_block(self, k: int, sites: np.ndarray, scales: np.ndarray) -> int:
        """Do a sweep of block `k` at each of `scales`, rows of `sites` as `_rows_of` has them; return the flips."""
        raise NotImplementedError
