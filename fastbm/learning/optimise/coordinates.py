"""Coordinates that an optimiser sees in place of scaled couplings and biases, so that it needs fewer iterations.

Those along eigenvectors of correlations are in `fastbm.learning.optimise.rotation`.

`Split`: D = p - q with p, q >= 0, where an l1 penalty is linear: couplings that end at both bounds are exactly 0.

`Whitened`: the likelihood of a visible machine is about as curved along one direction as along any other. At its
maximum the curvature of the mean log-likelihood of a row is the covariance of the sufficient statistics (s_i s_j, s_i),
the Fisher information, and there the machine's is the data's but for their noise. So the data's own covariance C is a
metric at no cost: with C = R R^T the coordinates R^T theta need ten or twenty iterations where scaled parameters take a
hundred. It is the natural gradient with a metric that is known beforehand: Amari, Neural Comput. 10, 251 (1998),
doi:10.1162/089976698300017746.

Statistics are two-valued, so a row's are bits, and the second moments of all of them are counts of bits that two words
share: exact, and 64 rows at a time. Of moments alone there are no fourth ones; those of a Gaussian with the same
covariance (Wick's theorem) stand in for them.
"""

from __future__ import annotations

import numpy as np

from ..._base import rng
from ..._base.threads import single_threaded_blas
from ...data.rows import pack_rows
from ...kernels.bits import count_pairs
from ...machine.machine import BoltzmannMachine
from ..errors.statistics import Statistics
from ..settings import FitSettings
from ..training_set import Sample, means_of_known
from .centring import Centring

MOST_PARAMETERS = 1_500  # whose matrix is soon factored
MOST_UNITS = 1_024  # whose correlations are
MOST_ROWS = 1 << 16  # more make the metric no better
FILLINGS = 10  # rounds in which what rows lack is drawn
LEAST_VARIANCE = 1e-6  # of a unit that never changes
OFTEN = 64  # times: a direction with a thousandth of the variance of independent units is left with 0.002
SHRINKAGE = 0.01  # part of the information of independent units that is added: pairs may have a state never seen


class Plain:
    """Coordinates that are the pairs themselves."""

    def __init__(self, n_pairs: int) -> None:
        self.size = n_pairs

    def into(self, pairs: np.ndarray) -> np.ndarray:
        """Return the coordinates of `pairs`."""
        return pairs

    def back(self, vector: np.ndarray) -> np.ndarray:
        """Return the pairs at given coordinates."""
        return vector

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates, penalty included, from that by the pairs."""
        return pairs

    def penalty(self, vector: np.ndarray) -> float:
        """Return the penalty that the coordinates themselves add."""
        return 0.0

    @property
    def lower(self) -> np.ndarray | None:
        """Lower bounds of the coordinates."""
        return None


class Split(Plain):
    """Coordinates by D = p - q, p, then q; `price` is what a unit of each pair's |D| costs."""

    def __init__(self, price: np.ndarray) -> None:
        super().__init__(2 * price.size)
        self._price = price

    def into(self, pairs: np.ndarray) -> np.ndarray:
        """Return the coordinates of `pairs`."""
        return np.concatenate([np.maximum(pairs, 0.0), np.maximum(-pairs, 0.0)])

    def back(self, vector: np.ndarray) -> np.ndarray:
        """Return the pairs at given coordinates."""
        n = self._price.size
        return vector[:n] - vector[n:]

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates, penalty included, from that by the pairs."""
        return np.concatenate([pairs + self._price, self._price - pairs])

    def penalty(self, vector: np.ndarray) -> float:
        """Return the penalty sum price |D|."""
        n = self._price.size
        return float(self._price @ (vector[:n] + vector[n:]))

    @property
    def lower(self) -> np.ndarray | None:
        """Lower bounds of the coordinates, all 0."""
        return np.zeros(self.size)


class Whitened(Plain):
    """Coordinates by whitening: R^T times the centred and scaled parameters; `metric` is R R^T.

    Of the metric's diagonal, `shrinkage` tells nothing of the data.
    """

    def __init__(self, metric: np.ndarray, shrinkage: float) -> None:
        super().__init__(len(metric))
        self._shrinkage = shrinkage
        from scipy.linalg.lapack import dtrtri

        with single_threaded_blas():  # the same bits whatever the number of threads
            self._root = np.linalg.cholesky(metric)
            self._inverse, _ = dtrtri(self._root, lower=1)

    def into(self, pairs: np.ndarray) -> np.ndarray:
        """Return the coordinates of the centred and scaled parameters."""
        return np.asarray(self._root.T @ pairs)

    def back(self, vector: np.ndarray) -> np.ndarray:
        """Return the centred and scaled parameters at given coordinates."""
        return np.asarray(self._inverse.T @ vector)

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates from that by the centred and scaled parameters."""
        return np.asarray(self._inverse @ pairs)

    def unvaried(self, vector: np.ndarray) -> np.ndarray:
        """Return the part of a step, in coordinates, along directions of which data tell nothing but the shrinkage.

        The inverse of the metric, which is largest there, is applied often.
        """
        with single_threaded_blas():
            found = self._inverse.T @ vector
            for _ in range(OFTEN):
                found = self._shrinkage * (self._inverse.T @ (self._inverse @ found))
            return np.asarray(self._root.T @ found)

    def plain_slope(self, slope: np.ndarray) -> np.ndarray:
        """Return the gradient by the centred and scaled parameters from that by the coordinates."""
        return np.asarray(self._root @ slope)


def whitened(like: BoltzmannMachine, sample: Sample, settings: FitSettings, centring: Centring) -> Whitened | None:
    """Return coordinates for a machine without hidden units; None where it has too many parameters."""
    if centring.scale.size > MOST_PARAMETERS:
        return None
    statistics = Statistics(like)
    of_rows = sample.up is not None
    of_data = _of_rows(statistics, sample, centring) if of_rows else _of_moments(statistics, sample, centring)
    metric = sample.known_part * of_data + penalty_curvature(statistics, settings, centring)
    shrinkage = SHRINKAGE * sample.known_part
    metric[np.diag_indices(len(metric))] += shrinkage
    return Whitened(metric, shrinkage)


def _of_rows(statistics: Statistics, sample: Sample, centring: Centring) -> np.ndarray:
    """Return the covariance of the centred and scaled statistics over rows; independent units give variances of 1."""
    up = some_rows(sample)
    n, spins = statistics.n_pairs, sample.like.units == "spin"
    words = pack_rows(up)
    first, second = words[statistics.i], words[statistics.j]
    # bits beyond the last row are 0 in `words`, and must be so in products of spins, whose bits tell where signs differ
    bits = np.concatenate([first ^ second if spins else first & second, words])
    counts = np.zeros((len(statistics),) * 2, np.int64)
    count_pairs(bits, counts)
    shares = counts / len(up)
    shares += np.triu(shares, 1).T
    mean = np.diagonal(shares)
    covariance = shares - mean[:, None] * mean[None, :]
    if spins:  # s = 2 bit - 1; s s' = 1 - 2 bit
        signs = np.repeat([-2.0, 2.0], [n, statistics.n_units])
        covariance *= signs[:, None] * signs[None, :]
    return _centred(statistics, covariance, centring)


def some_rows(sample: Sample, most: int | None = None) -> np.ndarray:
    """Return all rows, or the `most` that enter, evenly spaced; by weight where they have any.

    What they lack is drawn by regression on the rest of the row.
    """
    most = MOST_ROWS if most is None else most
    up, chosen = sample.rows, np.arange(min(len(sample.rows), most))
    if sample.weights is not None:
        ends = np.cumsum(sample.weights)
        chosen = np.searchsorted(ends, (chosen + 0.5) * (ends[-1] / len(chosen)))
        chosen = np.minimum(chosen, len(up) - 1)
    elif len(up) > most:
        chosen = chosen * len(up) // most
    found = up[chosen]
    if not up.complete:
        return _filled(found, up.known(chosen) != 0, means_of_known(up, sample.weights))
    return found


def _filled(up: np.ndarray, known: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return rows whose unknown entries are drawn, first with chances `p`, then by linear regression on all others.

    Unlike independent draws, these keep the small eigenvalues of the correlations, unless rows are too few to tell of
    them. Raghunathan et al., Survey Methodology 27, 85 (2001) (chained equations).
    """
    generator, (n_rows, n) = rng.keyed(0, rng.MODEL, len(up)), up.shape
    found = np.where(known, up, generator.random(up.shape) < p).astype(np.uint8)
    ridge = (SHRINKAGE + n / n_rows) * p * (1.0 - p) + LEAST_VARIANCE
    with single_threaded_blas():
        for _ in range(FILLINGS if n <= MOST_UNITS else 0):
            apart = found - p
            precision = np.linalg.inv(apart.T @ apart / n_rows + np.diag(ridge))
            slopes = -precision / np.diagonal(precision)
            np.fill_diagonal(slopes, 0.0)
            found = np.where(known, up, generator.random(up.shape) < p + apart @ slopes).astype(np.uint8)
    return found


def _centred(statistics: Statistics, covariance: np.ndarray, centring: Centring) -> np.ndarray:
    """Return the covariance of the centred and scaled statistics from that of the statistics.

    (s_i - mu_i)(s_j - mu_j) = s_i s_j - mu_j s_i - mu_i s_j + mu_i mu_j, and s_i.
    """
    i, j, n = statistics.i, statistics.j, statistics.n_pairs
    means = centring.means
    for rows in (covariance, covariance.T):  # in place, one side after the other
        rows[:n] -= means[j, None] * rows[n + i] + means[i, None] * rows[n + j]
    covariance /= centring.scale[:, None] * centring.scale[None, :]
    return covariance


def _of_moments(statistics: Statistics, sample: Sample, centring: Centring) -> np.ndarray:
    """Return the covariance that Gaussian x of these moments give to the statistics.

    Cov(x_i x_j, x_k x_l) = C_ik C_jl + C_il C_jk and Cov(x_i x_j, x_k) = 0.
    """
    i, j, n = statistics.i, statistics.j, statistics.n_pairs
    width = centring.scale[n:]
    correlations = sample.moments.covariance / (width[:, None] * width[None, :])
    found = np.zeros((len(statistics),) * 2)
    found[:n, :n] = correlations[np.ix_(i, i)] * correlations[np.ix_(j, j)]
    found[:n, :n] += correlations[np.ix_(i, j)] * correlations[np.ix_(j, i)]
    found[n:, n:] = correlations
    return found


def penalty_curvature(statistics: Statistics, settings: FitSettings, centring: Centring) -> np.ndarray:
    """Return the curvature of the penalty in the centred and scaled parameters.

    W_ij is its coordinate over the scale, and b is the biases' over theirs less W mu.
    """
    i, j, n = statistics.i, statistics.j, statistics.n_pairs
    found = np.diag(np.repeat([settings.l2, 0.0], [n, statistics.n_units]) / centring.scale**2)
    if settings.l2_bias:
        of_bias = np.zeros((statistics.n_units, len(statistics)))
        pairs, units = np.arange(n), np.arange(statistics.n_units)
        of_bias[i, pairs] = -centring.means[j]
        of_bias[j, pairs] = -centring.means[i]
        of_bias[units, n + units] = 1.0
        of_bias /= centring.scale
        found += settings.l2_bias * of_bias.T @ of_bias
    return found
