"""What drivers that minimise by L-BFGS have in common; an iteration counts as an epoch."""

from __future__ import annotations

import numpy as np

from ..model import BoltzmannMachine
from .lbfgs import Lbfgs, Point
from .moments import Parameters, with_prefix, without_prefix
from .settings import FitSettings


class Descent:
    """Drives L-BFGS an iteration at a time. A driver sets `_lbfgs`, and says what a point means.

    Where L-BFGS ends at a point that is no minimum a driver may go on from a lower one (`_lower`), by L-BFGS anew; the
    path is that of all these legs.
    """

    metric_names: tuple[str, ...]
    _lbfgs: Lbfgs
    parameters: Parameters
    verdict = None
    chain_noise = 0.0

    def __init__(self, like: BoltzmannMachine, settings: FitSettings) -> None:
        self._like, self._settings = like, settings
        self.parameters = Parameters.of(like)
        self._legs: list[Lbfgs] = []  # that are over
        self._before: list[Point] = []  # the path of these
        self._path: list[Point] = []  # of the present one
        self._n_done = 0
        self._at_end = False  # nothing lower is known than where the present leg ends
        self._at_minimum = False

    @property
    def done(self) -> bool:
        """Whether the optimiser has stopped and all its iterations were reported."""
        return self._lbfgs.done and self._at_end and self._n_done >= len(self._before) + len(self._path)

    @property
    def converged(self) -> bool:
        """Whether the last iteration that was reported is a minimum: no entry of the gradient is above the tolerance,
        and, where a driver looks at it, no curvature is negative.
        """
        return self._at_minimum

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Return the metrics of iteration `number`; none if the optimiser stopped before it."""
        # one iteration ahead, so that the last one is known to be the last
        wanted = min(number + 2, self._settings.epochs)
        self._go_on(wanted)
        while self._lbfgs.done and not self._at_end and len(self._before) + len(self._path) <= wanted:
            self._end_leg(wanted)
        path = self._before + self._path
        self._n_done = min(number + 1, len(path))
        self._at_minimum = self._lbfgs.converged and self._at_end and self._n_done == len(path)
        if number >= len(path):
            return []
        point, value, slope = path[number]
        self.parameters = self._parameters(point)
        return [self._metrics(value) | {"gradient": self._lbfgs.size(point, value, slope)}]

    def _go_on(self, wanted: int) -> None:
        """Iterations of the present leg, until there are so many `wanted` in all."""
        most = self._settings.epochs - len(self._before)
        while len(self._before) + len(self._path) < wanted and not (self._path and self._lbfgs.done):
            self._path = self._lbfgs.run(min(max(2 * len(self._path), 8), most))

    def _end_leg(self, wanted: int) -> None:
        """Go on from a lower point, if there is one and something is left of the epochs."""
        lower = self._lower(*self._path[-1][:2])
        if lower is None:
            self._at_end = True
        elif len(self._before) + len(self._path) >= self._settings.epochs:
            self._lbfgs.converged, self._at_end = False, True
        else:
            self._legs.append(self._lbfgs)
            self._before += self._path
            self._path = []
            self._lbfgs = self._leg(lower)
            self._go_on(wanted)

    def _lower(self, point: np.ndarray, value: float) -> np.ndarray | None:
        """A lower point than one where the gradient vanishes, or None where nothing is known to be lower."""
        return None

    def _leg(self, start: np.ndarray) -> Lbfgs:
        raise NotImplementedError

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

    def judge(self, number: int) -> None:
        """The gradient has told."""

    def samples(self) -> np.ndarray | None:
        """There are no chains."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        record = with_prefix("optimizer", self._lbfgs.state())
        for k, leg in enumerate(self._legs):
            record |= with_prefix(f"legs/{k}", leg.state())
        counts = {"n_done": np.array(self._n_done), "at_minimum": np.array(self._at_minimum)}
        return {**self.parameters.to_state(), **record, **counts}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters = Parameters.from_state(state)
        self._legs, self._before = [], []
        while leg := without_prefix(f"legs/{len(self._legs)}", state):
            self._legs.append(self._leg(leg["start"]))
            self._legs[-1].restore(leg)
            self._before += self._legs[-1].run(self._settings.epochs)
        if self._legs:
            self._lbfgs = self._leg(state["optimizer/start"])
        self._lbfgs.restore(without_prefix("optimizer", state))
        self._n_done = int(state["n_done"])
        self._at_minimum = bool(state.get("at_minimum", False))
