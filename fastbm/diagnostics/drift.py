"""Whether chains drift together: both halves of a run have the same mean within its error.

Chains that relax side by side agree with one another at any time, and R-hat hardly sees that all of them move.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .autocorrelation import MANY_CHAINS, checked, standard_error

FALSE_ALARM = 1e-3


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
    from scipy.special import ndtri, stdtrit

    array = checked(values)
    half = len(array) // 2
    first, later = array[:half], array[-half:]
    differences, tail = later.mean(axis=0) - first.mean(axis=0), false_alarm / (2 * n_quantities)
    if len(differences) >= MANY_CHAINS:
        error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
        return bool(abs(differences.mean()) > -float(stdtrit(len(differences) - 1, tail)) * error)
    error = float(np.hypot(*(standard_error(part - part.mean(axis=0)) for part in (first, later))))
    return bool(abs(differences.mean()) > -float(ndtri(tail)) * error)
