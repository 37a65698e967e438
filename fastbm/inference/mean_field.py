"""Naive mean field: the best product distribution, its lower bound on log Z, and covariances by linear response.

m = tanh(beta (W m + b)); log Z >= S(m) - beta E(m); covariance (diag(1 / (1 - m^2)) - beta W)^-1.
Peterson and Anderson, Complex Systems 1, 995 (1987); Kappen and Rodriguez, Neural Comput. 10, 1137 (1998),
doi:10.1162/089976698300017386.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _checks, rng
from ..couplings import Couplings
from ..kernels.mean_field import sweep_mean_field
from ..model import BoltzmannMachine
from .result import Inference

LARGEST_CONDITION = 1e10  # of the matrix to invert, beyond which the response is said to diverge
CHECK_EVERY = 10  # sweeps between two looks at convergence


@dataclass(frozen=True)
class Solution:
    """Fixed points, one a column: `arguments` = beta (W m + b) (n_units, lanes), and how well they solve their
    equations.
    """

    arguments: np.ndarray
    residual: np.ndarray
    n_sweeps: int

    @property
    def means(self) -> np.ndarray:
        return np.tanh(self.arguments)

    def log_z(self, couplings: Couplings, bias: np.ndarray, beta: float) -> np.ndarray:
        """The lower bound S(m) - beta E(m), without offset, per column; it holds whether or not the equations are
        solved.
        """
        x, m = np.abs(self.arguments), self.means
        entropy = x + np.log1p(np.exp(-2 * x)) - x * np.tanh(x)
        energy = -((0.5 * couplings.field(m.T).T + bias) * m)
        return (entropy - beta * energy).sum(axis=0)


def solve(
    couplings: Couplings,
    bias: np.ndarray,
    beta: float,
    start: np.ndarray,
    *,
    tolerance: float,
    damping: float,
    max_sweeps: int,
) -> Solution:
    """Solve the mean-field equations of spins from `start` (n_units, lanes), with `bias` (n_units, lanes)."""
    means = np.array(start, np.float64)
    weights = couplings.matrix()
    for sweep in range(max_sweeps):
        change = sweep_mean_field(means, weights, bias, beta, damping)
        if sweep % CHECK_EVERY == 0 and change.max(initial=0.0) <= 0.1 * tolerance:
            break
    arguments = beta * (couplings.field(means.T).T + bias)
    residual = np.abs(np.tanh(arguments) - means).max(axis=0, initial=0.0)
    return Solution(arguments, residual, sweep + 1)


def linear_response(couplings: Couplings, beta: float, arguments: np.ndarray) -> np.ndarray | None:
    """Covariance of spins at one fixed point, as D^1/2 (1 - beta D^1/2 W D^1/2)^-1 D^1/2 with D = 1 - m^2.

    In this form units that are frozen (D = 0) do no harm. None where it diverges, as at a mean-field transition.
    """
    x = np.abs(arguments)
    root = 2 * np.exp(-x) / (1 + np.exp(-2 * x))
    inner = np.eye(len(root)) - beta * root[:, None] * couplings.matrix() * root[None, :]
    with np.errstate(all="ignore"):
        if not np.linalg.cond(inner) < LARGEST_CONDITION:
            return None
    return root[:, None] * np.linalg.solve(inner, np.diag(root))


def mean_field(
    model: BoltzmannMachine,
    *,
    beta: float,
    moments: bool,
    seed: int,
    n_starts: int = 8,
    tolerance: float = 1e-10,
    damping: float = 0.0,
    max_sweeps: int = 10_000,
) -> Inference:
    """Find the best product distribution of several starts.

    Parameters
    ----------
    n_starts : int
        One from m = 0 (moved by the bias), the others random; the best bound is kept.
    tolerance : float
        Largest residual of the equations.
    damping : float
        Part of the old mean that is kept at each step, from 0 to below 1.
    max_sweeps : int

    Returns
    -------
    Inference
        `covariance` is the linear response as it comes: its diagonal, unlike that of `second_moment`, is not the exact
        one.
    """
    n_starts = _checks.whole("n_starts", n_starts, least=1)
    if not 0.0 <= (damping := _checks.real("damping", damping, least=0.0)) < 1.0:
        raise ValueError(f"damping must be from 0 to below 1; got {damping:g}.")
    spin = model.to_units("spin")
    start = rng.keyed(seed, rng.STARTS).uniform(-1.0, 1.0, (spin.n_units, n_starts))
    start[:, 0] = 0.0
    bias = np.repeat(spin.flat_bias[:, None], n_starts, axis=1)
    solution = solve(
        spin.couplings,
        bias,
        beta,
        start,
        tolerance=_checks.real("tolerance", tolerance, above=0.0),
        damping=damping,
        max_sweeps=_checks.whole("max_sweeps", max_sweeps, least=1),
    )
    bounds = solution.log_z(spin.couplings, bias, beta)
    best = int(np.argmax(bounds))
    log_z = float(bounds[best]) - beta * spin.offset
    converged = bool(solution.residual[best] <= tolerance)
    if not converged:
        warnings.warn(
            f"mean-field did not converge: residual {solution.residual[best]:.2g} after {solution.n_sweeps} "
            "sweeps; the bound "
            "holds all the same. Raise max_sweeps or damping.",
            _checks.ConvergenceWarning,
            stacklevel=5,
        )
    m = solution.means[:, best]
    energy = float(-((0.5 * spin.couplings.field(m[None])[0] + spin.flat_bias) @ m)) + spin.offset
    result: dict[str, Any] = {"log_z": log_z, "bound": "lower", "energy": energy, "entropy": log_z + beta * energy}
    if moments:
        result |= _moments(model, m, linear_response(spin.couplings, beta, solution.arguments[:, best]))
    return Inference(
        "mean-field",
        **result,
        converged=converged,
        detail={
            "residual": float(solution.residual[best]),
            "n_sweeps": solution.n_sweeps,
            "bounds of all starts": bounds - beta * spin.offset,
        },
    )


def _moments(model: BoltzmannMachine, m: np.ndarray, covariance: np.ndarray | None) -> dict[str, np.ndarray | None]:
    """Moments in the model's units. <s_i^2> is known exactly and not taken from the linear response."""
    if model.units == "binary":
        m = (1 + m) / 2
    if covariance is None:
        warnings.warn(
            "mean-field: the linear response diverges here (a mean-field transition), so there are no covariances.",
            _checks.ConvergenceWarning,
            stacklevel=7,
        )
        return {"mean": m, "second_moment": None, "covariance": None}
    if model.units == "binary":
        covariance = covariance / 4
    second = covariance + np.outer(m, m)
    np.fill_diagonal(second, m if model.units == "binary" else 1.0)
    return {"mean": m, "second_moment": second, "covariance": covariance}
