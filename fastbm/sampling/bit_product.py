"""What units of one layer that are on add to the fields of another."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .. import aligned
from .._vectors import COLUMNS, ROWS, has_look_up
from ..kernels.bit_products import (
    MASKS,
    NARROW,
    add_plainly,
    add_with_rows,
    add_with_tables,
    fill_tables,
    pack_lanes,
)

TABLES_FROM = 4  # products with the same weights, from which on tables of their sums are worth making
TABLES_BYTES = 1 << 24  # most of them: larger ones leave the cache


class BitProduct:
    """Weights (n, m) whose rows are added up, those of the units that are on.

    Which of the three ways of `fastbm.kernels.bit_products` is taken changes no bit.
    """

    def __init__(self, weights: np.ndarray) -> None:
        n, m = weights.shape
        self._weights = weights
        self._wide = has_look_up() and weights.dtype == np.float32 and m >= COLUMNS
        self._tables: np.ndarray | None = None
        self._n_left = TABLES_FROM if 64 * (n // 4) * m // COLUMNS <= TABLES_BYTES else -1
        self._tail = weights[n // ROWS * ROWS :]
        if self._wide and len(self._tail):
            self._tail = np.zeros((ROWS, m), np.float32)
            self._tail[: n % ROWS] = weights[n // ROWS * ROWS :]

    def add(self, fields: np.ndarray, up: np.ndarray) -> None:
        """Add to `fields` (m, lanes) what `up` (n, lanes) of 0 and 1 pulls; both of the weights' type, C-contiguous."""
        n, m = self._weights.shape
        if not self._wide or up.shape[1] % NARROW:
            add_plainly(fields, self._weights, up, 0)
            return
        words = np.empty((-(-n // ROWS), up.shape[1]), np.uint32)
        pack_lanes(words, up)
        tables = self._tables if self._tables is not None else self._count()
        if tables is not None:
            add_with_tables(fields, tables, words)
        else:
            whole = n // ROWS
            add_with_rows(fields, self._weights, words[:whole], MASKS)
            if whole < len(words):
                add_with_rows(fields, self._tail, words[whole:], MASKS)
        if m % COLUMNS:
            add_plainly(fields, self._weights, up, m - m % COLUMNS)

    @cached_property
    def whole(self) -> np.ndarray:
        """The sum of all rows, (m,)."""
        return self._weights.sum(axis=0)

    def _count(self) -> np.ndarray | None:
        """Count a product, and make the tables if it is time."""
        self._n_left -= 1
        if self._n_left != 0:
            return None
        n, m = self._weights.shape
        padded = np.zeros((-(-n // ROWS) * ROWS, m), np.float32)
        padded[:n] = self._weights
        tables = aligned.zeros((m // COLUMNS, len(padded) // 4, COLUMNS, 16), np.float32)
        fill_tables(tables, padded, MASKS)
        self._tables = tables
        return tables
