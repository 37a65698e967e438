"""Coordinates of scaled couplings along the eigenvectors of the units' correlations.

Of scaled couplings D_ij = W_ij sigma_i sigma_j of the pairs i < j, and correlations C = U diag(lambda) U^T, they hold
the symmetric Y of D = U Y U^T, whose entries a <= b are numbers enough. The diagonal of D is left out, so that n_units
of them are too many, in whose directions the objective is flat.

`Rotation`, for local rules: with units that are close to independent, a change of D raises the objective by tr(D C D)
up to a factor. That is sum_a<=b (lambda_a + lambda_b) Y_ab^2 with half of the diagonal, so that X_ab = 2 Y_ab
sqrt(lambda_a + lambda_b) has nearly no curvature but a multiple of the unit matrix.

`Gaussian`, for the likelihood: Gaussian units of these correlations have products s_i s_j whose covariance is C_ik C_jl
+ C_il C_jk (Wick's theorem), so that the log-likelihood of a visible machine has the curvature tr(D C D C) / 2, about,
and X_ab = Y_ab sqrt(lambda_a lambda_b) none but a multiple of the unit matrix.
"""

from __future__ import annotations

import math

import numpy as np

from ..._base.threads import fan_out, single_threaded_blas
from ..settings import FitSettings
from ..training_set import Sample
from .centring import Centring
from .coordinates import MOST_UNITS, Plain, some_rows

RIDGE = 0.02  # added to lambda_a + lambda_b: units that are copies of each other make them 0
SMALLEST = 0.05  # added to lambda_a of Gaussian units: rows tell the small ones badly
STRIP = 256  # rows of a product with a symmetric matrix that are made at once


class Rotation(Plain):
    """Coordinates X_ab = Y_ab r_ab, a <= b, for the pairs of all units; of the diagonal, over the square root of 2.

    `ridge` is a curvature that a penalty adds to all lambda_a + lambda_b. Products with matrices are shared by threads.
    """

    def __init__(self, correlations: np.ndarray, threads: int, ridge: float = 0.0) -> None:
        self._ridge = RIDGE + ridge
        with single_threaded_blas():  # the same bits whatever the number of threads
            values, basis = np.linalg.eigh(correlations)
        self._threads, self._basis = threads, basis
        self._pairs = np.triu(np.ones(basis.shape, bool), 1)
        self._numbers = np.triu(np.ones(basis.shape, bool))
        self._diagonal = np.eye(len(basis), dtype=bool)[self._numbers]
        roots = self._roots_of(np.maximum(values, 0.0))
        np.fill_diagonal(roots, math.sqrt(2.0) * np.diagonal(roots))
        self._roots = roots[self._numbers]
        self._half, self._whole, self._found = (np.zeros(basis.shape) for _ in range(3))  # new memory takes long
        super().__init__(self._roots.size)

    def _roots_of(self, values: np.ndarray) -> np.ndarray:
        """Return the r_ab, (n, n), from the lambda_a."""
        return np.asarray(2.0 * np.sqrt(values[:, None] + values[None, :] + self._ridge))

    def into(self, pairs: np.ndarray) -> np.ndarray:
        """Return the coordinates of `pairs`."""
        numbers = self._along(pairs)
        numbers[self._diagonal] *= 0.5
        return numbers * self._roots

    def back(self, vector: np.ndarray) -> np.ndarray:
        """Return the pairs at given coordinates."""
        return self._product(self._basis, self._numbers, vector / self._roots, self._pairs)

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates from that by the pairs."""
        return self._along(pairs) / self._roots

    def _along(self, pairs: np.ndarray) -> np.ndarray:
        """Return the entries a <= b of U^T D U, where D holds `pairs`."""
        return self._product(self._basis.T, self._pairs, pairs, self._numbers)

    def _product(self, axes: np.ndarray, given: np.ndarray, half: np.ndarray, wanted: np.ndarray) -> np.ndarray:
        """Return the `wanted` entries, on and above the diagonal, of A (H + H^T) A^T: H holds `half` where `given`."""
        self._half[:] = 0.0
        self._half[given] = half
        np.add(self._half, self._half.T, out=self._whole)

        def write(first: int) -> None:
            rows = slice(first, first + STRIP)
            np.matmul(axes[rows] @ self._whole, axes[first:].T, out=self._found[rows, first:])

        with single_threaded_blas():
            fan_out(write, range(0, len(axes), STRIP), self._threads)
        return self._found[wanted]


class Gaussian(Rotation):
    """Coordinates by the information of Gaussian units: those for all pairs of units, then those of biases.

    `factor` is that of the information, `penalties` are added curvatures of centred and scaled couplings and biases.
    """

    def __init__(self, correlations: np.ndarray, factor: float, penalties: tuple[float, float], threads: int) -> None:
        self._factor, self._penalties = factor, penalties
        super().__init__(correlations, threads)
        self.size += len(self._basis)

    def _roots_of(self, values: np.ndarray) -> np.ndarray:
        values = values + SMALLEST
        self._widths = np.sqrt(self._factor * values + self._penalties[1])
        return np.asarray(np.sqrt(self._factor * values[:, None] * values[None, :] + self._penalties[0]))

    def into(self, pairs: np.ndarray) -> np.ndarray:
        """Return the coordinates of centred and scaled parameters."""
        couplings, bias = self._apart(pairs)
        return np.concatenate([super().into(couplings), self._turned(self._basis.T, bias) * self._widths])

    def back(self, vector: np.ndarray) -> np.ndarray:
        """Return the centred and scaled parameters at given coordinates."""
        couplings, bias = self._apart(vector)
        return np.concatenate([super().back(couplings), self._turned(self._basis, bias / self._widths)])

    def slope(self, pairs: np.ndarray) -> np.ndarray:
        """Return the gradient by the coordinates from that by the centred and scaled parameters."""
        couplings, bias = self._apart(pairs)
        return np.concatenate([super().slope(couplings), self._turned(self._basis.T, bias) / self._widths])

    def _apart(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return vector[: -len(self._basis)], vector[-len(self._basis) :]

    def _turned(self, axes: np.ndarray, bias: np.ndarray) -> np.ndarray:
        with single_threaded_blas():
            return np.asarray(axes @ bias)


def gaussian(sample: Sample, settings: FitSettings, centring: Centring, threads: int) -> Gaussian | None:
    """Return coordinates by correlations alone; None unless all pairs of units are coupled, or where they are too many.

    Only a part of the pairs is more curved than these coordinates say.
    """
    n = sample.like.n_units
    if n > MOST_UNITS or centring.n_pairs < n * (n - 1) // 2:
        return None
    width = centring.scale[centring.n_pairs :]
    of_pairs = settings.l2 * float(np.mean(centring.scale[: centring.n_pairs] ** -2.0)) if centring.n_pairs else 0.0
    of_bias = settings.l2_bias * float(np.mean(width**-2.0))
    if sample.has_gaps:
        with single_threaded_blas():
            rows = sample.like.convention.values(some_rows(sample), np.float64)
            covariance = np.cov(rows, rowvar=False, bias=True)
    else:
        covariance = sample.moments.covariance
    correlations = covariance / (width[:, None] * width[None, :])
    return Gaussian(correlations, sample.known_part, (of_pairs, of_bias), threads)
