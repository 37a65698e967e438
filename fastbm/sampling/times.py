"""The times at which samples are recorded, in sweeps after the burn-in: evenly spaced, or ten a decade.

Logarithmic times are the whole numbers nearest to 10^(k/10), k = 0, 1, 2, ...: 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, ...
They do not depend on how long a run is, so that a longer run has those of a shorter one.
"""

from __future__ import annotations

from bisect import bisect
from functools import lru_cache
from typing import NamedTuple

import numpy as np

LOG = "log"
A_DECADE = 10
LATEST = 10**18  # which int64 can count to


class EvenTimes(NamedTuple):
    """Every `thin`-th sweep of `n_sweeps`."""

    thin: int
    n_sweeps: int

    @property
    def n(self) -> int:
        """Number of times."""
        return self.n_sweeps // self.thin

    def passed(self, time: int) -> int:
        """Return how many of the times are at `time` or before it."""
        return min(time // self.thin, self.n)

    def between(self, start: int, stop: int, since: int = 0) -> np.ndarray:
        """Return the times from number `start` on, before number `stop`, that much later; int64, a new array."""
        return np.arange(since + self.thin * (start + 1), since + self.thin * stop + 1, self.thin)

    def alike(self, k: int, step: int) -> int:
        """Return how many times follow one another by `step` from number k on, which lies `step` ahead itself."""
        return self.n - k if step == self.thin else 1


class LogTimes(NamedTuple):
    """Ten times a decade, up to `n_sweeps`."""

    n_sweeps: int

    @property
    def n(self) -> int:
        """Number of times."""
        return len(log_times(self.n_sweeps))

    def passed(self, time: int) -> int:
        """Return how many of the times are at `time` or before it."""
        return int(np.searchsorted(log_times(self.n_sweeps), time, side="right"))

    def between(self, start: int, stop: int, since: int = 0) -> np.ndarray:
        """Return the times from number `start` on, before number `stop`, that much later; int64, a new array."""
        return log_times(self.n_sweeps)[start:stop] + since

    def alike(self, k: int, step: int) -> int:
        """Return how many times follow one another by `step` from number k on, which lies `step` ahead itself."""
        other = np.flatnonzero(np.diff(log_times(self.n_sweeps)[k:]) != step)
        return 1 + int(other[0]) if len(other) else self.n - k


def times_of(thin: int | str, n_sweeps: int) -> EvenTimes | LogTimes:
    """Return the times at which a run of `n_sweeps` sweeps records its samples."""
    return LogTimes(n_sweeps) if isinstance(thin, str) else EvenTimes(thin, n_sweeps)


@lru_cache(64)
def log_times(n_sweeps: int) -> np.ndarray:
    """Return the logarithmic times up to `n_sweeps`, increasing int64; not to be written to."""
    found: list[int] = []
    k = 0
    while (time := _nearest(k)) <= min(n_sweeps, LATEST):
        if not found or time > found[-1]:
            found.append(time)
        k += 1
    times = np.array(found, np.int64)
    times.setflags(write=False)
    return times


def _nearest(k: int) -> int:
    """Return the whole number nearest to 10^(k / A_DECADE), in whole numbers, so that it is the same everywhere.

    That is half of floor(2 10^(k / A_DECADE)) + 1, rounded down: no root of a power of ten lies halfway between two.
    """
    power = 2**A_DECADE * 10**k
    twice = bisect(range(1 << (power.bit_length() // A_DECADE + 1)), power, key=lambda m: m**A_DECADE) - 1
    return (twice + 1) // 2
