"""Rows that are alike, against NumPy's own search."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm._base.arrays import unlike_rows


@pytest.mark.parametrize("n_units", [0, 1, 8, 40])
@pytest.mark.parametrize(("values", "dtype"), [([0, 1], np.uint8), ([-1, 1], np.float64), ([-1, 1, 2], np.int8)])
def test_rows_that_are_alike_are_found_in_order(values: list[int], dtype: type, n_units: int) -> None:
    generator = np.random.default_rng(0)
    rows = generator.choice(np.array(values, dtype), (30, n_units))[generator.integers(0, 30, 300)]
    first, which = unlike_rows(np.asfortranarray(rows))
    if n_units:
        unique, index, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        assert np.array_equal(rows[first], unique)
        assert np.array_equal(first, index)
        assert np.array_equal(which, inverse.ravel())
    else:
        assert (first.tolist(), which.tolist()) == ([0], [0] * 300)
