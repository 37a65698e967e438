"""Distinct rows of a data set, and how much each of them counts."""

from __future__ import annotations

import numpy as np

from ..rows import Rows

MOST_NUMBERS = 1 << 24  # of distinct rows: where there are more, rows are seldom alike, and are taken as they are


def distinct(up: Rows | np.ndarray, weights: np.ndarray | None = None) -> tuple[Rows, np.ndarray | None]:
    """Return the distinct rows that have a weight, sorted, and their shares, which sum to 1. Rows that lack different
    entries differ.

    One pass, a part of the rows at a time. Where the distinct ones are too many they are not told apart: then all rows
    are returned, and None for the shares where rows count alike.
    """
    up = Rows.of(up)
    width = -(-up.n_units // 8)
    table, counts = np.zeros((0, width if up.complete else 2 * width), np.uint8), np.zeros(0)
    for some in up.blocks():
        packed = up.packed(some)
        if (known := up.packed_known(some)) is not None:
            packed = np.concatenate([packed, known], axis=1)
        here = np.ones(len(packed)) if weights is None else weights[some]
        if weights is not None:
            packed, here = packed[here > 0], here[here > 0]
        table, counts = _merged(np.concatenate([table, packed]), np.concatenate([counts, here]))
        if len(table) * up.n_units > MOST_NUMBERS:
            return up, None if weights is None else weights / weights.sum()
    known = None if up.complete else table[:, width:]
    return Rows.of_packed(table[:, :width], up.n_units, known), counts / counts.sum()


def _merged(packed: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row once, with the sum of its counts."""
    width = packed.shape[1]
    keys = packed
    if width <= 8:  # numbers are sorted much faster than strings of bytes
        keys = np.pad(packed, ((0, 0), (0, 8 - width)))
    keys = np.ascontiguousarray(keys).view(np.uint64 if width <= 8 else np.dtype((np.void, width))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return packed[first], np.bincount(inverse.ravel(), weights=counts, minlength=len(first))
