"""Products with matrices of zeros and ones as sums of rows, held against plain sums."""

from __future__ import annotations

import numpy as np
import pytest
import reference_sampling as slow
from hypothesis import given, settings, strategies as st

from fastbm.kernels.row_sums import TILE, add_rows, fill_tiles, list_units

FLOATS = [np.float32, np.float64]


def product(weights: np.ndarray, up: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """What `add_rows` makes of `fields` (m, lanes); `up` is (n, lanes)."""
    n, m = weights.shape
    lanes = up.shape[1]
    tiles = np.zeros((-(-m // TILE), n, TILE), weights.dtype)
    fill_tiles(tiles, weights)
    rows, counts, turned = np.zeros((lanes, n + 1), np.int32), np.zeros(lanes, np.int64), np.zeros(lanes, np.uint8)
    list_units(rows, counts, turned, up)
    found, sums = fields.copy(), np.empty((lanes, TILE), weights.dtype)
    add_rows(found, sums, tiles, weights.sum(axis=0), rows, counts, turned)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 70), st.integers(1, 2 * TILE + 3), st.floats(0, 1), st.sampled_from(FLOATS), st.integers(0, 2**32)
)
def test_sums_are_those_of_the_twin(n, m, part, dtype, seed):
    generator = np.random.default_rng(seed)
    weights = generator.normal(size=(n, m)).astype(dtype)
    up, fields = (generator.random((n, 5)) < part).astype(dtype), generator.normal(size=(m, 5)).astype(dtype)
    found = product(weights, up, fields)
    for lane in range(5):
        expected = fields[:, lane] + np.array(slow.row_sums(weights.tolist(), up[:, lane].tolist()))
        assert np.abs(found[:, lane] - expected).max() <= 4 * n * np.finfo(dtype).eps * (1 + np.abs(weights).max())


@pytest.mark.parametrize("part", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_units_that_are_off_are_listed_where_most_are_on(part):
    up = np.zeros((10, 3), np.uint8)
    up[: round(10 * part)] = 1
    rows, counts, turned = np.zeros((3, 11), np.int32), np.zeros(3, np.int64), np.zeros(3, np.uint8)
    list_units(rows, counts, turned, up)
    listed = np.flatnonzero(up[:, 0] == (0 if part > 0.5 else 1))
    assert turned.tolist() == [int(part > 0.5)] * 3
    assert all(rows[lane, : counts[lane]].tolist() == listed.tolist() for lane in range(3))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_lane_does_not_depend_on_its_neighbours(dtype):
    generator = np.random.default_rng(3)
    weights, fields = generator.normal(size=(90, 200)).astype(dtype), np.zeros((200, 9), dtype)
    up = (generator.random((90, 9)) < np.linspace(0, 1, 9)).astype(np.uint8)
    whole = product(weights, up, fields)
    parts = [product(weights, np.ascontiguousarray(up[:, k]), fields[:, k].copy()) for k in (slice(0, 2), slice(2, 9))]
    assert np.array_equal(np.hstack(parts), whole)
