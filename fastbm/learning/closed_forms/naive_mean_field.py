"""Couplings by naive mean field: its linear response is the covariance, its means are the means.

W = diag(1 / C_ii) - C^-1 and b = atanh m - W m, the diagonal of W included; log Z = S(m) + 1/2 m^T W m + b^T m. C_ii is
1 - m_i^2 unless a ridge was added to it: then the diagonal keeps uncoupled units uncoupled. The diagonal is a constant
of the true energy but not of mean field's, which is why b and log Z must have it. Kappen and Rodriguez, Neural Comput.
10, 1137 (1998), doi:10.1162/089976698300017386.
"""

from __future__ import annotations

import numpy as np

from .covariances import Couplings, entropy, inverse


def couple(mean: np.ndarray, covariance: np.ndarray) -> Couplings:
    """Return the couplings, biases and self-couplings of spins with these moments."""
    inverted = inverse(covariance)
    weights = np.diag(1.0 / np.diagonal(covariance)) - inverted
    weights = (weights + weights.T) / 2
    bias = np.arctanh(mean) - weights @ mean
    diagonal = np.diagonal(weights).copy()
    np.fill_diagonal(weights, 0.0)
    return Couplings(weights, bias, diagonal)


def log_z(mean: np.ndarray, covariance: np.ndarray, found: Couplings) -> float:
    """Return the mean-field log Z of the result of `couple`, the self-couplings left to the offset."""
    weights = found.weights.copy()
    np.fill_diagonal(weights, found.diagonal)
    return float(entropy(mean) + 0.5 * mean @ weights @ mean + found.bias @ mean)
