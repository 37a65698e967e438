"""Sums of pairs over even and odd chains against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm.data.rows import pack_rows
from fastbm.kernels.learning.batches import add_halves_of_means
from fastbm.kernels.learning.contrastive import add_halves, count_halves
from tests.twins import reference

PAIRS = np.array([[0, 2, 1, 4], [1, 3, 4, 5]])


@pytest.mark.parametrize("n_chains", [1, 2, 63, 64, 65, 130])
@pytest.mark.parametrize("differ", [False, True])
def test_counts(n_chains: int, differ: bool):
    up = np.random.default_rng(n_chains).integers(0, 2, (n_chains, 6)).astype(np.uint8)
    counts = np.ones((2, 4), np.int64)
    count_halves(counts, pack_rows(up), PAIRS, differ)
    values = 1 - 2 * up.astype(int) if differ else up.astype(int)  # unlike spins multiply to -1
    for half in range(2):
        sums, n = reference.half_sums(values, PAIRS.T.tolist(), half)
        assert (counts[half] - 1).tolist() == [(n - total) // 2 if differ else total for total in sums]


@pytest.mark.parametrize("n_chains", [1, 2, 65])
def test_sums_of_values(n_chains: int):
    values = np.random.default_rng(n_chains).normal(size=(n_chains, 6)).astype(np.float32)
    sums = np.ones((2, 4))
    add_halves(sums, values, PAIRS)
    for half in range(2):
        np.testing.assert_allclose(sums[half] - 1, reference.half_sums(values, PAIRS.T.tolist(), half)[0], atol=1e-5)


@pytest.mark.parametrize("n_chains", [1, 2, 15, 70])
def test_sums_of_means(n_chains: int):
    generator = np.random.default_rng(n_chains)
    up = generator.integers(0, 2, (n_chains, 4)).astype(np.uint8)
    means, first = np.zeros((200, 3), np.float32), 64
    means[first : first + n_chains] = generator.random((n_chains, 3))
    pairs, sums, pair = np.array([[0, 1, 1, 3], [2, 0, 2, 1]]), np.zeros((2, 4)), 0
    for unit in range(4):
        places = (first + np.flatnonzero(up[:, unit])).astype(np.int32)
        pair = add_halves_of_means((sums, pairs, first // 16, n_chains), pair, unit, means, places)
    assert pair == 4
    both = np.concatenate([up, means[first : first + n_chains]], axis=1)
    for half in range(2):
        found = reference.half_sums(both, [(i, 4 + j) for i, j in pairs.T.tolist()], half)[0]
        np.testing.assert_allclose(sums[half], -n_chains * np.array(found), rtol=1e-5)
