"""Where the curves of two sizes cross: the zero of the difference of two polynomials, with its error.

Each curve is fitted by least squares, weighed by its errors. At a zero x of d = p2 - p1 the error of x is that of d(x),
from the covariances of both fits, over |d'(x)|. Points of a curve that come from the same samples of disorder vary
together: the covariance of their fit is then that of the jackknife over samples. Only points near the crossing are
fitted, found by where the sign of the difference changes best.

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
NEAREST = 7  # points of each curve that are fitted


class Curve(NamedTuple):
    """Points of one size, by `x`.

    Attributes
    ----------
    label : object
    x, y, errors : (n,) arrays
    spread : (n, n_samples) array, optional
        D, where values vary together: D Dᵀ is their covariance. They are independent without it.
    """

    label: Any
    x: np.ndarray
    y: np.ndarray
    errors: np.ndarray
    spread: np.ndarray | None = None

    def near(self, x: float) -> Curve:
        """Return the points that are nearest to a place."""
        some = np.sort(np.argsort(np.abs(self.x - x), kind="stable")[:NEAREST])
        spread = None if self.spread is None else self.spread[some]
        return Curve(self.label, self.x[some], self.y[some], self.errors[some], spread)


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
        Of both fits, for each degree of freedom: far above 1 where a polynomial does not describe them, far below
        where points vary together; NaN where there are no degrees left.
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


def crossings(curves: Sequence[Curve], degree: int | None = None, *, every: bool = False) -> list[Crossing]:
    """Return where neighbouring curves cross, or every two.

    Raises
    ------
    ValueError
        If there are fewer than two curves, too few points, or errors that are not known.
    """
    if len(curves) < 2:
        raise ValueError(f"curves cross where there are two or more; got {len(curves)}.")
    found = []
    for first, second in itertools.combinations(curves, 2) if every else itertools.pairwise(curves):
        if (one := _crossing(first, second, degree)) is not None:
            found.append(one)
    return found


def _crossing(first: Curve, second: Curve, degree: int | None) -> Crossing | None:
    for curve in (first, second):
        _check(curve, degree)
    if (place := _change(first, second)) is not None:
        first, second = first.near(place), second.near(place)
    low, high = max(first.x[0], second.x[0]), min(first.x[-1], second.x[-1])
    centre, half = (low + high) / 2.0, (high - low) / 2.0
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
    y = float(powers[1] @ fits[1].coefficients)
    return Crossing((first.label, second.label), float(centre + half * t), float(error), y, chi2)


def _check(curve: Curve, degree: int | None) -> None:
    if not (np.isfinite(curve.y).all() and (curve.errors > 0.0).all()):
        raise ValueError(f"the curve of {curve.label} has points whose value or error is not known.")
    if not 1 <= (order := _order(curve, degree)) < len(curve.x):
        n = len(curve.x)
        raise ValueError(f"the curve of {curve.label} has {n} points, too few for a polynomial of degree {order}.")


def _order(curve: Curve, degree: int | None) -> int:
    return min(CUBIC, len(curve.x) - 1) if degree is None else degree


def _change(first: Curve, second: Curve) -> float | None:
    """Return where one curve comes to lie above the other, by the signs of all differences in units of their errors.

    Straight lines between points will do.
    """
    low, high = max(first.x[0], second.x[0]), min(first.x[-1], second.x[-1])
    if not low < high:
        raise ValueError(f"the curves of {first.label} and {second.label} have no stretch in common.")
    x = np.unique(np.concatenate([first.x, second.x]))
    x = x[(x >= low) & (x <= high)]
    off, square = (
        np.interp(x, second.x, second.y) - np.interp(x, first.x, first.y),
        np.interp(x, second.x, second.errors) ** 2 + np.interp(x, first.x, first.errors) ** 2,
    )
    z = off / np.sqrt(square)
    changes = np.flatnonzero(off[:-1] * off[1:] <= 0.0)
    if not len(changes):
        return None
    before = np.cumsum(z)
    k = int(changes[np.argmax(np.abs(2.0 * before[changes] - before[-1]))])
    width = off[k] - off[k + 1]
    return float(x[k] + (x[k + 1] - x[k]) * (off[k] / width if width else 0.5))


def _fitted(curve: Curve, centre: float, half: float, degree: int | None) -> _Fit:
    _, x, y, errors, spread = curve
    order = _order(curve, degree)
    design = np.vander((x - centre) / half, order + 1, increasing=True) / errors[:, None]
    inverse = np.linalg.pinv(design)
    coefficients = inverse @ (y / errors)
    rest = y / errors - design @ coefficients
    if spread is not None:
        inverse = inverse / errors @ spread
    return _Fit(coefficients, inverse @ inverse.T, float(rest @ rest), len(x) - order - 1)
