"""How parameters move in one epoch by mini-batch steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model import BoltzmannMachine
from ..rows import Rows
from .batches import order_of_rows
from .gaps import values_of
from .in_parts import PART_NUMBERS, clamped_moments, parts_of
from .moments import Parameters, PhaseMoments, gradient, with_prefix, without_prefix
from .monitors import root_mean_square
from .noise import MomentNoise
from .offsets import Offsets
from .optimizers import OPTIMIZERS
from .phase import OWN_CHAINS, SAMPLED, Phase
from .sample import Sample
from .schedule import rate
from .settings import FitSettings

NO_ROWS = np.zeros((0, 0))
CALL_WORK = 1 << 28  # batch rows times couplings a call: about a tenth of a second, so that a stop is prompt


class Steps:
    """Mini-batches in a new order every epoch; rows that fill no batch sit the epoch out.

    The moment error is the root mean square, over coupled pairs, of <s_i s_j>_clamped - <s_i s_j>_free averaged over an
    epoch; its noise is told by `fastbm.learning.noise`.
    """

    metric_names = ("moment_error", "moment_noise")
    converged = False

    def __init__(
        self, like: BoltzmannMachine, sample: Sample, settings: FitSettings, clamped: Phase, free: Phase
    ) -> None:
        self._like, self._settings, self._clamped, self.free = like, settings, clamped, free
        self.parameters = Parameters.of(like)
        self._noise = MomentNoise(like, settings.seed, sample.n_rows, own_chains=settings.free in OWN_CHAINS)
        if settings.free in OWN_CHAINS:
            free.noise = self._noise
        self._optimizer: Any = OPTIMIZERS[settings.optimizer](
            self.parameters, settings.learning_rate, settings.momentum
        )
        # all rows, nothing hidden or missing: the clamped phase is the data's moments; no other phase needs the rows
        whole = sample.up is None or (
            settings.batch_size == len(sample.up)
            and not like.n_hidden
            and not sample.has_gaps
            and settings.free != "contrastive"
        )
        self._whole = sample.clamped() if whole else None
        self._weights = sample.weights
        self._up = Rows.of(np.zeros((1, like.n_visible), np.uint8)) if sample.up is None else sample.up
        # a mini-batch of all rows that are too many to be worked on at once
        self._in_parts = (
            self._whole is None
            and settings.batch_size == len(self._up)
            and settings.free != "contrastive"
            and len(self._up) * like.n_units > PART_NUMBERS
        )
        self._offsets: Offsets | None = None
        if settings.centring:
            self._offsets = Offsets(like, sample.mean)
        self._dtype = SAMPLED if settings.free in ("gibbs", "contrastive") and like.is_layered else np.float64
        self._n_batches = len(self._up) // settings.batch_size
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
        last = min(self._batch + self._batches_a_call, self._n_batches)
        order = np.zeros(0, np.int64)
        if self._whole is None and not self._in_parts:
            places = slice(self._batch * settings.batch_size, last * settings.batch_size)
            order = order_of_rows(len(self._up), settings.seed, number, self._weights, places)
        self._optimizer.learning_rate = rate(settings.schedule, settings.learning_rate, number, settings.epochs)
        for k in range(last - self._batch):
            model = self.parameters.machine(self._like)
            rows = NO_ROWS
            if self._in_parts:
                clamped = self._clamped_in_parts(model, number)
            elif self._whole is None:
                chosen = order[k * settings.batch_size : (k + 1) * settings.batch_size]
                rows = values_of(model.convention, self._up, chosen, self._dtype)
                clamped = self._clamped.moments(model, rows)
            else:
                clamped = self._whole
            free = self.free.moments(model, rows)
            slope = gradient(
                clamped, free, settings.beta, self.parameters, settings.l2, settings.l2_bias, self._offsets
            )
            self.parameters = self._optimizer.step(self.parameters, slope)
            if self._offsets is not None:
                self._offsets.follow(clamped.mean[model.n_visible :])
            self._noise.add_clamped(clamped.pairs)
            for total, c, f in zip(self._gap, clamped.pairs, free.pairs, strict=True):
                total += c - f
            self._batch += 1
        if self._batch < self._n_batches:
            return []
        error = root_mean_square(self._like.couplings, self._gap) / self._n_batches
        self._batch = 0
        for total in self._gap:
            total[:] = 0.0
        return [{"moment_error": error, "moment_noise": self._noise.take()}]

    def _clamped_in_parts(self, model: BoltzmannMachine, number: int) -> PhaseMoments:
        """Of all rows in their order; of rows with weights, of as many draws."""
        chosen = None
        if self._weights is not None:
            chosen = order_of_rows(len(self._up), self._settings.seed, number, self._weights, slice(None))
        parts = parts_of(self._up, model.n_units, chosen)
        return clamped_moments(self._clamped, model, self._up, parts, self._dtype)

    def samples(self) -> np.ndarray | None:
        """Packed states of the free chains, where they persist."""
        return self.free.samples()

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        optimizer = with_prefix("optimizer", self._optimizer.state())
        gap = {f"epoch/gap/{k}": total for k, total in enumerate(self._gap)}
        offsets = {} if self._offsets is None else {"offsets": self._offsets.values}
        phases = with_prefix("clamped", self._clamped.state()) | with_prefix("free", self.free.state())
        mine = {**self.parameters.to_state(), **optimizer, **gap, **offsets, "epoch/batch": np.array(self._batch)}
        return mine | phases | with_prefix("noise", self._noise.state())

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._optimizer.restore(without_prefix("optimizer", state))
        if self._offsets is not None:
            self._offsets.values = np.array(state["offsets"])
        self._clamped.restore(without_prefix("clamped", state))
        self.free.restore(without_prefix("free", state))
        self._noise.restore(without_prefix("noise", state))
        self._batch = int(state["epoch/batch"])
        self._gap = [np.array(state[f"epoch/gap/{k}"]) for k in range(len(self._gap))]
