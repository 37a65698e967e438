"""Couplings by the expansion in small correlations, with all loops and all pairs summed up.

The entropy is S(m) + 1/2 log det M - sum_(i<j) (I_ij + 1/2 log(1 - M_ij^2)), with the correlations M_ij = C_ij /
sqrt(C_ii C_jj) and the mutual information I_ij of independent pairs: rings of units, plus pairs, less what both count.
Its derivatives are W_ij = W_ij(pair) - (C^-1)_ij - C_ij / D_ij, with D_ij = C_ii C_jj - C_ij^2, and b_i = b_i(pair) +
m_i ((C^-1)_ii - 1 / C_ii - sum_j C_ij^2 / (C_ii D_ij)) + sum_j m_j ((C^-1)_ij + C_ij / D_ij). Sessak and Monasson, J.
Phys. A 42, 055001 (2009), doi:10.1088/1751-8113/42/5/055001; Roudi, Aurell and Hertz, Front. Comput. Neurosci. 3:22
(2009), doi:10.3389/neuro.10.022.2009.
"""

from __future__ import annotations

import numpy as np

from . import independent_pair
from .covariances import Couplings, inverse, symmetric


def couple(mean: np.ndarray, covariance: np.ndarray) -> Couplings:
    """Return the couplings and biases of spins with these moments."""
    inverted = inverse(covariance)
    pair = independent_pair.couple(mean, covariance, "sessak-monasson")
    variance = np.diagonal(covariance)
    both = np.outer(variance, variance) - covariance**2
    np.fill_diagonal(both, 1.0)
    twice = symmetric(covariance / both)
    rings = -symmetric(inverted) - twice
    own = np.diagonal(inverted) - 1.0 / variance - (twice * covariance).sum(axis=1) / variance
    return Couplings(pair.weights + rings, pair.bias + mean * own - rings @ mean)


def log_z(mean: np.ndarray, covariance: np.ndarray, found: Couplings) -> float:
    """Return the log Z that follows from the entropy of the expansion."""
    scale = 1.0 / np.sqrt(np.diagonal(covariance))
    correlation = covariance * np.outer(scale, scale)
    np.fill_diagonal(correlation, 0.0)
    pairs = float(np.log1p(-(correlation**2)).sum()) / 4.0  # a half, and each pair stands there twice
    np.fill_diagonal(correlation, 1.0)
    rings = 0.5 * float(np.linalg.slogdet(correlation)[1])
    return independent_pair.log_z(mean, covariance, found) + rings - pairs
