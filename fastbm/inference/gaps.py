"""Missing visible units of a restricted machine, by block Gibbs sampling of rows that each lack others.

Hidden units are drawn given all visible ones, then the missing ones given these. Rows share the matrix products,
whatever they lack. Ackley, Hinton and Sejnowski, Cognitive Science 9, 147 (1985), doi:10.1207/s15516709cog0901_7.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from .. import rng
from ..model import BoltzmannMachine
from ..threads import fan_out, single_threaded_blas
from .given import How

ROWS = 256  # of a block, which has random numbers of its own


def sample_gaps(model: BoltzmannMachine, up: np.ndarray, lacking: np.ndarray, how: How, draw: bool) -> np.ndarray:
    """Return bits of the last sweep, or averages over sweeps of P(v_i up | hidden units), (n_rows, n_visible).

    Parameters
    ----------
    up, lacking : (n_rows, n_visible) arrays
        Bits, and where they are missing; elsewhere the result has no meaning.
    """
    units, n = model.convention, model.n_visible
    slope = how.beta * units.span
    block, bias = model.couplings.arrays[0], model.flat_bias
    to_hidden = slope * units.span * block  # of bits
    hidden_field = slope * (bias[n:] + units.lo * block.sum(axis=0))
    visible_field = slope * (bias[:n] + units.lo * block.sum(axis=1))
    to_visible = np.ascontiguousarray(to_hidden.T)

    def one(first: int) -> np.ndarray:
        generator = rng.keyed(how.seed, rng.CLAMPED, first)
        gaps = lacking[first : first + ROWS]
        state = np.where(gaps, generator.random(gaps.shape) < 0.5, up[first : first + ROWS]).astype(np.float64)
        total = np.zeros(gaps.shape)
        for k in range(how.burn_in + how.n_sweeps):
            p = expit(state @ to_hidden + hidden_field)
            hidden = (generator.random(p.shape) < p).astype(np.float64)
            p = expit(hidden @ to_visible + visible_field)
            np.copyto(state, generator.random(p.shape) < p, where=gaps)
            if k >= how.burn_in:
                total += p
        return state if draw else total / how.n_sweeps

    with single_threaded_blas():
        return np.concatenate(fan_out(one, range(0, len(up), ROWS), how.threads))
