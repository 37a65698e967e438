"""How parameters move in one epoch by mini-batch steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import rng
from ..model import BoltzmannMachine
from .moments import Moments, Parameters, gradient, with_prefix, without_prefix
from .monitors import moment_error
from .optimizers import OPTIMIZERS
from .phase import Phase
from .settings import FitSettings


class Steps:
    """Mini-batches in a new order every epoch; rows that fill no batch sit the epoch out."""

    converged = False

    def __init__(
        self, like: BoltzmannMachine, up: np.ndarray, settings: FitSettings, clamped: Phase, free: Phase
    ) -> None:
        self._like, self._up, self._settings, self._clamped, self._free = like, up, settings, clamped, free
        self.parameters = Parameters.of(like)
        self._optimizer: Any = OPTIMIZERS[settings.optimizer](
            self.parameters, settings.learning_rate, settings.momentum
        )
        self._whole: Moments | None = None

    @property
    def done(self) -> bool:
        """Whether there is nothing left to gain: steps do not know."""
        return False

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Go through the data once; return one row of metrics."""
        settings, n_rows = self._settings, len(self._up)
        order = rng.keyed(settings.seed, rng.BATCHES, number).permutation(n_rows)
        n_batches = n_rows // settings.batch_size
        clamped_sum: list[np.ndarray] = []
        free_sum: list[np.ndarray] = []
        for k in range(n_batches):
            model = self.parameters.machine(self._like)
            chosen = order[k * settings.batch_size : (k + 1) * settings.batch_size]
            rows = model.convention.values(self._up[chosen], np.float64)
            clamped = self._clamped_moments(model, rows, n_batches)
            free = self._free.moments(model, rows)
            slope = gradient(clamped, free, settings.beta, self.parameters, settings.l2, settings.l2_bias)
            self.parameters = self._optimizer.step(self.parameters, slope)
            for total, found in ((clamped_sum, clamped), (free_sum, free)):
                parts = (found.mean, *found.pairs)
                total[:] = [a + b for a, b in zip(total, parts, strict=True)] if total else [p.copy() for p in parts]
        averages = [Moments(t[0] / n_batches, tuple(p / n_batches for p in t[1:])) for t in (clamped_sum, free_sum)]
        return [{"moment_error": moment_error(*averages)}]

    def _clamped_moments(self, model: BoltzmannMachine, rows: np.ndarray, n_batches: int) -> Moments:
        if n_batches > 1 or model.n_hidden:
            return self._clamped.moments(model, rows)
        if self._whole is None:  # all rows, nothing hidden: the moments of the data
            self._whole = self._clamped.moments(model, rows)
        return self._whole

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        return {**self.parameters.to_state(), **with_prefix("optimizer", self._optimizer.state())}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._optimizer.restore(without_prefix("optimizer", state))
