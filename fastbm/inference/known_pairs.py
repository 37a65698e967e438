"""Moments of some pairs of units: a sparse array in which a pair that was not computed is not 0 but unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array


class KnownPairs(csr_array):
    """A scipy.sparse.csr_array of the pairs that are known; reading one that is not raises a LookupError.

    ``moments[i, j]``, i and j numbers or arrays of them, is looked up; all else is as of a csr_array, whose entries
    that are not stored read 0 (`toarray`, slices, products): take `nonzero`, or `tocoo`, for what is known.
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple) and len(key) == 2 and all(_is_index(part) for part in key):
            self._need(*np.broadcast_arrays(*(np.asarray(part) for part in key)))
        return super().__getitem__(key)

    def _need(self, i: np.ndarray, j: np.ndarray) -> None:
        n_rows, n_columns = self.shape
        if not i.size or (i >= n_rows).any() or (j >= n_columns).any() or (i < -n_rows).any() or (j < -n_columns).any():
            return  # for scipy to refuse
        rows, columns = (i % n_rows).ravel(), (j % n_columns).ravel()
        unknown = ~self._has(rows, columns)
        if unknown.any():
            pair = int(rows[unknown][0]), int(columns[unknown][0])
            raise LookupError(
                f"the pair of units {pair} was not computed and is not 0 but unknown: of large sparse machines only "
                'coupled pairs are. Ask for others by infer(model, "exact", pairs=[(i, j), ...]).'
            )

    def _has(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if len(rows) == 1:
            return np.array([(self.indices[self.indptr[rows[0]] : self.indptr[rows[0] + 1]] == columns[0]).any()])
        n = self.shape[1]
        stored = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr)) * n + self.indices
        return np.isin(rows.astype(np.int64) * n + columns, stored)


def _is_index(part: Any) -> bool:
    """Return whether this is a number or an array or a list of numbers, and no slice or mask."""
    return not isinstance(part, (slice, type(None), type(...))) and np.asarray(part).dtype.kind in "iu"


def known_pairs(moments: Any) -> Any:
    """Return these moments, as `KnownPairs` where they are sparse."""
    if isinstance(moments, list):
        return [known_pairs(one) for one in moments]
    if not hasattr(moments, "indptr") or isinstance(moments, KnownPairs):
        return moments
    return KnownPairs((moments.data, moments.indices, moments.indptr), shape=moments.shape)
