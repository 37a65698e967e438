"""Distinct rows of a data set with their weights, in blocks of units by rows."""

from __future__ import annotations

import numpy as np

from ..kernels.local_rules import LANES
from ..units import Units

BLOCK = 1 << 16  # numbers in a block: two arrays of float64 of this size fit a core's own cache
FEWEST = 256  # rows in a block


class Patterns:
    """Distinct rows, a byte a unit, cut into blocks of (n_units, n_rows) that are worked on one at a time.

    Blocks depend on the data alone. A block's last rows may repeat its first one, with weight 0.

    Attributes
    ----------
    values : (n_blocks, n_units, block) int8 array
        In the units of the machine.
    weights : (n_blocks, block // LANES, LANES) array
        They sum to 1.
    means, spread : (n_units,) arrays
        Weighted mean and standard deviation of each unit.
    """

    def __init__(self, up: np.ndarray, units: Units, weights: np.ndarray | None = None) -> None:
        up, shares = distinct(up, weights)
        n_units = up.shape[1]
        size = max(BLOCK // n_units, FEWEST)
        size = min(size, len(up))
        size = -(-size // LANES) * LANES
        n_blocks = -(-len(up) // size)
        places = np.arange(n_blocks * size).reshape(n_blocks, size)
        places = np.where(places < len(up), places, places[:, :1])
        self.weights = np.zeros(n_blocks * size)
        self.weights[: len(up)] = shares
        self.weights = self.weights.reshape(n_blocks, size // LANES, LANES)
        self.values = np.empty((n_blocks, n_units, size), np.int8)
        self.means = np.zeros(n_units)
        for block, weight, rows in zip(self.values, self.weights, places, strict=True):
            block[:] = units.values(up[rows].T)
            self.means += block @ weight.ravel()
        p = np.clip((self.means - units.lo) / units.span, 0.0, 1.0)
        self.means = units.lo + units.span * p
        self.spread = units.span * np.sqrt(p * (1.0 - p))

    def correlations(self) -> np.ndarray:
        """The units' correlation matrix; units that never change are correlated with none."""
        n_units = self.values.shape[1]
        second = np.zeros((n_units, n_units))
        for values, weights in zip(self.values, self.weights, strict=True):
            centred = (values - self.means[:, None]) * np.sqrt(weights.ravel())
            second += centred @ centred.T
        width = np.where(self.spread > 0, self.spread, 1.0)
        second /= width[:, None] * width[None, :]
        np.fill_diagonal(second, 1.0)
        return second


def distinct(up: np.ndarray, weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows of bits that have a weight, and their weights, which sum to 1; sorted."""
    if weights is not None:
        up, weights = up[weights > 0], weights[weights > 0]
    packed = np.packbits(up, axis=1)
    width = packed.shape[1]
    if width <= 8:  # numbers are sorted much faster than strings of bytes
        packed = np.pad(packed, ((0, 0), (0, 8 - width)))
    keys = packed.view(np.uint64 if width <= 8 else np.dtype((np.void, width))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.bincount(inverse, weights=weights, minlength=len(first)).astype(np.float64)
    return up[first], counts / counts.sum()
