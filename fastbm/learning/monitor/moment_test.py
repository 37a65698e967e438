"""A test of whether a machine's moments are the data's, pair by pair and unit by unit, given the noise of both.

Parameters rest while chains go on. Averages over 16 successive stretches tell the noise of the machine's moments, the
binomial variance that of the data's. Each difference, less what a penalty pulls at the maximum, is judged by Student's
distribution, with as many degrees of freedom as both noises together have (Welch, Biometrika 34, 28 (1947),
doi:10.1093/biomet/34.1-2.28), and the largest by Bonferroni's bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr

from ..errors.statistics import Statistics
from ..moments import Parameters, PhaseMoments

STRETCHES = 16
CALLS = 4  # of the phases, a stretch
FORGOTTEN = 8  # calls before the first, in which chains come to rest
N_CALLS = FORGOTTEN + STRETCHES * CALLS  # of a whole test
LEAST_P = 0.01  # of all differences together
MOST_EXCESS = 0.3
SMALLEST = 1e-12  # a variance of rounding


class Verdict(NamedTuple):
    """The result of a test of moments: the largest difference, and whether all may be noise.

    `largest_z` is in units of its noise, `number` that of its statistic; `excess` is the mean square of the
    differences, in units of both noises, beyond the chains' part.
    """

    largest_z: float
    number: int
    passed: bool
    excess: float

    @property
    def settled(self) -> bool:
        """Whether more steps would gain little that the data could distinguish from noise."""
        return self.passed and self.excess <= MOST_EXCESS

    def to_array(self) -> np.ndarray:
        """Return the verdict as an array, for a run's state."""
        return np.array(self, np.float64)

    @classmethod
    def from_array(cls, array: np.ndarray) -> Verdict:
        """Read a verdict from what `to_array` returned."""
        return cls(float(array[0]), int(array[1]), bool(array[2]), float(array[3]))


class MomentTest:
    """The test of moments, by those of both phases, call by call.

    Parameters
    ----------
    statistics : Statistics
    n_rows : int or None
        Rows of equal weight behind the data; None where their moments are exact.
    """

    def __init__(self, statistics: Statistics, n_rows: int | None) -> None:
        self._statistics, self._n_rows = statistics, n_rows
        self.begin()

    def begin(self) -> None:
        """Drop all calls, to begin another test."""
        self._n_calls = 0
        self._sums = np.zeros((4, 0))  # of the clamped phase; of gaps: the present stretch, all, and their squares

    @property
    def full(self) -> bool:
        """Whether there are calls enough for a verdict."""
        return self._n_calls == N_CALLS

    def add(self, clamped: PhaseMoments, free: PhaseMoments) -> None:
        """Add the moments of both phases at the same parameters."""
        if self._n_calls >= FORGOTTEN:
            ours, theirs = self._vector(clamped), self._vector(free)
            if not self._sums.size:
                self._sums = np.zeros((4, len(ours)))
            self._sums[0] += ours
            self._sums[1] += (ours - theirs) / CALLS
            if (self._n_calls - FORGOTTEN + 1) % CALLS == 0:
                self._sums[2] += self._sums[1]
                self._sums[3] += self._sums[1] ** 2
                self._sums[1] = 0.0
        self._n_calls += 1

    def _vector(self, moments: PhaseMoments) -> np.ndarray:
        return self._statistics.vector(Parameters(moments.pairs, moments.mean))

    def verdict(self, pull: Parameters) -> Verdict:
        """Return the verdict on the calls so far; at the maximum clamped less free moments are `pull`."""
        gap = self._sums[2] / STRETCHES
        of_chains = np.maximum(self._sums[3] / STRETCHES - gap**2, 0.0) / (STRETCHES - 1)
        gap = gap - self._statistics.vector(pull)
        both = of_chains + self._of_data(self._sums[0] / (STRETCHES * CALLS)) + SMALLEST
        z = gap / np.sqrt(both)
        freedom = (STRETCHES - 1) * (both / np.maximum(of_chains, SMALLEST)) ** 2
        p = 2.0 * stdtr(freedom, -np.abs(z))
        worst = int(np.argmin(p))
        passed = bool(p[worst] * len(p) >= LEAST_P)
        return Verdict(abs(float(z[worst])), worst, passed, float(np.mean(z**2 - of_chains / both)))

    def _of_data(self, clamped: np.ndarray) -> np.ndarray:
        """Return variances of the data's moments, as if there were a row more whose statistics are half up."""
        if self._n_rows is None:
            return np.zeros(len(clamped))
        low, high = self._statistics.range
        part = (clamped - low) / (high - low)
        part = (np.clip(part, 0.0, 1.0) * self._n_rows + 0.5) / (self._n_rows + 1.0)
        return np.asarray((high - low) ** 2 * part * (1.0 - part) / self._n_rows)

    def state(self) -> dict[str, np.ndarray]:
        """Return the sums over the calls so far."""
        return {"n_calls": np.array(self._n_calls), "sums": self._sums}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_calls = int(state["n_calls"])
        self._sums = np.array(state["sums"])
