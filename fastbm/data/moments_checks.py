"""What moments must be, checked once: the errors name the unit or the pair, and the way out.

All moments may miss what they must be by a rounding.
"""

from __future__ import annotations

import numpy as np

from ..machine.units import BINARY, SPIN, Units

ROUNDING = 1e-6  # float32 keeps seven digits


def symmetric(second: np.ndarray) -> None:
    """Hold second moments against their transpose."""
    gap = np.abs(second - second.T)
    i, j = _worst(gap)
    if gap[i, j] > ROUNDING:
        raise ValueError(
            f"second_moment must be symmetric: it is {second[i, j]:.6g} at ({i}, {j}) and {second[j, i]:.6g} at "
            f"({j}, {i}). Fill both halves, for instance with s + s.T - diag(s)."
        )


def units_of_moments(mean: np.ndarray, second: np.ndarray) -> Units:
    """Return the convention that the diagonal, or a negative moment, leaves."""
    diagonal = np.diagonal(second)
    if diagonal.any():
        is_spin = bool((np.abs(diagonal - 1.0) <= ROUNDING).all())
        is_binary = bool((np.abs(diagonal - mean) <= ROUNDING).all())
        if is_spin != is_binary:
            return SPIN if is_spin else BINARY
        if not is_spin:
            i = int(np.minimum(np.abs(diagonal - 1.0), np.abs(diagonal - mean)).argmax())
            raise ValueError(
                "the diagonal of second_moment must be 1 (spins) throughout, or the mean (binary units), "
                f"{mean[i]:.6g} for unit {i}; got {diagonal[i]:.6g}. Zeros are filled. A covariance is not a second "
                "moment: add outer(mean, mean)."
            )
    elif min(mean.min(), second.min()) < 0:
        return SPIN
    raise ValueError('units cannot be told from these moments: pass units="binary" or units="spin".')


def mean_in_range(mean: np.ndarray, units: Units) -> None:
    """Hold means against the two values of a unit."""
    wrong = np.flatnonzero((mean < units.lo - ROUNDING) | (mean > units.hi + ROUNDING))
    if wrong.size:
        raise ValueError(
            f"mean must be from {units.lo} to {units.hi} ({units.name} units); got {mean[wrong[0]]:.6g} for unit "
            f"{wrong[0]}, {len(wrong)} such units in all.{_hint(units)}"
        )


def fill_diagonal(mean: np.ndarray, second: np.ndarray, units: Units) -> None:
    """Overwrite the diagonal with what the units imply; it must have been near to it, or zeros."""
    implied = np.ones(len(mean)) if units.name == "spin" else mean
    diagonal = np.diagonal(second)
    if diagonal.any():
        wrong = np.flatnonzero(np.abs(diagonal - implied) > ROUNDING)
        if wrong.size:
            i = wrong[0]
            what = "1 for spins" if units.name == "spin" else "the mean for binary units"
            raise ValueError(
                f"the diagonal of second_moment must be {what}, {implied[i]:.6g} for unit {i}; got {diagonal[i]:.6g}. "
                f"A diagonal of zeros is filled.{_hint(units)} A covariance is not a second moment: add "
                "outer(mean, mean)."
            )
    np.fill_diagonal(second, implied)


def _hint(units: Units) -> str:
    other = "binary" if units.name == "spin" else "spin"
    return f' Pass units="{other}" if they are moments of {other} units.'


def pairs_in_bounds(p: np.ndarray, pairs: np.ndarray) -> None:
    """Hold every pair, in binary units, against the bounds of Frechet: no cell of its table may be negative."""
    below = np.maximum(0.0, p[:, None] + p[None, :] - 1.0) - pairs
    beyond = pairs - np.minimum(p[:, None], p[None, :])
    gap = np.maximum(below, beyond)
    i, j = _worst(gap)
    if gap[i, j] > ROUNDING:
        least, most = max(0.0, p[i] + p[j] - 1.0), min(p[i], p[j])
        raise ValueError(
            f"second_moment of units {i} and {j} is one that no distribution can have: both are up with probability "
            f"{pairs[i, j]:.6g}, but {p[i]:.6g} and {p[j]:.6g} for each alone allow from {least:.6g} to {most:.6g}. "
            "Average mean and second_moment over the same rows, and check units."
        )


def no_negative_direction(covariance: np.ndarray) -> None:
    """Refuse a covariance that has a negative direction, naming the pair that has most part in it."""
    n = len(covariance)
    rounding = ROUNDING * np.sqrt(n)  # rounding each entry moves an eigenvalue by no more than about this
    try:
        np.linalg.cholesky(covariance + rounding * np.eye(n))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        share = vectors[:, 0][:, None] * vectors[:, 0][None, :] * covariance
        np.fill_diagonal(share, 0.0)
        i, j = _worst(-share)
        raise ValueError(
            f"moments are such that no distribution can have: some sum of units has a variance of {values[0]:.3g}, to "
            f"which units {i} and {j} (covariance {covariance[i, j]:.3g}) add most. Average all pairs over the same "
            "rows (not each over those where both are known), or mix them with those of independent units."
        ) from None


def _worst(matrix: np.ndarray) -> tuple[int, int]:
    """Return the pair with the largest entry."""
    i, j = divmod(int(matrix.argmax()), len(matrix))
    return min(i, j), max(i, j)
