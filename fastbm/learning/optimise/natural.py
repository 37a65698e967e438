"""Natural gradient ascent with gains that fall once the gradient is mostly noise.

The metric is the data's Fisher information (`fastbm.learning.optimise.coordinates`); that of Gaussian units, where
there are too many parameters; and that of independent units with the data's means (`fastbm.learning.optimise.centring`)
where units are hidden, or where few of too many pairs are coupled. At the maximum it makes all directions about equally
steep, so that gains 1/t average sampling noise as well as any estimate can. A gain falls only where a gradient turns
against the one before, which it seldom does on the way and half of the time at the end. No step is longer than
`LONGEST`: half its square is about the divergence of the machine after it from the one before.

Amari, Neural Comput. 10, 251 (1998), doi:10.1162/089976698300017746; Kesten, Ann. Math. Stat. 29, 41 (1958),
doi:10.1214/aoms/1177706705; Delyon and Juditsky, SIAM J. Optim. 3, 868 (1993), doi:10.1137/0803045.
"""

from __future__ import annotations

import numpy as np

from ...machine.machine import BoltzmannMachine
from ..moments import Parameters
from ..settings import FitSettings, of_log_odds
from ..training_set import Sample
from .centring import Centring
from .coordinates import Plain, whitened
from .rotation import gaussian

LONGEST = 0.3
TURNS = 5.0  # after so many turns the gain is half of what it was
TURNS_HIDDEN = 50.0  # near the saddle where hidden units start, gradients are noise before there is a way to go


class Metric:
    """The coordinates in which the curvature of the mean log-likelihood of a row is about the unit matrix.

    Attributes
    ----------
    size : int
        The number of coordinates.
    """

    def __init__(self, sample: Sample, settings: FitSettings, threads: int) -> None:
        self._centring = centring = Centring(sample.like, sample.mean, sample.spread, settings.beta)
        settings = of_log_odds(settings)
        self._coordinates = Plain(centring.scale.size)
        if not sample.like.n_hidden:
            found = whitened(sample.like, sample, settings, centring)
            self._coordinates = found or gaussian(sample, settings, centring, threads) or self._coordinates
        self.size = self._coordinates.size

    def slope(self, gradient: Parameters) -> np.ndarray:
        """Return the gradient by the coordinates."""
        return self._coordinates.slope(self._centring.slope(gradient))

    def step(self, vector: np.ndarray) -> Parameters:
        """Return the change of the parameters that a change of the coordinates is."""
        return self._centring.parameters(self._coordinates.back(vector))


class Natural:
    """Steps in coordinates in which the metric is the unit matrix; `learning_rate` is the first gain."""

    def __init__(self, like: BoltzmannMachine, metric: Metric, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self._metric = metric
        self._turns = TURNS_HIDDEN if like.n_hidden else TURNS
        self._before, self._n_turns = np.zeros(metric.size), 0

    def step(self, parameters: Parameters, gradient: Parameters) -> Parameters:
        """Return the parameters after one step."""
        slope = self._metric.slope(gradient)
        self._n_turns += int(slope @ self._before < 0.0)
        self._before = slope
        step = self.learning_rate / (1.0 + self._n_turns / self._turns) * slope
        step *= min(1.0, LONGEST / max(float(np.linalg.norm(step)), LONGEST))
        moved = self._metric.step(step)
        return Parameters.from_arrays(tuple(a + d for a, d in zip(parameters.arrays, moved.arrays, strict=True)))

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the steps."""
        return {"before": self._before, "n_turns": np.array(self._n_turns)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_turns = int(state["n_turns"])
        if state["before"].size == self._before.size:  # else of a version with other coordinates
            self._before = np.array(state["before"])
