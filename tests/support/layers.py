"""Machines in layers, their sums, and what these must come to."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.exact.layers import draws, sum as layers
from fastbm.exact.plan import Part, Speeds, Wanted, combine
from tests.support import machines
from tests.support.machines import UNITS

SCALES = [1e-12, 1.0, 30.0, 100.0, 1e3]
SIZES = [(4, 3), (2, 5), (3, 2, 3), (2, 3, 2, 1)]
LOG_Z = Wanted(moments=False)


def machine(sizes: tuple[int, ...], units: str, scale: float = 1.0, seed: int = 0, **options: Any) -> Any:
    generator = np.random.default_rng([seed, len(sizes), UNITS.index(units)])
    blocks = [generator.normal(scale=scale, size=size) for size in itertools.pairwise(sizes)]
    return bm.BoltzmannMachine(blocks, generator.normal(scale=scale, size=sum(sizes)), units=units, **options)


def plan(model: Any, beta: float = 1.0, wanted: Wanted | None = None, **options: Any) -> layers.LayerSum:
    options = {"threads": 1, "max_bytes": 4e9, "speeds": Speeds()} | options
    return layers.plan(model, beta, wanted or Wanted(), **options)


def source(model: Any, beta: float = 1.0, **options: Any) -> draws.LayerSource:
    options = {"threads": 1, "max_bytes": 4e9, "speeds": Speeds()} | options
    return draws.source(model, beta, **options)


def total(model: Any, beta: float = 1.0, wanted: Wanted | None = None, threads: int = 1) -> Part:
    planned = plan(model, beta, wanted)
    return combine([planned.piece(k, threads) for k in range(planned.n_pieces)])


def size_of(model: Any, beta: float) -> float:
    """beta sum |W|, each pair once, and fields."""
    weights, bias = machines.parameters(model)
    return beta * float(np.abs(weights).sum() / 2 + np.abs(bias).sum())


def assert_matches(part: Part, model: Any, beta: float) -> None:
    truth, units = machines.enumerate_machine(model, beta), model.convention
    up = (truth.states - units.lo) / units.span
    weights, bias = machines.parameters(model)
    energy_scale = float(np.abs(weights).sum() / 2 + np.abs(bias).sum()) + abs(model.offset)
    allowed = 1e-11 + 8 * np.finfo(float).eps * size_of(model, beta)
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-12, abs=1e-14)
    assert part.up == pytest.approx((truth.mean - units.lo) / units.span, rel=0, abs=allowed)
    assert part.pairs == pytest.approx(np.einsum("s,si,sj->ij", truth.probabilities, up, up), rel=0, abs=allowed)
    assert np.array_equal(part.pairs, part.pairs.T) and np.array_equal(np.diagonal(part.pairs), part.up)
    assert part.energy == pytest.approx(truth.energy, rel=0, abs=allowed * energy_scale)
    allowed = allowed * (energy_scale - abs(model.offset)) ** 2
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-11, abs=allowed)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks, batches and products of few states, so that small machines have many."""
    monkeypatch.setattr(layers, "BLOCK_STATES", 1 << 8)
    monkeypatch.setattr(layers, "MOST_LOW", 6)
    monkeypatch.setattr(layers, "MOST", 100)
    monkeypatch.setattr(layers, "BATCH", 2)
