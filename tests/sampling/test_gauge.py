"""The gauge of small machines against a trial of all signs."""

from __future__ import annotations

import numpy as np
import pytest

import fastbm as bm
from fastbm.sampling.gauge import find_gauge
from tests.twins import clusters as twins


@pytest.mark.parametrize("seed", range(40))
def test_gauge_is_found_where_there_is_one(seed: int) -> None:
    generator = np.random.default_rng(seed)
    n = int(generator.integers(1, 7))
    upper = np.triu((generator.random((n, n)) < 0.5) * generator.normal(size=(n, n)), 1)
    weights = upper + upper.T
    signs, edge = find_gauge(*bm.BoltzmannMachine(weights).couplings.csr())
    if twins.gauges(weights):
        assert edge is None
        assert tuple(signs.tolist()) in twins.gauges(weights)
        assert signs.tolist() == twins.first_is_up(weights, tuple(signs.tolist()))
    else:
        assert signs is None
        assert edge[0] < edge[1]
        assert twins.is_on_frustrated_loop(weights, *edge)
