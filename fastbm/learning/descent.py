"""What drivers that minimise by L-BFGS have in common; an iteration counts as an epoch."""

from __future__ import annotations

import numpy as np

from ..model import BoltzmannMachine
from .lbfgs import Lbfgs, Point
from .moments import Parameters, with_prefix, without_prefix
from .settings import FitSettings


class Descent:
    """Drives L-BFGS an iteration at a time. A driver sets `_lbfgs`, and says what a point means."""

    metric_names: tuple[str, ...]
    _lbfgs: Lbfgs
    parameters: Parameters

    def __init__(self, like: BoltzmannMachine, settings: FitSettings) -> None:
        self._like, self._settings = like, settings
        self.parameters = Parameters.of(like)
        self._path: list[Point] = []
        self._n_done = 0

    @property
    def done(self) -> bool:
        """Whether the optimiser has stopped and all its iterations were reported."""
        return self._lbfgs.done and self._n_done >= len(self._path)

    @property
    def converged(self) -> bool:
        """Whether no entry of the gradient is above the tolerance."""
        return self._lbfgs.converged

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Return the metrics of iteration `number`; none if the optimiser stopped before it."""
        # one iteration ahead, so that the last one is known to be the last
        wanted = min(number + 2, self._settings.epochs)
        while len(self._path) < wanted and not self._lbfgs.done:
            self._path = self._lbfgs.run(min(max(2 * len(self._path), 8), self._settings.epochs))
        self._n_done = min(number + 1, len(self._path))
        if number >= len(self._path):
            return []
        point, value, slope = self._path[number]
        self.parameters = self._parameters(point)
        return [self._metrics(value) | {"gradient": self._lbfgs.size(point, value, slope)}]

    def _parameters(self, point: np.ndarray) -> Parameters:
        raise NotImplementedError

    def _metrics(self, value: float) -> dict[str, float]:
        """What is told of an iteration that came to `parameters` and to `value`."""
        raise NotImplementedError

    def _penalty(self, parameters: Parameters) -> float:
        """l2/2 sum_{i<j} W_ij^2 + l2_bias/2 sum_i b_i^2."""
        pairs = self._like.couplings.to_vector(parameters.weights)
        return 0.5 * self._settings.l2 * float(pairs @ pairs) + 0.5 * self._settings.l2_bias * float(
            parameters.bias @ parameters.bias
        )

    def samples(self) -> np.ndarray | None:
        """There are no chains."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        record = with_prefix("optimizer", self._lbfgs.state())
        return {**self.parameters.to_state(), **record, "n_done": np.array(self._n_done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._lbfgs.restore(without_prefix("optimizer", state))
        self._n_done = int(state["n_done"])
