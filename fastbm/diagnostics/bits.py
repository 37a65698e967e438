"""Whether chains agree in many quantities that are 0 or 1 at a time: units that are up, pairs that differ.

Split R-hat, as of other series, from counts in both halves of every chain. A variance within a half-chain is that of
Laplace's fraction, (count + 1) / (n + 2): what was seen once, or never, in one of them is no disagreement yet.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .ranks import R_HAT_LIMIT, split_ratio

FALSE_ALARM = 1e-3  # of all quantities of one look together


def bit_r_hat(counts: np.ndarray, n: int) -> np.ndarray:
    """Return split R-hat of each quantity, (n_quantities,).

    Parameters
    ----------
    counts : (2, n_chains, n_quantities) array of integers
        How often each was 1 in either half of every chain.
    n : int
        Samples of a half.
    """
    halves = counts.reshape(-1, counts.shape[2]).astype(np.int64)
    return r_hat_of_sums(halves.sum(axis=0), np.square(halves).sum(axis=0), n, len(halves))


def r_hat_of_sums(totals: np.ndarray, squares: np.ndarray, n: int, m: int) -> np.ndarray:
    """Return split R-hat from sums over `m` half-chains of `n` samples of counts and of their squares, (n_quantities,).

    These are whole numbers, so that they tell both variances without rounding.
    """
    within = (n * totals - squares + (n + 1) * m) / (m * (n + 2.0) ** 2)
    between = (m * squares - totals * totals) / (m * (m - 1.0) * n)
    return np.asarray(split_ratio(within, between, n))


def beyond_chance(r_hat: float, limit: float) -> float:
    """Return R-hat where it is above its limit, else no more than `R_HAT_LIMIT`."""
    return r_hat if r_hat > limit else min(r_hat, R_HAT_LIMIT)


@lru_cache(maxsize=64)
def r_hat_limit(n: int, n_chains: int, n_quantities: int, *, worth: float = 0.5) -> float:
    """Return the largest R-hat that passes.

    It is `R_HAT_LIMIT`, or more where half-chains of `n` samples are so short that chance brings the largest of
    `n_quantities` above it; a sample is `worth` so many independent ones.
    """
    from scipy.special import chdtri

    freedom = 2 * n_chains - 1
    chance = float(chdtri(freedom, FALSE_ALARM / n_quantities)) / freedom
    return max(R_HAT_LIMIT, float(np.sqrt((n - 1 + chance / worth) / n)))
