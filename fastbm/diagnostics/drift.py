"""Whether chains drift together: the first part of a run has the same mean as the rest, within its error.

Chains that relax side by side agree with one another at any time, and R-hat hardly sees that all of them move.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from .._base.arrays import near_one
from .autocorrelation import MANY_CHAINS, finite, shaped, standard_error

FALSE_ALARM = 1e-3
BEGINNINGS = (32, 8, 4, 2)  # parts of a run of which the first is looked at
TOGETHER = 1 << 14  # numbers that are added up while they are in the cache: fresh memory takes longer than all of it
ABREAST = 8  # samples that are added side by side, as rows of few chains take longer than their additions


def drifts(values: Any, *, n_quantities: int = 1, false_alarm: float = FALSE_ALARM) -> bool:
    """Tell whether the mean of the first part of a series differs from that of the rest.

    Parameters
    ----------
    values : (n_samples, n_chains) array
        At least 4 samples.
    n_quantities : int
        That are looked at together.
    false_alarm : float
        How often chance makes one of them drift.

    Notes
    -----
    With 8 chains or more the first half, quarter, eighth and thirty-second are looked at: a start that lasts for a part
    f of the samples is off by 1 / sqrt(f) times as many errors there as the mean of all. The error is that of the
    differences of the single chains, which are independent of one another, by Student's t. With fewer it comes from the
    autocorrelation within each half, of which shorter parts tell too little.
    """
    array = shaped(values)
    n_samples, n_chains = array.shape
    start = array[0, 0]
    if n_chains < MANY_CHAINS:
        half = n_samples // 2
        first, later = array[:half] - start, array[-half:] - start
        differences, exponent = _differences(array, later.mean(axis=0) - first.mean(axis=0))
        errors = (standard_error(part - part.mean(axis=0)) for part in (first, later))
        error = float(np.ldexp(np.hypot(*errors), -exponent))
        return abs(_mean(differences)) > _most_errors(n_chains, false_alarm / (2 * n_quantities)) * error
    ends = [n_samples // part for part in BEGINNINGS if n_samples >= part]
    most = _most_errors(n_chains, false_alarm / (2 * n_quantities * len(ends)))
    shares = [(b - a) / n_samples * _means(array[a:b], start) for a, b in pairwise([0, *ends, n_samples])]
    for k, end in enumerate(ends, 1):
        part = end / n_samples
        rest, first = sum(shares[k:]) / (1.0 - part), sum(shares[:k]) / part
        differences, exponent = _differences(array, rest - first)
        # what is rare may be missing in the first part, of which the rest then tells how it scatters
        variance = max(_variance(differences), _variance(np.ldexp(rest, -exponent)) / part)
        if abs(_mean(differences)) > most * math.sqrt(variance / n_chains):
            return True
    return False


def _differences(array: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, int]:
    """Return differences of chains near 1, and the exponent; raise where values of the array are not finite."""
    with np.errstate(invalid="ignore"):
        differences, exponent = near_one(found)
    if not math.isfinite(_mean(differences)):
        finite(array)  # which says what is not
    return differences, exponent


def _mean(values: np.ndarray) -> float:
    return float(np.add.reduce(values)) / len(values)


def _variance(values: np.ndarray) -> float:
    apart = values - _mean(values)
    return float(np.add.reduce(apart * apart)) / (len(values) - 1)


@lru_cache(maxsize=64)
def _most_errors(n_chains: int, tail: float) -> float:
    """Return how many errors a mean may be off: not by more but with a chance of `tail`, to either side."""
    from scipy.special import ndtri, stdtrit

    return -float(stdtrit(n_chains - 1, tail) if n_chains >= MANY_CHAINS else ndtri(tail))


def _means(values: np.ndarray, start: float) -> np.ndarray:
    """Return the mean of each chain less a number, which is exactly 0 where no value differs from it."""
    n, n_chains = values.shape
    n_rows = ABREAST * min(max(1, TOGETHER // n_chains // ABREAST), -(-n // ABREAST))
    room, totals = np.empty((n_rows, n_chains)), np.zeros(ABREAST * n_chains)
    for k in range(0, n, n_rows):
        some = values[k : k + n_rows]
        np.subtract(some, start, out=room[: len(some)])
        room[len(some) :] = 0.0
        totals += room.reshape(-1, len(totals)).sum(axis=0)
    mean: np.ndarray = totals.reshape(ABREAST, n_chains).sum(axis=0) / n
    return mean
