"""The direction in which the likelihood of a visible machine still rises most, from a gradient that is noisy.

That is F^-1 g, with the data's Fisher information F, the covariance of the sufficient statistics. It is found by
conjugate gradients, which need F times a vector alone: of rows sum_r h_r phi_r, with h_r the vector's sum of
statistics of row r; of moments C D C, of Gaussian units (`fastbm.learning.optimise.rotation`). No matrix of all
pairs of parameters is made, so there may be millions of them.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from ..._base.threads import single_threaded_blas
from ..moments import Parameters
from ..training_set import Sample
from .centring import Centring
from .coordinates import SHRINKAGE, some_rows

N_STEPS, ROUGH = 20, 1e-6  # a rough direction does
LEAST_ROWS, MOST_ROWS = 256, 4096
WORK = 1 << 28  # rows times the square of units
TINIEST = sys.float_info.min


class Uphill:
    """The data's Fisher information in centred and scaled parameters, as a product with vectors."""

    def __init__(self, sample: Sample) -> None:
        like = sample.like
        self._couplings, self._known = like.couplings, sample.known_part
        self._centring = Centring(like, sample.mean, sample.spread)
        width = self._centring.scale[self._centring.n_pairs :]
        self._rows: np.ndarray | None = None  # centred and scaled
        if sample.up is None:
            self._correlations = sample.moments.covariance / (width[:, None] * width[None, :])
            return
        n_rows = min(max(WORK // like.n_units**2, LEAST_ROWS), MOST_ROWS)
        values = like.convention.values(some_rows(sample, n_rows), np.float64)
        self._rows = (values - values.mean(axis=0)) / width

    def __call__(self, gap: Parameters) -> Parameters:
        """Return the direction from a difference of moments, clamped less free; a row gives it a variance of 1."""
        from scipy.sparse.linalg import LinearOperator, cg

        slope = self._centring.slope(gap)
        shrunk = LinearOperator((slope.size,) * 2, lambda way: self._times(way) + SHRINKAGE * way, dtype=np.float64)
        with single_threaded_blas():
            found, _ = cg(shrunk, slope, rtol=ROUGH, maxiter=N_STEPS)
            variance = self._known * float(found @ shrunk.matvec(found))
        return self._centring.parameters(found / max(math.sqrt(variance), TINIEST))

    def _times(self, vector: np.ndarray) -> np.ndarray:
        """Return the information times a vector."""
        pairs, bias = np.split(vector, [self._centring.n_pairs])
        couplings = self._couplings.with_arrays(self._couplings.from_vector(pairs))
        if self._rows is None:
            both = couplings.field(self._correlations) @ self._correlations
            return np.concatenate([couplings.to_vector(couplings.pick(both)), self._correlations @ bias])
        rows = self._rows
        heights = 0.5 * np.sum(rows * couplings.field(rows), axis=1) + rows @ bias
        heights = (heights - heights.mean()) / len(rows)
        up, down = (
            couplings.pair_sums(rows * np.sqrt(np.maximum(sign * heights, 0.0))[:, None]) for sign in (1.0, -1.0)
        )
        return np.concatenate([couplings.to_vector(up) - couplings.to_vector(down), heights @ rows])
