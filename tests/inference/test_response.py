"""The inverse of a matrix, tile by tile, and how wide a graph is, on which its cost depends."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.fixed_point.response import invert, widest_level


@pytest.mark.parametrize("n", [1, 5, 256, 257, 700])
def test_matrices_are_inverted_tile_by_tile(n: int) -> None:
    root = np.random.default_rng(n).normal(size=(n, n + 5))
    matrix = root @ root.T / n + 0.1 * np.eye(n)
    found = invert(matrix.copy())
    np.testing.assert_allclose(found @ matrix, np.eye(n), atol=1e-9)
    assert np.array_equal(found, found.T)
    assert np.array_equal(found, invert(matrix.copy(), threads=3))
    indefinite, singular = matrix.copy(), matrix.copy()
    indefinite[-1, -1] = -1.0
    assert invert(indefinite) is None
    singular[-1] = singular[:, -1] = 0.0
    singular[-1, -1] = 1e-13
    assert n == 1 or invert(singular) is None


def test_how_wide_a_graph_is() -> None:
    assert widest_level(bm.models.ising((1000,), periodic=False).couplings) == 1
    assert widest_level(bm.models.ising((30, 40), periodic=False).couplings) == 30
    assert widest_level(bm.models.random_tree(1).couplings) == 1
    tree = bm.models.random_tree(20_000, seed=1)
    assert widest_level(tree.couplings) == 1
    found = bm.infer(tree, "mean-field")
    assert found.covariance.nnz == 20_000 + 2 * 19_999
