"""Newton's method for the maximum of a variational log Z: a few factorisations where sweeps would take thousands.

The matrix of second derivatives is that of linear response, M (see `fastbm.inference.response`): dm = D^1/2 (M +
shift)^-1 D^1/2 gradient. It is factored in float32, which serves for several steps as their gradients are exact; the
shift grows where M is not positive definite or a step does not help (Levenberg and Marquardt).
"""

from __future__ import annotations

import numpy as np

from .mean_field_equations import MeanFieldEquations
from .response import sech

LARGEST = 8192  # units: beyond them a factorisation takes longer than many sweeps
MOST_STEPS = 60
LARGEST_SHIFT = 1e3
GOOD = 0.2  # a factor is used again where it brought the residual down to this part


def newton(equations: MeanFieldEquations, *, tolerance: float) -> None:
    """Move the means of a single lane towards a maximum of log Z, until its residual is within `tolerance`."""
    arguments = equations.arguments()
    equations.place(arguments)
    value, factor, shift, residual = float(equations.log_z(arguments)[0]), None, 0.0, _residual(equations)
    for _ in range(MOST_STEPS):
        if residual <= tolerance:
            return
        if factor is None:
            factor, shift = _factor(equations, arguments[0], shift)
            if factor is None:
                return
        found = _step(equations, arguments, factor)
        equations.place(found)
        fresh, better = float(equations.log_z(found)[0]), _residual(equations)
        if fresh > value or better < 0.5 * residual:
            if better > GOOD * residual:
                factor, shift = None, 0.25 * shift if shift > 1e-3 else 0.0
            arguments, value, residual = found, fresh, better
        else:
            equations.place(arguments)
            factor, shift = None, max(3.0 * shift, 0.02)
            if shift > LARGEST_SHIFT:
                return


def _residual(equations: MeanFieldEquations) -> float:
    return float(np.abs(np.tanh(equations.arguments()) - equations.values).max())


def _step(equations: MeanFieldEquations, arguments: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """The arguments that the equations give after one step of the means."""
    from scipy.linalg import lapack

    root = sech(arguments[0])
    right = (root * equations.gradient(arguments)[0]).astype(np.float32)
    step = root * lapack.spotrs(factor, right, lower=1)[0]
    equations.values[0] = np.clip(equations.values[0] + step, -1.0, 1.0)
    equations.refresh()
    return equations.arguments()


def _factor(equations: MeanFieldEquations, arguments: np.ndarray, shift: float) -> tuple[np.ndarray | None, float]:
    """The Cholesky factor of M + shift, with the shift that it needed; None where none did."""
    from scipy.linalg import lapack

    while shift <= LARGEST_SHIFT:
        matrix = equations.response(arguments)[0].dense(np.float32)
        if shift:
            own = np.arange(len(matrix))
            matrix[own, own] += np.float32(shift)
        factor, failed = lapack.spotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return factor, shift
        shift = max(3.0 * shift, 0.02)
    return None, shift
