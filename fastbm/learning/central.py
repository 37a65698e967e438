"""Means, pair and triple moments of units, and what independent rows scatter about them.

With x = 0 or 1, p = <x>, V = p (1 - p), S = 1 - 2 p and d = x - p, d^2 = V + S d. So the variances of d_i d_j and of
d_i d_j d_k, less what estimating the means takes away, follow from moments of third order alone:

    var(d_i d_j) = V_i V_j + S_i S_j C_ij - C_ij^2
    var(d_i d_j d_k - sum C_jk d_i) = <d_i^2 d_j^2 d_k^2> - K^2 - sum C_jk (C_jk V_i + 2 K S_i) + 6 C_ij C_jk C_ik

where C are covariances, K = <d_i d_j d_k>, and sums run over the three ways to single out one of i, j, k. Both are
exact for many rows (the delta method): Stuart and Ord, Kendall's Advanced Theory of Statistics 1 (1994), chap. 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..rows import Rows
from ..threads import single_threaded_blas
from ..units import Units
from .counts import Counts

BLOCK_ROWS, BLOCK_TRIPLES = 4_096, 256  # of which products are held at a time
ORDERS = ("mean", "second_moment", "covariance", "triple", "population")


def flat_pairs(n_units: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Where pair i < j stands among all pairs in order, (0, 1), (0, 2), ..."""
    return i * n_units - i * (i + 1) // 2 + (j - i - 1)


@dataclass(frozen=True)
class UpMoments:
    """P(i up), P(i and j up) of all pairs i < j in order, P(i, j and k up) of `triples`, P(K units up)."""

    up: np.ndarray
    pairs: np.ndarray
    triples: np.ndarray
    population: np.ndarray
    chosen: np.ndarray

    @classmethod
    def of(cls, counts: Counts, chosen: np.ndarray) -> UpMoments:
        """The fractions of counted states; `chosen` are the triples, (n_triples, 3)."""
        n = counts.n
        upper = np.triu_indices(len(counts.pairs), 1)
        return cls(
            np.diagonal(counts.pairs) / n, counts.pairs[upper] / n, counts.triples / n, counts.population / n, chosen
        )

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(len(self.up), 1)

    def _covariances(self) -> np.ndarray:
        i, j = self._ends
        return self.pairs - self.up[i] * self.up[j]

    def _sides(self) -> tuple[np.ndarray, ...]:
        """C_jk, C_ik and C_ij of each triple: what is opposite to its first, second and third unit."""
        i, j, k = self.chosen.T
        n, covariances = len(self.up), self._covariances()
        return tuple(covariances[flat_pairs(n, a, b)] for a, b in ((j, k), (i, k), (i, j)))

    def _third(self) -> np.ndarray:
        """K = <d_i d_j d_k> of the triples, from covariances: P(i, j, k up) - p_i p_j p_k - sum p_i C_jk."""
        p = self.up[self.chosen.T]
        return self.triples - p.prod(axis=0) - sum(a * c for a, c in zip(p, self._sides(), strict=True))

    def values(self, units: Units) -> dict[str, np.ndarray]:
        """<s_i>, <s_i s_j>, <ds_i ds_j>, <ds_i ds_j ds_k> and P(K) in these units."""
        i, j = self._ends
        mean = units.lo + units.span * self.up
        covariance = units.span**2 * self._covariances()
        found = (mean, covariance + mean[i] * mean[j], covariance, units.span**3 * self._third(), self.population)
        return dict(zip(ORDERS, found, strict=True))

    def variances(self, units: Units) -> dict[str, np.ndarray]:
        """n times the variance of each of `values` over sets of n independent rows."""
        i, j = self._ends
        p, v, s = self.up, self.up * (1 - self.up), 1 - 2 * self.up
        c = self._covariances()
        squares, slope = units.lo**2, units.hi**2 - units.lo**2  # s^2 = squares + slope x
        fourth = squares**2 + squares * slope * (p[i] + p[j]) + slope**2 * self.pairs
        second = fourth - self.values(units)["second_moment"] ** 2
        pair = v[i] * v[j] + s[i] * s[j] * c - c**2
        found = (units.span**2 * v, second, units.span**4 * pair, units.span**6 * self._third_variance(v, s))
        of_counts = self.population * (1 - self.population)
        # differences of nearly equal numbers: a unit that never changes may come out a rounding below 0
        return dict(zip(ORDERS, (np.maximum(x, 0.0) for x in (*found, of_counts)), strict=True))

    def _third_variance(self, v: np.ndarray, s: np.ndarray) -> np.ndarray:
        v, s = v[self.chosen.T], s[self.chosen.T]
        sides, third = self._sides(), self._third()
        total = v.prod(axis=0) + s.prod(axis=0) * third - third**2 + 6 * sides[0] * sides[1] * sides[2]
        for a, c in enumerate(sides):
            b, d = (a + 1) % 3, (a + 2) % 3
            total += c * (v[a] * s[b] * s[d] - c * v[a] - 2 * third * s[a])
        return total


def weighted(up: Rows | np.ndarray, weights: np.ndarray, chosen: np.ndarray) -> UpMoments:
    """Moments of weighted rows of bits (m, n_units), summed a block of rows, and of triples, at a time.

    In float64, rows in their order, so that the sums are the same whatever the number of threads.
    """
    n_units = up.shape[1]
    shares = weights / weights.sum()
    both, triples, population = np.zeros((n_units, n_units)), np.zeros(len(chosen)), np.zeros(n_units + 1)
    with single_threaded_blas():
        for first in range(0, len(up), BLOCK_ROWS):
            some, share = up[first : first + BLOCK_ROWS], shares[first : first + BLOCK_ROWS]
            both += (some * share[:, None]).T @ some.astype(np.float64)
            population += np.bincount(some.sum(axis=1), weights=share, minlength=n_units + 1)
            columns = np.ascontiguousarray(some.T)
            for start in range(0, len(chosen), BLOCK_TRIPLES):
                i, j, k = chosen[start : start + BLOCK_TRIPLES].T
                triples[start : start + BLOCK_TRIPLES] += (columns[i] & columns[j] & columns[k]) @ share
    return UpMoments(np.diagonal(both).copy(), both[np.triu_indices(n_units, 1)], triples, population, chosen)
