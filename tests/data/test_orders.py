"""The order of rows, and which of them are held out, where they are too many for a list."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm._base import rng
from fastbm.data.datasets import holding_out, split
from fastbm.learning import minibatches
from fastbm.learning.minibatches import order_of_rows, shuffled


@pytest.mark.parametrize("n", [2, 3, 10, 255, 256, 257, 4097])
def test_a_computed_order_is_a_permutation(n: int) -> None:
    orders = [shuffled(np.arange(n, dtype=np.uint64), n, rng.keyed(0, rng.BATCHES, k)) for k in range(3)]
    for order in orders:
        assert np.array_equal(np.sort(order), np.arange(n))
    if n > 10:
        assert not np.array_equal(orders[0], orders[1])


def test_places_of_a_computed_order_are_uniform() -> None:
    n, n_orders = 8, 4000
    orders = np.array([shuffled(np.arange(n, dtype=np.uint64), n, rng.keyed(1, 0, k)) for k in range(n_orders)])
    for place in range(n):
        counts = np.bincount(orders[:, place], minlength=n)
        assert (((counts - n_orders / n) ** 2) / (n_orders / n)).sum() < 30  # chi^2 of 7 degrees: 1e-4
    pairs = np.bincount(orders[:, 0] * n + orders[:, 1], minlength=n * n).reshape(n, n)
    off = pairs[~np.eye(n, dtype=bool)]
    assert (((off - off.mean()) ** 2) / off.mean()).sum() < 110  # chi^2 of 55 degrees


def test_the_order_of_many_rows_is_made_place_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibatches, "LISTED", 10)
    whole = order_of_rows(1000, 3, 2, None, slice(None))
    assert np.array_equal(np.sort(whole), np.arange(1000))
    assert np.array_equal(order_of_rows(1000, 3, 2, None, slice(100, 250)), whole[100:250])


def test_held_out_rows_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    few = holding_out(50, 0.2, 4)
    assert np.array_equal(np.flatnonzero(few(0, 50)), split(50, 0.2, 4)[1])
    assert np.array_equal(few(10, 20), few(0, 50)[10:20])
    monkeypatch.setattr("fastbm.data.datasets.LISTED", 10)
    n = 200_000
    many = holding_out(n, 0.2, 4)
    whole = many(0, n)
    assert np.array_equal(many(65_000, 140_001), whole[65_000:140_001])
    assert abs(whole.mean() - 0.2) < 4 * np.sqrt(0.16 / n)
