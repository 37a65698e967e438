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
GRANTED = 0.01  # uphill, for each parameter: twice the nats that nobody misses
SMALLEST = 1e-12  # a variance of rounding


class Verdict(NamedTuple):
    """The result of a test of moments: the largest difference, and whether all may be noise.

    `largest_z` is in units of its noise, `number` that of its statistic, or of a combination beyond these; `excess` is
    the mean square of the combinations, or of the differences where there are none, in units of both noises, beyond the
    chains' part, and `uphill` that of the one in the direction in which the likelihood rises most, less what is
    granted.
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
        """Read a verdict from what `to_array` returned, or versions that looked at no direction uphill."""
        excess, uphill = [*array[3:], 0.0][:2]
        return cls(float(array[0]), int(array[1]), bool(array[2]), float(excess), float(uphill))


class MomentTest:
    """The test of moments, by those of both phases, call by call.

    Parameters
    ----------
    statistics : Statistics
    n_rows : int or None
        Rows of equal weight behind the data; None where their moments are exact.
    combined : callable, optional
        Returns combinations of the differences of moments, which it is given; the noise of one row gives each of them a
        variance of about 1.
    uphill : callable, optional
        Returns the direction in which the likelihood still rises most, from differences of moments; their sum along it
        has a variance of about 1 a row too. It needs `combined`.
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
        self._sums = np.zeros((2, 0))  # of gaps of stretches and of their combinations, and of the squares of these
        self._way, self._climbs = np.zeros(0), np.zeros(0)  # uphill, and how far later stretches lead there

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
        row = self._gap
        if self._combined is not None:
            row = np.append(row, self._combined(self._statistics.parameters(row)))
        self._sums = np.stack([row, row**2]) + (self._sums if self._sums.size else 0.0)
        if self._way.size:
            self._climbs = np.append(self._climbs, self._gap @ self._way)
        elif self._uphill is not None and self._n_calls + 1 == FORGOTTEN + STRETCHES // 2 * CALLS:
            half = self._sums[0, : len(self._gap)] / (STRETCHES // 2)
            self._way = self._statistics.vector(self._uphill(self._statistics.parameters(half)))
        self._gap[:] = 0.0

    def verdict(self, pull: Parameters) -> Verdict:
        """Return the verdict on the calls so far; at the maximum clamped less free moments are `pull`."""
        n, of_data = len(self._statistics), self._of_data(self._clamped)
        at_maximum = self._statistics.vector(pull)
        up = self._climbs - (at_maximum @ self._way if self._way.size else 0.0)
        if self._combined is not None:
            at_maximum = np.append(at_maximum, self._combined(pull))
        gap = self._sums[0] / STRETCHES
        of_chains = np.maximum(self._sums[1] / STRETCHES - gap**2, 0.0) / (STRETCHES - 1)
        z, p, excess = _judged(gap - at_maximum, of_chains, of_data, STRETCHES)
        p *= len(p)
        alone = float(np.mean(excess[n:] if self._combined is not None else excess))
        climb = 0.0
        if up.size:  # at a level of its own, however many others there are
            last = _judged(up.mean(keepdims=True), up.var(ddof=1, keepdims=True) / up.size, of_data[-1:], up.size)
            climb = float(last[2][0]) - GRANTED * n
            z, p = np.append(z, last[0]), np.append(p, last[1] if climb > MOST_UPHILL else 1.0)
        worst = int(np.argmin(p))
        return Verdict(abs(float(z[worst])), worst, bool(p[worst] >= LEAST_P), alone, climb)

    def _of_data(self, clamped: np.ndarray) -> np.ndarray:
        """Return variances of the data's moments, as if there were a row more whose statistics are half up."""
        n_more = self._sums.shape[1] - len(clamped)
        if self._n_rows is None:
            return np.zeros(len(clamped) + n_more)
        low, high = self._statistics.range
        part = (clamped - low) / (high - low)
        part = (np.clip(part, 0.0, 1.0) * self._n_rows + 0.5) / (self._n_rows + 1.0)
        of_moments = (high - low) ** 2 * part * (1.0 - part) / self._n_rows
        return np.append(of_moments, np.full(n_more, 1.0 / self._n_rows))

    def state(self) -> dict[str, np.ndarray]:
        """Return what the calls so far came to."""
        ways = {"way": self._way, "climbs": self._climbs}
        return {
            "n_calls": np.array(self._n_calls), "clamped": self._clamped, "gap": self._gap, "sums": self._sums, **ways
        }  # fmt: skip

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned; the test begins anew from what versions without combinations kept."""
        if "way" not in state:
            return
        self._n_calls = int(state["n_calls"])
        self._clamped, self._gap, self._sums = (np.array(state[name]) for name in ("clamped", "gap", "sums"))
        self._way, self._climbs = np.array(state["way"]), np.array(state["climbs"])


def _judged(
    gap: np.ndarray, of_chains: np.ndarray, of_data: np.ndarray, n_stretches: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return z, p, and z^2 beyond the chains' part, of gaps with variances of chains and of data."""
    both = of_chains + of_data + SMALLEST
    z = gap / np.sqrt(both)
    freedom = (n_stretches - 1) * (both / np.maximum(of_chains, SMALLEST)) ** 2
    return z, 2.0 * stdtr(freedom, -np.abs(z)), z**2 - of_chains / both
