"""log Z by thermodynamic integration: log Z(beta) = log Z(0) - int_0^beta <E> db.

Between neighbours, h apart, Hermite's rule takes the slope of <E>, which is minus the variance v of E,

    int <E> = h/2 (E_0 + E_1) + h^2/12 (v_1 - v_0) + O(h^5),

and the rule of next order the third cumulant c as well, d^2 <E> / dbeta^2 = c,

    int <E> = h/2 (E_0 + E_1) + h^2/10 (v_1 - v_0) + h^3/120 (c_0 + c_1) + O(h^7).

Davis and Rabinowitz, Methods of Numerical Integration (1984), sec. 2.7 (rules with derivatives).
"""

from __future__ import annotations

import numpy as np

from ..magnitude import MOST, near_one
from .bennett import LogRatios, bennett


def integrate(betas: np.ndarray, energies: np.ndarray) -> LogRatios:
    """Integrate the mean energy up a ladder; (n_samples, n_chains, n_betas) energies.

    Notes
    -----
    `detail["discretisation_error"]` is by how much the two rules differ from the first level on, at the target: an
    estimate of the error that more samples do not cure but more betas do. It is the `floor`, by level.
    """
    energies, exponent = near_one(energies)
    betas = np.ldexp(betas, exponent)
    step = np.diff(betas)
    mean = energies.mean(axis=(0, 1))
    off = energies - mean
    variance, third = (off**2).mean(axis=(0, 1)), (off**3).mean(axis=(0, 1))
    trapezium = 0.5 * step * (mean[1:] + mean[:-1])
    curved = step**2 * np.diff(variance)
    hermite = trapezium + curved / 12.0
    with np.errstate(over="ignore"):  # of steps so long that the error is as good as infinite
        skewed = np.clip(step * (step * (step * (third[1:] + third[:-1]))) / 120.0, -MOST, MOST)
    next_order = trapezium + curved / 10.0 + skewed
    squares = off**2 - variance
    added = -0.5 * step * (off[..., 1:] + off[..., :-1]) - step**2 / 12.0 * np.diff(squares, axis=-1)
    terms = np.zeros(energies.shape)
    np.cumsum(added, axis=-1, out=terms[..., 1:])
    log_z, floor = np.zeros((2, len(betas)))
    log_z[1:] = -np.cumsum(hermite)
    floor[1:] = np.abs(np.cumsum(next_order - hermite))
    detail = {"discretisation_error": float(floor[-1])}
    return LogRatios(log_z, terms, floor, bennett(betas, energies).overlap, detail)
