"""Where the curves of two sizes cross: the zero of the difference of two polynomials, with its error.

Each curve is fitted by least squares, weighed by its errors. At a zero x of d = p2 - p1 the error of x is that of d(x),
from the covariances of both fits, over |d'(x)|.

Binder, Phys. Rev. Lett. 47, 693 (1981), doi:10.1103/PhysRevLett.47.693.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import polynomial

CUBIC = 3
Curve = tuple[Any, np.ndarray, np.ndarray, np.ndarray]  # label, x, y, errors


class Crossing(NamedTuple):
    """Where two curves cross.

    Attributes
    ----------
    groups : tuple
        The labels of both.
    x, error : float
    y : float
        Their value there.
    chi2 : float
        Of both fits, for each degree of freedom: far above 1 where a polynomial does not describe them; NaN where
        there are no degrees left.
    """

    groups: tuple[Any, Any]
    x: float
    error: float
    y: float
    chi2: float


class _Fit(NamedTuple):
    coefficients: np.ndarray
    covariance: np.ndarray
    chi2: float
    freedom: int


def crossings(curves: Sequence[Curve], degree: int | None = None) -> list[Crossing]:
    """Return where neighbouring curves cross.

    Raises
    ------
    ValueError
        If there are fewer than two curves, too few points, or errors that are not known.
    """
    if len(curves) < 2:
        raise ValueError(f"curves cross where there are two or more; got {len(curves)}.")
    found = []
    for first, second in itertools.pairwise(curves):
        if (one := _crossing(first, second, degree)) is not None:
            found.append(one)
    return found


def _crossing(first: Curve, second: Curve, degree: int | None) -> Crossing | None:
    low, high = max(first[1].min(), second[1].min()), min(first[1].max(), second[1].max())
    centre, half = (low + high) / 2.0, (high - low) / 2.0
    if not half > 0.0:
        raise ValueError(f"the curves of {first[0]} and {second[0]} have no stretch in common.")
    fits = [_fitted(curve, centre, half, degree) for curve in (first, second)]
    difference = polynomial.polysub(fits[1].coefficients, fits[0].coefficients)
    roots = polynomial.polyroots(difference)
    real = [float(root.real) for root in roots if abs(root.imag) < 1e-9 and abs(root.real) <= 1.0]
    if len(real) != 1:
        return None
    t = real[0]
    powers = [t ** np.arange(len(fit.coefficients)) for fit in fits]
    variance = sum(float(p @ fit.covariance @ p) for p, fit in zip(powers, fits, strict=True))
    slope = float(polynomial.polyval(t, polynomial.polyder(difference)))
    freedom = sum(fit.freedom for fit in fits)
    chi2 = sum(fit.chi2 for fit in fits) / freedom if freedom else math.nan
    error = math.sqrt(variance) / abs(slope) * half if slope else math.inf
    return Crossing(
        (first[0], second[0]), float(centre + half * t), float(error), float(powers[1] @ fits[1].coefficients), chi2
    )


def _fitted(curve: Curve, centre: float, half: float, degree: int | None) -> _Fit:
    label, x, y, errors = curve
    if not (np.isfinite(y).all() and (errors > 0.0).all()):
        raise ValueError(f"the curve of {label} has points whose value or error is not known.")
    order = min(CUBIC, len(x) - 1) if degree is None else degree
    if not 1 <= order < len(x):
        raise ValueError(f"the curve of {label} has {len(x)} points, too few for a polynomial of degree {order}.")
    design = np.vander((x - centre) / half, order + 1, increasing=True) / errors[:, None]
    inverse = np.linalg.pinv(design)
    coefficients = inverse @ (y / errors)
    rest = y / errors - design @ coefficients
    return _Fit(coefficients, inverse @ inverse.T, float(rest @ rest), len(x) - order - 1)
