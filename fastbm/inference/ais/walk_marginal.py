"""Walks on layered machines, one side summed out and the units of the other drawn one after the other.

A sweep takes several times as long as one of `LayersWalk`, and is far better at leaving a mode: no summed unit holds
the kept ones where they are. Rounding costs no bias: the last step leads from the numbers of the kernel to the machine.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ..._base import rng
from ...kernels.inference.marginal import follow_marginal
from ...machine.machine import BoltzmannMachine
from ..scout.marginal import LANES, PAIR_SECONDS, Marginal
from .walk import Walk


class MarginalWalk(Walk):
    """Chains of the smaller side of a layered machine; see `fastbm.kernels.inference.marginal.follow_marginal`."""

    most_chains = LANES

    def __init__(
        self, model: BoltzmannMachine, beta: float, base: np.ndarray, streams: np.ndarray, threads: int
    ) -> None:
        super().__init__(model, beta, base, streams, threads)
        self._machine = Marginal.of(model, beta)
        self._numbers = self._machine.arrays(self.base)
        kind, (m, n) = self._numbers[0].dtype, self._numbers[0].shape
        self._up, self._fields = self.lanes.room(m, np.uint8), self.lanes.room(n, kind)
        self._sums, self._totals = ([row[0] for row in self.lanes.room(1, np.float64)] for _ in range(2))
        self._seed = int(streams[0, 0])
        self.step_seconds = PAIR_SECONDS * max(self.lanes.widths) * m * n
        self.detail = {"kernel": "marginal", "fields": kind.name}

    def begin(self) -> None:
        """Draw the kept units of all chains from f_0, with weights 1."""
        p = expit(self.base[self._machine.kept])
        uniform = rng.keyed(self._seed, rng.INITIAL).random((self.n_chains, len(p)))
        self._set((uniform < p).astype(np.uint8), 0.0)

    def load(self, up: np.ndarray) -> None:
        """Take the kept units of states (n_chains, n_units) of 0 and 1, drawn from f."""
        self._set(up[:, self._machine.kept], 1.0)
        self._correct(-1.0)

    def finish(self) -> None:
        """Turn the weights, at the upper end of the path, into those of the machine as the user gave it."""
        self._correct(1.0)

    def _set(self, kept: np.ndarray, t: float) -> None:
        """Take states of the kept units, with weights 1, to step `t` of the path."""
        for k in self.mine:
            self.lanes.write(k, self._up[k], kept[self.lanes.blocks[k]])
            self._follow_block(k, np.array([t]))
            self._totals[k][:] = 0.0

    def _correct(self, sign: float) -> None:
        """Step between the numbers of the kernel and the machine, all constants included."""
        for k in self.mine:
            kept = self._up[k].T
            self._totals[k] += sign * (self._machine.log_f(kept) - self._sums[k] - kept @ self._numbers[2][1])

    def _follow_block(self, k: int, path: np.ndarray) -> None:
        lanes = self._up[k].shape[1]
        level, ends, none = np.zeros(lanes, np.int64), np.zeros(lanes, np.uint8), np.empty((4, 0), np.uint32)
        follow_marginal(
            self._up[k], self._fields[k], self._sums[k], self._totals[k], self._numbers, np.array(path), level, ends,
            self.lanes.streams[k], none, np.empty((0, 0), np.uint8), len(path) - 1, 0,
        )  # fmt: skip

    def _log_weights(self) -> list[np.ndarray]:
        return self._totals

    def bits(self) -> np.ndarray:
        """Return the chains' states, (n_chains, n_units) uint8, the summed units drawn given the others."""
        return self._machine.complete(self.lanes.gather(self._up), rng.keyed(self._seed, rng.RESAMPLING))
