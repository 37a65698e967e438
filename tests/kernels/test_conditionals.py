"""Log-odds of visible units without hidden ones, against the difference of two sums of softplus."""

from __future__ import annotations

import numpy as np
import pytest

from fastbm.kernels.learning.conditionals import Flips


@pytest.mark.parametrize("scale", [1e-12, 1.0, 30.0, 700.0, 1e5])
@pytest.mark.parametrize(("n_units", "n_hidden", "n_rows"), [(1, 1, 1), (5, 40, 7), (3, 300, 2), (4, 0, 3)])
def test_is_the_difference_of_softplus(scale: float, n_units: int, n_hidden: int, n_rows: int) -> None:
    generator = np.random.default_rng(1)
    fields = generator.normal(scale=scale, size=(n_hidden, n_rows))
    weights = generator.normal(scale=scale, size=(n_units, n_hidden))
    up = generator.integers(0, 2, (n_units, n_rows)).astype(bool)
    before, signs = generator.normal(size=(1 + n_units, n_rows)), np.where(up, -1.0, 1.0)
    flips = Flips(up, n_hidden)
    flips.fields[:n_rows], flips.found[:, :n_rows] = fields.T / 2.0, before
    flips.add(2.0, weights)
    log_sums, *against = flips.found[:, :n_rows]
    down = fields - up[:, None] * weights[:, :, None]
    rise = np.logaddexp(0.0, down + weights[:, :, None]) - np.logaddexp(0.0, down)
    tolerance = 1e-14 * max(1.0, scale) * max(n_hidden, 1)
    np.testing.assert_allclose(against, before[1:] + signs * rise.sum(axis=1), rtol=1e-13, atol=tolerance)
    np.testing.assert_allclose(log_sums, before[0] + np.logaddexp(0.0, -fields).sum(axis=0), rtol=1e-13, atol=tolerance)
