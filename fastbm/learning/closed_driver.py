"""A closed form as a run of one epoch."""

from __future__ import annotations

import numpy as np

from ..model import BoltzmannMachine
from .closed_forms import learn
from .moments import Parameters
from .sample import Sample
from .settings import FitSettings


class ClosedForm:
    """Learns in one step from the data's moments."""

    metric_names: tuple[str, ...] = ()
    converged = True

    def __init__(self, like: BoltzmannMachine, sample: Sample, settings: FitSettings) -> None:
        self._like, self._sample, self._settings = like, sample, settings
        self.parameters = Parameters.of(like)
        self.done = False

    def epoch(self, number: int) -> list[dict[str, float]]:
        """The one step."""
        s = self._settings
        found, _ = learn(
            self._sample.moments, s.method, beta=s.beta, flip_noise=s.flip_noise, ridge=s.ridge, units=self._like.units
        )
        self.parameters = Parameters.of(found)
        self.done = True
        return [{}]

    def samples(self) -> np.ndarray | None:
        """There are no chains."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on."""
        return {**self.parameters.to_state(), "done": np.array(self.done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self.parameters, self.done = Parameters.from_state(state), bool(state["done"])
