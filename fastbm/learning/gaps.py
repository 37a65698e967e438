"""Missing entries of rows: units that are clamped in some rows and free in others.

Rows are handed to phases as values, NaN where an entry is missing.
"""

from __future__ import annotations

import numpy as np

from ..rows import Rows
from ..units import Units


def values_of(units: Units, rows: Rows, which: slice | np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Values of some rows, NaN where an entry is missing."""
    found = units.values(rows[which], dtype)
    if not rows.complete:
        found[rows.known(which) == 0] = np.nan
    return found


def means_of_known(rows: Rows, weights: np.ndarray | None = None) -> np.ndarray:
    """The parts of the rows in which a unit is known, by weight, in which it is up; 1/2 where it is never known."""
    counts = rows.known_counts(weights)
    seen = counts > 0
    found: np.ndarray = np.where(seen, rows.sums(weights) / np.where(seen, counts, 1.0), 0.5)
    return found
