"""A test of whether a machine's moments are the data's, pair by pair and unit by unit, given the noise of both.

Parameters rest while chains go on. Averages over 16 successive stretches tell the noise of the machine's moments, the
binomial variance that of the data's. Each difference, less what a penalty pulls at the maximum, is judged by Student's
distribution, with as many degrees of freedom as both noises together have (Welch, Biometrika 34, 28 (1947),
doi:10.1093/biomet/34.1-2.28), and the largest by Bonferroni's bound.

Moments one by one hardly tell where parameters stop short of the maximum in directions along which these moments vary
little. So combinations of them are judged as well: along the coordinates of
`fastbm.learning.optimise.natural.Metric`, and in the direction in which the first half of the stretches says that the
likelihood still rises most, in the second half.
"""

from __future__ import annotations

from collections.abc import Callable
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
MOST_EXCESS, MOST_UPHILL = 0.3, 4.0
SMALLEST = 1e-12  # a variance of rounding


class Verdict(NamedTuple):
    """The result of a test of moments: the largest difference, and whether all may be noise.

    `largest_z` is in units of its noise, `number` that of its statistic, or of a combination beyond these; `excess` is
    the mean square of the differences, in units of both noises, beyond the chains' part, and `uphill` that of the one
    in the direction in which the likelihood rises most.
    """

    largest_z: float
    number: int
    passed: bool
    excess: float
    uphill: float

    @property
    def settled(self) -> bool:
        """Whether more steps would gain little that the data could distinguish from noise."""
        return self.passed and self.excess <= MOST_EXCESS and self.uphill <= MOST_UPHILL

    def to_array(self) -> np.ndarray:
        """Return the verdict as an array, for a run's state."""
        return np.array(self, np.float64)

    @classmethod
    def from_array(cls, array: np.ndarray) -> Verdict:
        """Read a verdict from what `to_array` returned."""
        return cls(float(array[0]), int(array[1]), bool(array[2]), float(array[3]), float(array[4]))


class MomentTest:
    """The test of moments, by those of both phases, call by call.

    Parameters
    ----------
    statistics : Statistics
    n_rows : int or None
        Rows of equal weight behind the data; None where their moments are exact.
    combined, uphill : callable, optional
        Return, of differences of moments, combinations whose variance is about 1 of a row, and the direction of another
        such one. Both or none.
    """

    def __init__(
        self,
        statistics: Statistics,
        n_rows: int | None,
        combined: Callable[[Parameters], np.ndarray] | None = None,
        uphill: Callable[[Parameters], Parameters] | None = None,
    ) -> None:
        self._statistics, self._n_rows, self._combined, self._uphill = statistics, n_rows, combined, uphill
        self.begin()

    def begin(self) -> None:
        """Drop all calls, to begin another test."""
        self._n_calls = 0
        self._clamped, self._gap = np.zeros((2, len(self._statistics)))  # sums over calls: all, and of this stretch
        self._stretches = np.zeros((0, 0))  # gaps of stretches, and their combinations
        self._way = np.zeros(0)  # uphill

    @property
    def full(self) -> bool:
        """Whether there are calls enough for a verdict."""
        return self._n_calls == N_CALLS

    def add(self, clamped: PhaseMoments, free: PhaseMoments) -> None:
        """Add the moments of both phases at the same parameters."""
        if self._n_calls >= FORGOTTEN:
            ours, theirs = (self._statistics.vector(Parameters(one.pairs, one.mean)) for one in (clamped, free))
            self._clamped += ours / (STRETCHES * CALLS)
            self._gap += (ours - theirs) / CALLS
            if (self._n_calls - FORGOTTEN + 1) % CALLS == 0:
                self._end_stretch()
        self._n_calls += 1

    def _end_stretch(self) -> None:
        n = len(self._statistics)
        gap = self._statistics.parameters(self._gap)
        row = self._gap if self._combined is None else np.append(self._gap, self._combined(gap))
        self._stretches = np.vstack([self._stretches.reshape(-1, len(row)), row])
        if self._uphill is not None and len(self._stretches) == STRETCHES // 2:
            half = self._statistics.parameters(self._stretches[:, :n].mean(axis=0))
            self._way = self._statistics.vector(self._uphill(half))
        self._gap[:] = 0.0

    def verdict(self, pull: Parameters) -> Verdict:
        """Return the verdict on the calls so far; at the maximum clamped less free moments are `pull`."""
        n, of_data = len(self._statistics), self._of_data(self._clamped)
        at_maximum = self._statistics.vector(pull)
        if self._combined is not None:
            at_maximum = np.append(at_maximum, self._combined(pull))
        judged = [_judged(self._stretches - at_maximum, of_data)]
        if self._way.size:
            later = self._stretches[STRETCHES // 2 :, :n] - at_maximum[:n]
            judged.append(_judged((later @ self._way)[:, None], of_data[-1:]))
        z, p, excess = (np.concatenate([one[k] for one in judged]) for k in range(3))
        worst = int(np.argmin(p))
        passed = bool(p[worst] * len(p) >= LEAST_P)
        uphill = float(excess[-1]) if self._way.size else 0.0
        alone = slice(n, -1) if self._way.size else slice(n)
        return Verdict(abs(float(z[worst])), worst, passed, float(np.mean(excess[alone])), uphill)

    def _of_data(self, clamped: np.ndarray) -> np.ndarray:
        """Return variances of the data's moments, as if there were a row more whose statistics are half up."""
        n_more = self._stretches.shape[1] - len(clamped)
        if self._n_rows is None:
            return np.zeros(len(clamped) + n_more)
        low, high = self._statistics.range
        part = (clamped - low) / (high - low)
        part = (np.clip(part, 0.0, 1.0) * self._n_rows + 0.5) / (self._n_rows + 1.0)
        of_moments = (high - low) ** 2 * part * (1.0 - part) / self._n_rows
        return np.append(of_moments, np.full(n_more, 1.0 / self._n_rows))

    def state(self) -> dict[str, np.ndarray]:
        """Return what the calls so far came to."""
        found = {"clamped": self._clamped, "gap": self._gap, "stretches": self._stretches, "way": self._way}
        return {"n_calls": np.array(self._n_calls), **found}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._n_calls = int(state["n_calls"])
        self._clamped, self._gap = np.array(state["clamped"]), np.array(state["gap"])
        self._stretches, self._way = np.array(state["stretches"]), np.array(state["way"])


def _judged(gaps: np.ndarray, of_data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return z, p, and z^2 beyond the chains' part, of gaps that vary between stretches, one a row."""
    n, gap = len(gaps), gaps.mean(axis=0)
    of_chains = gaps.var(axis=0, ddof=1) / n
    both = of_chains + of_data + SMALLEST
    z = gap / np.sqrt(both)
    freedom = (n - 1) * (both / np.maximum(of_chains, SMALLEST)) ** 2
    return z, 2.0 * stdtr(freedom, -np.abs(z)), z**2 - of_chains / both
