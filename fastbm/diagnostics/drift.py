"""Whether chains drift together: both halves of a run have the same mean within its error.

Chains that relax side by side agree with one another at any time, and R-hat hardly sees that all of them move.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .._base.arrays import near_one
from .autocorrelation import MANY_CHAINS, finite, shaped, standard_error

FALSE_ALARM = 1e-3
TOGETHER = 1 << 14  # numbers that are added up while they are in the cache: fresh memory takes longer than all of it
ABREAST = 8  # samples that are added side by side, as rows of few chains take longer than their additions


def drifts(values: Any, *, n_quantities: int = 1, false_alarm: float = FALSE_ALARM) -> bool:
    """Tell whether the mean of the later half differs from that of the first.

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
    With 8 chains or more the error is that of the differences of the single chains, which are independent of one
    another, by Student's t. With fewer it comes from the autocorrelation within each half.
    """
    array = shaped(values)
    half = len(array) // 2
    first, later, start = array[:half], array[-half:], array[0, 0]
    with np.errstate(invalid="ignore"):
        differences, exponent = near_one(_means(later, start) - _means(first, start))
    n = len(differences)
    mean = float(np.add.reduce(differences)) / n
    if not math.isfinite(mean):
        finite(array)  # which says what is not
    if n >= MANY_CHAINS:
        apart = differences - mean
        error = math.sqrt(float(np.add.reduce(apart * apart)) / (n - 1) / n)
    else:
        errors = (standard_error(part - part.mean(axis=0)) for part in (first - start, later - start))
        error = float(np.ldexp(np.hypot(*errors), -exponent))
    return bool(abs(mean) > _most_errors(n, false_alarm / (2 * n_quantities)) * error)


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
