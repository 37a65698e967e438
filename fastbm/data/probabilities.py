"""Rows of probabilities of ones, dense or sparse: what lies outside of 0 to 1, and bits that are drawn from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from .._base import checks

BLOCK_ROWS = 4096  # that are made dense at once
ROUNDING = 1e-6  # beyond 0 and 1, as scaling in single precision leaves it


def probabilities(rows: Any) -> Any:
    """Return rows, an array or CSR, of floats, clipped to 0 and 1; warn where that is more than rounding."""
    if scipy.sparse.issparse(rows):
        rows = rows.copy()
        rows.sum_duplicates()
        rows.data = probabilities(rows.data)
        return rows
    low, high = rows.min(initial=0.0), rows.max(initial=0.0)
    if low < -ROUNDING or high > 1.0 + ROUNDING:
        checks.warn(
            f"X must hold probabilities of ones, from 0 to 1; values are from {low:.3g} to {high:.3g}: those below 0 "
            "count as 0, those above 1 as 1. Scale X (sklearn.preprocessing.MinMaxScaler) or pass X > threshold.",
            UserWarning,
        )
    return np.clip(rows, 0.0, 1.0)


def dense_block(rows: Any, first: int) -> np.ndarray:
    """Return `BLOCK_ROWS` rows from `first` on."""
    part = rows[first : first + BLOCK_ROWS]
    return np.asarray(part.toarray() if scipy.sparse.issparse(part) else part)


def bits(rows: np.ndarray) -> np.ndarray:
    """Return the likelier bits of probabilities."""
    return (rows > 0.5).astype(np.int8)


def drawn_bits(rows: Any, generator: np.random.Generator) -> np.ndarray:
    """Draw rows of bits from probabilities, packed."""
    found = []
    for first in range(0, rows.shape[0], BLOCK_ROWS):
        part = dense_block(rows, first)
        found.append(np.packbits(generator.random(part.shape) < part, axis=1, bitorder="little"))
    return np.concatenate(found)
