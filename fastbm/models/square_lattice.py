"""What is known exactly about the two-dimensional Ising model (spins, coupling J = 1, no field)."""

from __future__ import annotations

import math

import numpy as np

from .._base import checks

CRITICAL_BETA = math.log1p(math.sqrt(2.0)) / 2.0
LINEAR = 1e-5  # below it the energy is -2 beta to 1e-14, and the closed form cancels
FREE = 1e-9  # below it log Z differs from that at beta = 0, by beta^2 a unit, less than it is rounded


def onsager_energy(beta: float) -> float:
    """Return the energy per spin of the infinite square lattice at inverse temperature `beta`.

    Onsager, Phys. Rev. 65, 117 (1944), eq. 116, doi:10.1103/PhysRev.65.117.
    """
    from scipy.special import ellipk

    if _checked(beta) < LINEAR:
        return -2.0 * beta
    q = math.exp(-4.0 * beta)  # sinh and cosh over exp(2 beta), so that nothing overflows
    tanh = (1.0 - q) / (1.0 + q)
    k = 4.0 * math.exp(-2.0 * beta) * (1.0 - q) / (1.0 + q) ** 2
    bracket = 1.0 + 2.0 / math.pi * (2.0 * tanh**2 - 1.0) * float(ellipk(min(k * k, 1.0 - 1e-16)))
    return -bracket / tanh


def onsager_magnetisation(beta: float) -> float:
    """Return the spontaneous magnetisation of the infinite square lattice.

    Yang, Phys. Rev. 85, 808 (1952), eq. 96, doi:10.1103/PhysRev.85.808.
    """
    if _checked(beta) <= CRITICAL_BETA:
        return 0.0
    inverse_sinh = 2.0 * math.exp(-2.0 * beta) / -math.expm1(-4.0 * beta)
    return (1.0 - inverse_sinh**4) ** 0.125


def kaufman_log_z(rows: int, columns: int, beta: float) -> float:
    """Return log Z of the periodic rows x columns lattice (sides of at least 3, so that each bond is single).

    Kaufman, Phys. Rev. 76, 1232 (1949), eq. 67-69, doi:10.1103/PhysRev.76.1232.
    """
    rows, columns = checks.whole("rows", rows, least=3), checks.whole("columns", columns, least=3)
    if _checked(beta) < FREE:
        return rows * columns * math.log(2.0)
    # cosh gamma = cosh(2 beta) coth(2 beta) - cos, in units of exp(2 beta) / 2, so that nothing overflows
    q, rest = math.exp(-4.0 * beta), -math.expm1(-4.0 * beta)
    cosh = (1.0 + q) ** 2 / rest - 2.0 * math.exp(-2.0 * beta) * np.cos(np.pi * np.arange(2 * columns) / columns)
    one = 2.0 * math.exp(-2.0 * beta)
    cosh = np.maximum(cosh, one)
    gamma = 2.0 * beta - math.log(2.0) + np.log(cosh + np.sqrt((cosh - one) * (cosh + one)))
    gamma[0] = 2.0 * beta + math.log(math.tanh(beta))
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
    return rows * columns / 2 * (2.0 * beta + math.log(rest)) - math.log(2.0) + top + math.log(total)


def _checked(beta: float) -> float:
    return checks.real("beta", beta, least=0.0)


def _sum_log_2cosh(x: np.ndarray) -> float:
    return float((np.abs(x) + np.log1p(np.exp(-2 * np.abs(x)))).sum())


def _sum_log_2sinh(x: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return float((np.abs(x) + np.log(-np.expm1(-2 * np.abs(x)))).sum())
