"""A visible machine from rows of data, or their sums, in one step: mean field with linear response.

The formulas are those of `inversions.naive_mean_field`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model import BoltzmannMachine
from ..moments import count_together
from .closed_forms import spin_machine
from .inversions import naive_mean_field


class SpinSums(NamedTuple):
    """Sums over rows of spins: whole numbers, so that sums of parts add up, and are taken away, without rounding."""

    n_rows: int
    first: np.ndarray  # (n,) sums of s_i
    second: np.ndarray  # (n, n) sums of s_i s_j

    @classmethod
    def of(cls, up: np.ndarray) -> SpinSums:
        """Of rows of bits (m, n)."""
        pairs = count_together(up)
        ups = np.diagonal(pairs)
        return cls(len(up), 2.0 * ups - len(up), 4.0 * pairs - 2.0 * (ups[:, None] + ups) + len(up))

    @classmethod
    def total(cls, parts: Sequence[SpinSums]) -> SpinSums:
        """Of the rows of all parts."""
        n_rows, first, second = zip(*parts, strict=True)
        return cls(sum(n_rows), np.sum(first, axis=0), np.sum(second, axis=0))

    def without(self, part: SpinSums) -> SpinSums:
        """The sums over the other rows."""
        return SpinSums(self.n_rows - part.n_rows, self.first - part.first, self.second - part.second)


def one_shot(up: np.ndarray, *, flip_noise: float, units: str = "binary") -> tuple[BoltzmannMachine, float]:
    """Return the machine of rows of bits (m, n), and its mean-field log Z; see `one_shot_of_sums`."""
    return one_shot_of_sums(SpinSums.of(up), flip_noise=flip_noise, units=units)


def one_shot_of_sums(sums: SpinSums, *, flip_noise: float, units: str = "binary") -> tuple[BoltzmannMachine, float]:
    """Return the machine of rows of which only the sums are known, and its mean-field log Z.

    `flip_noise` is the probability with which each unit of the data is flipped; it is applied to the moments, not to
    the rows: m -> (1 - 2 eps) m and <s_i s_j> -> (1 - 2 eps)^2 <s_i s_j> off the diagonal. It keeps the covariance
    invertible.
    """
    keep = 1.0 - 2.0 * flip_noise
    mean = keep * (sums.first / sums.n_rows)
    second = keep**2 * sums.second / sums.n_rows
    np.fill_diagonal(second, 1.0)
    covariance = second - np.outer(mean, mean)
    try:
        found = naive_mean_field.couple(mean, covariance)
    except np.linalg.LinAlgError:
        raise ValueError(
            f"flip_noise must be above 0 for these data ({sums.n_rows} rows, {len(mean)} units): their "
            "covariance is singular."
        ) from None
    return spin_machine(found).to_units(units), naive_mean_field.log_z(mean, covariance, found)
