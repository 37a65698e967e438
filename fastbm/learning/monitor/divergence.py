"""Divergence of learning: a machine that is worse than independent units, or than it was itself.

A rate that is too high leaves parameters finite, as moments are bounded, but large and wrong. So the likelihood, or
pseudo-likelihood, that monitors look at is held against that of the independent machine with the data's means, which is
where learning starts or nearly so; likelihoods that are exact also against the best there was, of which contrastive
divergence may give back all that was gained: Fischer and Igel, in ICANN (2010), p. 208,
doi:10.1007/978-3-642-15825-4_26. Rules that never look at the machine's own states, and formulas, may end at machines
that prefer states unlike any row, though each unit is as likely as can be given the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.special import entr

from ...machine.machine import BoltzmannMachine
from ..minibatches import distinct
from ..moments import Parameters, with_prefix, without_prefix
from ..settings import FitSettings
from ..training_set import Sample, means_of_known, smoothed_means
from .metrics import Monitors

FEWEST_STEPS = 10  # before which little is said: one that is long may be wanted
MARGIN, MORE = 0.05, 100.0  # of a visible unit's one bit; and times as much after fewer steps
GIVEN_BACK = 0.5  # part of what was gained
UNTOUCHED = 0.1  # part of what can be gained, below which hidden units do nothing
NOTHING = 0.005  # of a visible unit's one bit: what hidden units gain that do nothing
LIKELIHOODS = ("log_likelihood", "pseudo_likelihood")  # the first that there is


class Watch:
    """The likelihoods along learning, the first at its start, and the parameters of the best of them."""

    def __init__(self, start: BoltzmannMachine, sample: Sample, beta: float, monitors: Monitors) -> None:
        self._name = next((name for name in LIKELIHOODS if name in monitors.names), None)
        self._best, self._last = -np.inf, np.nan
        self.kept: Parameters | None = None
        self._sample, self.independent = sample, np.nan
        if self._name is not None:
            self.independent = monitors(independent(start, sample, beta))[self._name]
            self.update(monitors(start), Parameters.of(start))
        self.n_steps = 0
        self._margin = _margin(start.n_visible)

    def count(self, n_steps: int) -> None:
        """Add a number of steps that learning has taken."""
        self.n_steps += n_steps

    def update(self, metrics: Mapping[str, float], parameters: Parameters) -> None:
        """Compare a row of metrics with the best, and keep its parameters where they are better."""
        if self._name is None or self._name not in metrics:
            return
        self._last = metrics[self._name]
        if not self._last <= self._best:
            self._best, self.kept = self._last, parameters

    @property
    def diverged(self) -> bool:
        """Whether the last likelihood is below that of nothing learned, or half of what was gained is lost."""
        if self._name is None or np.isnan(self._last) or self.n_steps < FEWEST_STEPS:
            return False
        least = self.independent - self._margin
        if self._name == "log_likelihood":
            lost = max(GIVEN_BACK * (self._best - self.independent), self._margin)
            least = max(least, self._best - lost)
        return bool(self._last < least)

    @property
    def idle(self) -> bool:
        """Whether rows are no likelier than under independent units, as at the saddle where hidden units start.

        What counts as nothing is a part of a bit, and of what can be gained where that is known.
        """
        nothing = self._margin * NOTHING / MARGIN
        if self._last >= self.independent + nothing:
            return False
        return bool(self._last < self.independent + min(nothing, UNTOUCHED * max(self._to_gain, 0.0)))

    @property
    def _to_gain(self) -> float:
        """What the rows' own distribution has beyond independent units: minus its entropy is the most there can be."""
        if self._name != "log_likelihood" or self._sample.up is None or self._sample.has_gaps:
            return np.inf
        rows, shares = distinct(self._sample.up, self._sample.weights)
        most = -np.log(len(rows)) if shares is None else float(shares @ np.log(shares))
        return most - self.independent

    @property
    def worst(self) -> tuple[float, float]:
        """The last likelihood, and the best of all."""
        return self._last, self._best

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the watch."""
        found = {"best": np.array(self._best), "last": np.array(self._last), "n_steps": np.array(self.n_steps)}
        return found if self.kept is None else found | with_prefix("kept", self.kept.to_state())

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._best, self._last = float(state["best"]), float(state["last"])
        self.n_steps = int(state["n_steps"])
        kept = without_prefix("kept", state)
        self.kept = Parameters.from_state(kept) if kept else None


def independent(like: BoltzmannMachine, sample: Sample, beta: float) -> BoltzmannMachine:
    """Return `like` without couplings, its visible units with the data's means."""
    units, n_rows = like.convention, sample.n_rows or 10**9
    if sample.up is not None:
        p = smoothed_means(sample.up, sample.weights)
    else:
        p = (_means(sample) * n_rows + 0.5) / (n_rows + 1.0)
    bias = np.zeros(like.n_units)
    bias[: like.n_visible] = np.log(p / (1.0 - p)) / (beta * units.span)
    return Parameters(tuple(np.zeros_like(array) for array in like.couplings.arrays), bias).machine(like)


def independent_likelihood(sample: Sample) -> float:
    """Return the mean log-likelihood of what is known of the rows under independent units with their means, nats."""
    if sample.up is None:
        p = _means(sample)
        return -float(entr([p, 1.0 - p]).sum())
    p, counts = means_of_known(sample.up, sample.weights), sample.up.known_counts(sample.weights)
    known = counts / (len(sample.up) if sample.weights is None else sample.weights.sum())
    return -float((known * entr([p, 1.0 - p])).sum())


def lack(likelihood: float, start: BoltzmannMachine, sample: Sample, settings: FitSettings, n_steps: int) -> float:
    """Return the mean log-likelihood of the rows under independent units where it is far above `likelihood`, else nan.

    Excused are a part of a bit a unit, what a penalty of the biases may take, and more after few steps.
    """
    alone = independent_likelihood(sample)
    bias = independent(start, sample, settings.beta).flat_bias
    excused = _margin(start.n_visible) + 0.5 * settings.l2_bias * float(bias @ bias)
    return alone if likelihood < alone - excused * (1.0 if n_steps >= FEWEST_STEPS else MORE) else np.nan


def _margin(n_visible: int) -> float:
    """Return the nats below independent units that can be excused."""
    return float(MARGIN * np.log(2.0) * n_visible)


def _means(sample: Sample) -> np.ndarray:
    """Return the part of the rows in which each visible unit is up, where data are moments."""
    units = sample.like.convention
    found: np.ndarray = (sample.mean - units.lo) / units.span
    return found
