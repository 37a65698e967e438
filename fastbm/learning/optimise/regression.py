"""A start for local rules where all pairs are coupled, from means and correlations alone.

A unit that many others drive has log-odds that are close to Gaussian over the data, a + tau z. With the probit form of
the logistic function, <sigmoid(a + tau z)> = sigmoid(k a) and its slope <sigmoid'(a + tau z)> = k v, where v = p (1 -
p) is the variance of the unit's bit and k = 1 / sqrt(1 + pi tau^2 / 8). By Stein's lemma the logistic regression of the
unit on all others is then its linear one over k v, and the linear one is minus a row of the correlations' inverse P
over its diagonal, which leaves 1 / P_ii of the variance: (k v tau)^2 = v (1 - 1 / P_ii) gives tau, and so k.

In the parameters of `fastbm.learning.optimise.centring` that is D_ij = -P_ij / (k P_ii), of which i's and j's are
averaged, and a sqrt(v). The objective curves by k along a centred bias, and by half of that along coordinates of
couplings that are rotated (`fastbm.learning.optimise.rotation`).

MacKay, Neural Comput. 4, 720 (1992), doi:10.1162/neco.1992.4.5.720 (the probit form); Stein, Ann. Stat. 9, 1135 (1981).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RIDGE = 0.02  # added to correlations, which may be singular
STEEPEST = 2.0  # squared width of k times the log-odds: 8 / pi is that of units that follow from the others


class Regression(NamedTuple):
    """Scaled couplings D (n, n), scaled centred biases (n,), and k (n,), the part of a unit's variance that is left."""

    pairs: np.ndarray
    bias: np.ndarray
    flatness: np.ndarray


def regression(correlations: np.ndarray, p: np.ndarray) -> Regression:
    """Return the start for units with these correlations that are up with probabilities `p`, strictly within 0 and 1.

    Cost: an inverse of the correlations.
    """
    inverse = np.linalg.inv(correlations + RIDGE * np.eye(len(p)))
    left, variance = 1.0 / np.diagonal(inverse), p * (1.0 - p)
    squared = np.clip((1.0 - left) / variance, 0.0, STEEPEST)  # (k tau)^2
    flatness = np.sqrt(1.0 - np.pi / 8.0 * squared)
    one_sided = -inverse * (left / flatness)[:, None]
    pairs = 0.5 * (one_sided + one_sided.T)
    np.fill_diagonal(pairs, 0.0)
    return Regression(pairs, np.log(p / (1.0 - p)) / flatness * np.sqrt(variance), flatness)
