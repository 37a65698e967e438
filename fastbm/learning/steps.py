"""How parameters move in one epoch by mini-batch steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import rng
from ..model import BoltzmannMachine
from .moments import PhaseMoments, Parameters, gradient, with_prefix, without_prefix
from .monitors import root_mean_square
from .optimizers import OPTIMIZERS
from .phase import SAMPLED, Phase
from .settings import FitSettings

CALL_WORK = 1 << 28  # batch rows times couplings a call: about a tenth of a second, so that a stop is prompt


class Steps:
    """Mini-batches in a new order every epoch; rows that fill no batch sit the epoch out.

    The moment error is the root mean square, over coupled pairs, of <s_i s_j>_clamped - <s_i s_j>_free averaged over an
    epoch.
    """

    converged = False

    def __init__(
        self, like: BoltzmannMachine, up: np.ndarray, settings: FitSettings, clamped: Phase, free: Phase
    ) -> None:
        self._like, self._up, self._settings, self._clamped, self._free = like, up, settings, clamped, free
        self.parameters = Parameters.of(like)
        self._optimizer: Any = OPTIMIZERS[settings.optimizer](
            self.parameters, settings.learning_rate, settings.momentum
        )
        self._whole: PhaseMoments | None = None
        self._dtype = SAMPLED if settings.free in ("gibbs", "contrastive") and like.is_layered else np.float64
        self._n_batches = len(up) // settings.batch_size
        self._batch = 0  # of the present epoch
        self._gap = [np.zeros_like(array) for array in like.couplings.arrays]
        work = settings.batch_size * max(sum(array.size for array in like.couplings.arrays), 1)
        self._batches_a_call = max(1, CALL_WORK // work)

    @property
    def done(self) -> bool:
        """Whether there is nothing left to gain: steps do not know."""
        return False

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do some mini-batches of an epoch; return its row of metrics when it is over, and nothing before."""
        settings = self._settings
        order = rng.keyed(settings.seed, rng.BATCHES, number).permutation(len(self._up))
        for k in range(self._batch, min(self._batch + self._batches_a_call, self._n_batches)):
            model = self.parameters.machine(self._like)
            chosen = order[k * settings.batch_size : (k + 1) * settings.batch_size]
            rows = model.convention.values(self._up[chosen], self._dtype)
            clamped = self._clamped_moments(model, rows)
            free = self._free.moments(model, rows)
            slope = gradient(clamped, free, settings.beta, self.parameters, settings.l2, settings.l2_bias)
            self.parameters = self._optimizer.step(self.parameters, slope)
            for total, c, f in zip(self._gap, clamped.pairs, free.pairs, strict=True):
                total += c - f
            self._batch = k + 1
        if self._batch < self._n_batches:
            return []
        error = root_mean_square(self._like.couplings, self._gap) / self._n_batches
        self._batch = 0
        for total in self._gap:
            total[:] = 0.0
        return [{"moment_error": error}]

    def _clamped_moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        if self._settings.batch_size < len(self._up) or model.n_hidden:
            return self._clamped.moments(model, rows)
        if self._whole is None:  # all rows, nothing hidden: the moments of the data
            self._whole = self._clamped.moments(model, rows)
        return self._whole

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        optimizer = with_prefix("optimizer", self._optimizer.state())
        gap = {f"epoch/gap/{k}": total for k, total in enumerate(self._gap)}
        return {**self.parameters.to_state(), **optimizer, **gap, "epoch/batch": np.array(self._batch)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._optimizer.restore(without_prefix("optimizer", state))
        self._batch = int(state["epoch/batch"])
        self._gap = [np.array(state[f"epoch/gap/{k}"]) for k in range(len(self._gap))]
