"""Distinct rows of a data set with their weights, in blocks of units by rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kernels.local_rules import LANES
from ..rows import Rows
from ..units import Units
from .distinct import MOST_NUMBERS, distinct

BLOCK = 1 << 16  # numbers in a block: two arrays of float64 of this size fit a core's own cache
FEWEST = 256  # rows in a block


class Patterns:
    """Distinct rows, a byte a unit, cut into blocks of (n_units, n_rows) that are worked on one at a time.

    Blocks depend on the data alone; they are kept where rows are in memory or few, else made each time. A block's last
    rows may repeat its first one, with weight 0.

    Attributes
    ----------
    n_blocks, n_units, size : int
        `size` rows a block.
    means, spread : (n_units,) arrays
        Weighted mean and standard deviation of each unit.
    """

    def __init__(self, up: Rows | np.ndarray, units: Units, weights: np.ndarray | None = None) -> None:
        self._rows, self._shares = distinct(up, weights)
        self._units = units
        n_rows, self.n_units = self._rows.shape
        size = min(max(BLOCK // self.n_units, FEWEST), n_rows)
        self.size = -(-size // LANES) * LANES
        self.n_blocks = -(-n_rows // self.size)
        self._kept: list[tuple[np.ndarray, np.ndarray]] | None = None
        if self._rows.in_memory or n_rows * self.n_units <= MOST_NUMBERS:
            self._kept = [self._make(k) for k in range(self.n_blocks)]
        p = self._rows.sums(self._shares) / (n_rows if self._shares is None else 1.0)
        p = np.clip(p, 0.0, 1.0)
        self.means = units.lo + units.span * p
        self.spread = units.span * np.sqrt(p * (1.0 - p))

    def block(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Values (n_units, size) int8 in the units of the machine, and weights (size / LANES, LANES), which sum to 1
        over all blocks.
        """
        return self._make(k) if self._kept is None else self._kept[k]

    def _make(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        first = k * self.size
        n_rows = min(self.size, len(self._rows) - first)
        values = np.empty((self.n_units, self.size), np.int8)
        values[:, :n_rows] = self._units.values(self._rows[first : first + n_rows].T)
        values[:, n_rows:] = values[:, :1]
        weights = np.zeros(self.size)
        weights[:n_rows] = 1.0 / len(self._rows) if self._shares is None else self._shares[first : first + n_rows]
        return values, weights.reshape(-1, LANES)

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return map(self.block, range(self.n_blocks))

    def correlations(self) -> np.ndarray:
        """The units' correlation matrix; units that never change are correlated with none."""
        second = np.zeros((self.n_units, self.n_units))
        for values, weights in self._blocks():
            centred = (values - self.means[:, None]) * np.sqrt(weights.ravel())
            second += centred @ centred.T
        width = np.where(self.spread > 0, self.spread, 1.0)
        second /= width[:, None] * width[None, :]
        np.fill_diagonal(second, 1.0)
        return second
