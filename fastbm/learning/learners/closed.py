"""Learning by a closed form, as a run of one epoch, and the closed form on resampled rows."""

from __future__ import annotations

import numpy as np

from ...data.rows import Rows
from ...machine.machine import BoltzmannMachine
from ..closed_forms.learn import learn
from ..moments import Parameters
from ..settings import FitSettings
from ..training_set import Sample


class ClosedForm:
    """The learner by a closed form, in one step from the data's moments."""

    metric_names: tuple[str, ...] = ()
    converged = None  # there is no optimum to come to
    verdict = None
    chain_noise = 0.0

    def __init__(self, like: BoltzmannMachine, sample: Sample, settings: FitSettings) -> None:
        self._like, self._sample, self._settings = like, sample, settings
        self.parameters = Parameters.of(like)
        self.done = False

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Learn in the one step of a closed form."""
        s = self._settings
        found, _ = learn(
            self._sample.moments, s.method, beta=s.beta, flip_noise=s.flip_noise, ridge=s.ridge, units=self._like.units
        )
        self.parameters = Parameters.of(found)
        self.done = True
        return [{}]

    def judge(self, number: int) -> None:
        """Do nothing: a formula needs no test."""

    def samples(self) -> np.ndarray | None:
        """Return None: there are no chains."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning."""
        return {**self.parameters.to_state(), "done": np.array(self.done)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.parameters, self.done = Parameters.from_state(state), bool(state["done"])


def learn_resample(like: BoltzmannMachine, up: Rows, weights: np.ndarray | None, settings: FitSettings) -> Parameters:
    """Return the parameters by the formula on resampled rows, infinite where these do not determine them.

    Where a resample holds units still and the formula therefore has no solution, their biases and couplings are
    infinite, and the others are estimated without them. Where there is none then either, everything is infinite. (To
    draw again until there is one would leave out the resamples in which estimates scatter most, and so make the errors
    too small.)
    """
    n = up.n_units
    seen, _ = up.of_weight(weights)
    ups = seen.sums()
    still = (ups == 0) | (ups == len(seen))
    coupled, bias = np.full((n, n), np.inf), np.full(n, np.inf)
    for kept in (np.arange(n), np.flatnonzero(~still)) if still.any() and not still.all() else (np.arange(n),):
        smaller = like.trusted(like.couplings.restrict(kept), like.flat_bias[kept], like.convention, 0, 0.0)
        rows = up if len(kept) == n else Rows.of(up[:][:, kept])
        driver = ClosedForm(smaller, Sample(smaller, rows, weights=weights), settings)
        try:
            driver.epoch(0)
        except ValueError:  # units that are constant, a covariance that is singular, a pair without a solution
            continue
        coupled[np.ix_(kept, kept)], bias[kept] = driver.parameters.weights[0], driver.parameters.bias
        break
    np.fill_diagonal(coupled, 0.0)
    return Parameters((coupled,), bias)
