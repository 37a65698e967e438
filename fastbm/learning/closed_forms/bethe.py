"""Couplings for which the Bethe approximation, with linear response, has the means and the covariance.

In this approximation (C^-1)_ij = -c_ij / ((1 - m_i^2) (1 - m_j^2) - c_ij^2), where c_ij is the covariance of the pair's
belief. Solved for c_ij, it leaves a pair with known cells: couplings and biases are those of independent pairs with c
in place of C. Exact on trees. Ricci-Tersenghi, J. Stat. Mech. P08015 (2012), doi:10.1088/1742-5468/2012/08/P08015;
Nguyen and Berg, Phys. Rev. Lett. 109, 050602 (2012), doi:10.1103/PhysRevLett.109.050602.
"""

from __future__ import annotations

import numpy as np

from . import independent_pair
from .covariances import Couplings, inverse, symmetric


def couple(mean: np.ndarray, covariance: np.ndarray) -> Couplings:
    """Return the couplings and biases of spins with these moments."""
    return independent_pair.couple(mean, _beliefs(mean, covariance), "bethe")


def log_z(mean: np.ndarray, covariance: np.ndarray, found: Couplings) -> float:
    """Return the Bethe log Z of the couplings and biases that `couple` found."""
    return independent_pair.log_z(mean, _beliefs(mean, covariance), found)


def _beliefs(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the covariances c_ij of the pairs' beliefs: the root that goes to 0 with (C^-1)_ij."""
    inverted = symmetric(inverse(covariance))
    product = np.outer(1.0 - mean**2, 1.0 - mean**2)
    return -2.0 * product * inverted / (1.0 + np.sqrt(1.0 + 4.0 * product * inverted**2))
