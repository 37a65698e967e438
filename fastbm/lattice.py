"""What is known exactly about the two-dimensional Ising model (spins, coupling J = 1, no field)."""

from __future__ import annotations

import math

import numpy as np

CRITICAL_BETA = math.log1p(math.sqrt(2.0)) / 2.0


def onsager_energy(beta: float) -> float:
    """Return the energy per spin of the infinite square lattice.

    Onsager, Phys. Rev. 65, 117 (1944), eq. 116, doi:10.1103/PhysRev.65.117.
    """
    from scipy.special import ellipk

    if beta == 0.0:
        return 0.0
    two = 2.0 * beta
    k = 2.0 * math.sinh(two) / math.cosh(two) ** 2
    bracket = 1.0 + 2.0 / math.pi * (2.0 * math.tanh(two) ** 2 - 1.0) * float(ellipk(min(k * k, 1.0 - 1e-16)))
    return -bracket / math.tanh(two)


def onsager_magnetisation(beta: float) -> float:
    """Return the spontaneous magnetisation of the infinite square lattice.

    Yang, Phys. Rev. 85, 808 (1952), eq. 96, doi:10.1103/PhysRev.85.808.
    """
    return 0.0 if beta <= CRITICAL_BETA else (1.0 - math.sinh(2.0 * beta) ** -4) ** 0.125


def kaufman_log_z(rows: int, columns: int, beta: float) -> float:
    """Return log Z of the periodic rows x columns lattice (sides of at least 3, so that each bond is single).

    Kaufman, Phys. Rev. 76, 1232 (1949), eq. 67-69, doi:10.1103/PhysRev.76.1232.
    """
    if beta == 0.0:
        return rows * columns * math.log(2.0)
    two = 2.0 * beta
    r = np.arange(2 * columns)
    cosh_gamma = math.cosh(two) / math.tanh(two) - np.cos(np.pi * r / columns)
    gamma = np.arccosh(np.maximum(cosh_gamma, 1.0))
    gamma[0] = two + math.log(math.tanh(beta))
    odd, even = rows / 2 * gamma[1::2], rows / 2 * gamma[0::2]
    terms = [
        (1.0, _sum_log_2cosh(odd)),
        (1.0, _sum_log_2sinh(odd)),
        (1.0, _sum_log_2cosh(even)),
        (math.copysign(1.0, even[0]), _sum_log_2sinh(even)),
    ]
    signs, logs = np.array([sign for sign, _ in terms]), np.array([log for _, log in terms])
    top = logs.max()
    total = float((signs * np.exp(logs - top)).sum())
    return rows * columns / 2 * math.log(2 * math.sinh(two)) - math.log(2.0) + top + math.log(total)


def _sum_log_2cosh(x: np.ndarray) -> float:
    return float((np.abs(x) + np.log1p(np.exp(-2 * np.abs(x)))).sum())


def _sum_log_2sinh(x: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float((np.abs(x) + np.log(-np.expm1(-2 * np.abs(x)))).sum())
