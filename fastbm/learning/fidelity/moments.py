"""Means, pair and triple moments of units, the distribution of how many are up, and their variances over rows.

How often units, pairs and triples are up is counted exactly, 64 states a word. With x = 0 or 1, p = <x>, V = p (1 - p),
S = 1 - 2 p and d = x - p, d^2 = V + S d. So the variances of d_i d_j and of d_i d_j d_k, less what estimating the means
takes away, follow from moments of third order alone:

    var(d_i d_j) = V_i V_j + S_i S_j C_ij - C_ij^2
    var(d_i d_j d_k - sum C_jk d_i) = <d_i^2 d_j^2 d_k^2> - K^2 - sum C_jk (C_jk V_i + 2 K S_i) + 6 C_ij C_jk C_ik

where C are covariances, K = <d_i d_j d_k>, and sums run over the three ways to single out one of i, j, k. Both are
exact for many rows (the delta method): Stuart and Ord, Kendall's Advanced Theory of Statistics 1 (1994), chap. 10.

Of rows of weights w they are sum w^2 f^2 / (sum w)^2, where f, of mean 0 by w, are what is averaged above: moments by
w^2, about the same p, take the place of those by w where f^2 is averaged. White, Econometrica 48, 817 (1980),
doi:10.2307/1912934.

Of what few rows show, or none, they are too small or 0. Errors know of two rows more of each kind that a moment tells
apart: 2 for either outcome of a fraction f, so that f (1 - f) / n grows by 2 (f^2 + (1 - f)^2) / n^2 (Agresti and
Coull, Am. Stat. 52, 119 (1998), doi:10.1080/00031305.1998.10480550), and 2 for each joint state of the units of a
covariance or a triple, in which sum d_i^2 = p_i^2 + (1 - p_i)^2 of each unit is a factor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..._base import rng
from ..._base.threads import fan_out, single_threaded_blas
from ...data.rows import Rows, pack_rows
from ...kernels.bits import count_pairs, count_triples
from ...machine.units import Units
from ..errors.blocks import Together

MOST_TRIPLES = 19_600  # all of 50 units
BLOCK = 1 << 16  # states packed at a time
BLOCK_ROWS, BLOCK_TRIPLES = 4_096, 256  # of which products are held at a time
ADDED = 2.0  # rows of each kind that errors know of beside those that were seen
ORDERS = ("mean", "second_moment", "covariance", "triple", "population")


def some_triples(n_units: int, seed: int, most: int = MOST_TRIPLES) -> np.ndarray:
    """Return all triples i < j < k in order, or `most` of them drawn at random; (n_triples, 3)."""
    n_all = n_units * (n_units - 1) * (n_units - 2) // 6
    if n_all <= most:
        i, j, k = (axis.ravel() for axis in np.indices((n_units,) * 3)) if n_units else (np.empty(0, np.int64),) * 3
        return np.stack([i, j, k], axis=1)[(i < j) & (j < k)].astype(np.int64)
    generator, found = rng.keyed(seed, rng.MONITOR), np.empty((0, 3), np.int64)
    while len(found) < most:
        drawn = np.sort(generator.integers(0, n_units, (2 * most, 3)), axis=1)
        drawn = drawn[(drawn[:, 0] < drawn[:, 1]) & (drawn[:, 1] < drawn[:, 2])]
        found = np.unique(np.concatenate([found, drawn]), axis=0)
    return found[np.sort(generator.permutation(len(found))[:most])]


@dataclass(frozen=True)
class Counts:
    """Integer counts over `n` states: of units and pairs, of triples, and of the number of units up.

    `pairs` (n_units, n_units) has its upper triangle and diagonal, `triples` is (n_triples,) and `population` (n_units
    + 1,) counts the states with K units up.
    """

    n: int
    pairs: np.ndarray
    triples: np.ndarray
    population: np.ndarray

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.n + other.n,
            self.pairs + other.pairs,
            self.triples + other.triples,
            self.population + other.population,
        )

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.n - other.n,
            self.pairs - other.pairs,
            self.triples - other.triples,
            self.population - other.population,
        )


def count(up: Rows | np.ndarray, triples: np.ndarray, threads: int) -> Counts:
    """Count bits (m, n_units) uint8, a block of states at a time on each thread."""
    n_units = up.shape[1]

    def one(first: int) -> Counts:
        block = up[first : first + BLOCK]
        words = pack_rows(block)
        pairs, shared = np.zeros((n_units, n_units), np.int64), np.zeros(len(triples), np.int64)
        count_pairs(words, pairs)
        count_triples(words, triples, shared)
        population = np.bincount(block.sum(axis=1, dtype=np.int64), minlength=n_units + 1)
        return Counts(len(block), pairs, shared, population)

    first, *others = fan_out(one, range(0, len(up), BLOCK), threads)
    return sum(others, first)


def flat_pairs(n_units: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Return the index of pair i < j among all pairs in order, (0, 1), (0, 2), ..."""
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
        """Return the fractions of counted states; `chosen` are the triples, (n_triples, 3)."""
        n = counts.n
        upper = np.triu_indices(len(counts.pairs), 1)
        return cls(
            np.diagonal(counts.pairs) / n, counts.pairs[upper] / n, counts.triples / n, counts.population / n, chosen
        )

    @property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(len(self.up), 1)

    def _sides(self, of_pairs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return entries jk, ik and ij of each triple: those opposite to its first, second and third unit."""
        (i, j, k), n = self.chosen.T, len(self.up)
        return tuple(of_pairs[flat_pairs(n, a, b)] for a, b in ((j, k), (i, k), (i, j)))

    def _about(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return <d_i>, <d_i d_j> and, of the triples, <d_i d_j d_k> with d = x - p."""
        i, j = self._ends
        one = self.up - p
        two = self.pairs - p[i] * p[j] - p[i] * one[j] - p[j] * one[i]
        q, m = p[self.chosen.T], one[self.chosen.T]
        three = self.triples - q.prod(axis=0) - sum(x * c for x, c in zip(q, self._sides(two), strict=True))
        return one, two, three - q[0] * q[1] * m[2] - q[0] * m[1] * q[2] - m[0] * q[1] * q[2]

    def _products(self, units: Units) -> np.ndarray:
        """Return how often s_i s_j is at its higher value, of all pairs."""
        i, j = self._ends
        return self.pairs if units.lo == 0 else 1.0 - self.up[i] - self.up[j] + 2.0 * self.pairs

    def values(self, units: Units) -> dict[str, np.ndarray]:
        """Return <s_i>, <s_i s_j>, <ds_i ds_j>, <ds_i ds_j ds_k> and P(K) in these units."""
        i, j = self._ends
        mean = units.lo + units.span * self.up
        _, covariance, third = self._about(self.up)
        covariance *= units.span**2
        found = (mean, covariance + mean[i] * mean[j], covariance, units.span**3 * third, self.population)
        return dict(zip(ORDERS, found, strict=True))

    def variances(self, units: Units, by_squares: UpMoments | None = None) -> dict[str, np.ndarray]:
        """Return n times the variance of each of `values` over sets of n independent rows.

        Of weighted rows n is what they are worth, and `by_squares` the moments of the rows by the squares of weights.
        """
        other = by_squares or self
        i, j = self._ends
        v, s = self.up * (1 - self.up), 1 - 2 * self.up
        c, (one, two, _) = self._about(self.up)[1], other._about(self.up)
        pair = (v[i] + s[i] * one[i]) * v[j] + v[i] * s[j] * one[j] + (s[i] * s[j] - 2 * c) * two + c**2
        found = (
            units.span**2 * _of_fraction(self.up, other.up),
            units.span**2 * _of_fraction(self._products(units), other._products(units)),
            units.span**4 * pair,
            units.span**6 * self._third_variance(other),
            _of_fraction(self.population, other.population),
        )
        # differences of nearly equal numbers: a unit that never changes may come out a rounding below 0
        return dict(zip(ORDERS, (np.maximum(x, 0.0) for x in found), strict=True))

    def errors(self, units: Units, scatter: Mapping[str, np.ndarray], n_worth: float) -> dict[str, np.ndarray]:
        """Return standard errors of `values`: their scatter, and what `n_worth` independent rows may not have shown."""
        i, j = self._ends
        span, each, second = units.span, _added(self.up), _added(self._products(units))
        triple = each[self.chosen.T].prod(axis=0)
        found = (span * each, span * second, span**2 * each[i] * each[j], span**3 * triple, _added(self.population))
        more = dict(zip(ORDERS, found, strict=True))
        return {name: np.hypot(scatter[name], math.sqrt(ADDED) / n_worth * more[name]) for name in ORDERS}

    def _third_variance(self, other: UpMoments) -> np.ndarray:
        p = self.up[self.chosen.T]
        v, s = p * (1 - p), 1 - 2 * p
        (_, covariances, k), (one, two, three) = self._about(self.up), other._about(self.up)
        c, e, m = self._sides(covariances), self._sides(two), one[self.chosen.T]
        total = v.prod(axis=0) + s.prod(axis=0) * three - 2 * k * three + k**2
        for a in range(3):
            b, d = (a + 1) % 3, (a + 2) % 3
            total += s[a] * m[a] * v[b] * v[d] + v[a] * s[b] * s[d] * e[a]  # of <d_i^2 d_j^2 d_k^2>
            total += c[a] * (c[a] * (v[a] + s[a] * m[a]) - 2 * (v[a] * e[a] + s[a] * three) + 2 * k * m[a])
            total += 2 * c[b] * c[d] * e[a]
        return total


def _of_fraction(fraction: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the mean square distance of rows from a fraction of them, where `other` is that of those averaged over."""
    return fraction * (1.0 - fraction) + (other - fraction) * (1.0 - 2.0 * fraction)


def _added(fractions: np.ndarray) -> np.ndarray:
    """Return the root of the sum of squares by which a row of either outcome differs from its fraction."""
    return np.hypot(fractions, 1.0 - fractions)


def n_independent(n_rows: int, alone: Mapping[str, np.ndarray], errors: Mapping[str, np.ndarray], least: int) -> float:
    """Return how many independent rows are worth as much, by the errors of pairs, or of means where no pair has any.

    `alone` are those of rows that are independent; where nothing ever changes, these are `least`.
    """
    for name in ("covariance", "mean"):
        known = (alone[name] > 0.0) & (errors[name] > 0.0)
        if known.any():
            return n_rows / max(1.0, float(np.median((errors[name][known] / alone[name][known]) ** 2)))
    return least


def errors_of_blocks(
    up: Rows | np.ndarray, chosen: np.ndarray, together: Together, units: Units, threads: int
) -> dict[str, np.ndarray]:
    """Return standard errors of `UpMoments.values`, by the jackknife over contiguous blocks of rows.

    Efron and Stein, Ann. Stat. 9, 586 (1981), doi:10.1214/aos/1176345462.
    """
    whole, ends = count(up, chosen, threads), together.cuts()
    centre = UpMoments.of(whole, chosen).values(units)
    squares = {name: np.zeros_like(values) for name, values in centre.items()}
    sums = {name: np.zeros_like(values) for name, values in centre.items()}
    for first, end in zip([0, *ends[:-1]], ends, strict=True):
        left = UpMoments.of(whole - count(up[first:end], chosen, threads), chosen).values(units)
        for name, values in left.items():
            difference = values - centre[name]
            sums[name] += difference
            squares[name] += difference**2
    n = len(ends)
    return {name: np.sqrt((n - 1) / n * np.maximum(squares[name] - sums[name] ** 2 / n, 0.0)) for name in centre}


def weighted(up: Rows | np.ndarray, weights: np.ndarray, chosen: np.ndarray) -> UpMoments:
    """Compute moments of weighted rows of bits (m, n_units), summed a block of rows, and of triples, at a time.

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
