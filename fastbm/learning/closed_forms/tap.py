"""Couplings by the equations of Thouless, Anderson and Palmer: naive mean field with the reaction of each unit.

Off the diagonal (C^-1)_ij = -W_ij - 2 W_ij^2 m_i m_j, of which the root that goes to 0 with (C^-1)_ij is W_ij; b_i =
atanh m_i - (W m)_i + m_i sum_j W_ij^2 (1 - m_j^2); log Z = S(m) + 1/2 m^T W m + b^T m + 1/4 sum_ij W_ij^2 (1 - m_i^2)
(1 - m_j^2). Tanaka, Phys. Rev. E 58, 2302 (1998), doi:10.1103/PhysRevE.58.2302; Kappen and Rodriguez, Neural Comput.
10, 1137 (1998), doi:10.1162/089976698300017386.
"""

from __future__ import annotations

import numpy as np

from .covariances import Couplings, entropy, inverse, refuse_pairs, symmetric


def couple(mean: np.ndarray, covariance: np.ndarray) -> Couplings:
    """Return the couplings and biases of spins with these moments."""
    inverted = symmetric(inverse(covariance))
    root = 1.0 - 8.0 * np.outer(mean, mean) * inverted
    refuse_pairs("tap", root < 0, "8 m_i m_j (C^-1)_ij is above 1")
    weights = -2.0 * inverted / (1.0 + np.sqrt(root))
    reaction = mean * (weights**2 @ (1.0 - mean**2))
    return Couplings(weights, np.arctanh(mean) - weights @ mean + reaction)


def log_z(mean: np.ndarray, covariance: np.ndarray, found: Couplings) -> float:
    """Return log Z of the result of `couple`, to second order in the couplings."""
    variance = 1.0 - mean**2
    energy = -0.5 * mean @ found.weights @ mean - found.bias @ mean
    return float(entropy(mean) - energy + 0.25 * variance @ found.weights**2 @ variance)
