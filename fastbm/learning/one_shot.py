"""A visible machine from the data's covariance in one step: mean field with linear response.

For spins with means m and covariance C: W = diag(1 / (1 - m^2)) - C^-1, b = atanh m - W m, and log Z = S(m) + 1/2 m^T W
m + b^T m, the diagonal of W included. The stored machine has a zero diagonal and offset -1/2 tr W. Kappen and
Rodriguez, Neural Comput. 10, 1137 (1998), doi:10.1162/089976698300017386.
"""

from __future__ import annotations

import numpy as np

from ..couplings import Dense
from ..model import BoltzmannMachine
from ..units import SPIN


def one_shot(up: np.ndarray, *, flip_noise: float, units: str = "binary") -> tuple[BoltzmannMachine, float]:
    """Return the machine of rows of bits (m, n), and its mean-field log Z.

    `flip_noise` is the probability with which each unit of the data is flipped; it is applied to the moments, not to
    the rows: m -> (1 - 2 eps) m and <s_i s_j> -> (1 - 2 eps)^2 <s_i s_j> off the diagonal. It keeps the covariance
    invertible.
    """
    values = 2.0 * up - 1.0
    keep = 1.0 - 2.0 * flip_noise
    m = keep * values.mean(axis=0)
    second = keep**2 * (values.T @ values) / len(values)
    np.fill_diagonal(second, 1.0)
    try:
        inverse = np.linalg.inv(second - np.outer(m, m))
    except np.linalg.LinAlgError:
        raise ValueError(
            f"flip_noise must be above 0 for these data ({len(up)} rows, {up.shape[1]} units): their "
            "covariance is singular."
        ) from None
    weights = np.diag(1.0 / (1.0 - m**2)) - inverse
    weights = (weights + weights.T) / 2
    bias = np.arctanh(m) - weights @ m
    p = (1.0 + m) / 2.0
    entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p)).sum()
    log_z = float(entropy + 0.5 * m @ weights @ m + bias @ m)
    trace = float(np.trace(weights))
    np.fill_diagonal(weights, 0.0)
    model = BoltzmannMachine.trusted(Dense(weights), bias, SPIN, 0, -0.5 * trace)
    return model.to_units(units), log_z
