"""Machines for sums in three blocks, and what a sum must be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.exact.blocks import sum
from fastbm.exact.plan import Part, Speeds, Wanted, combine
from tests.support import machines
from tests.support.machines import UNITS
from tests.twins import blocks as twins

EPS = 2.0**-52
SCALES = ["1e-12", "1", "30", "1000", "mixed"]
LOG_Z, NO_VARIANCE = Wanted(moments=False, energy_variance=False), Wanted(energy_variance=False)


def numbers(generator: np.random.Generator, scale: str, shape: Any) -> np.ndarray:
    """Normal numbers of one scale, or of all from 1e-12 to 1e3."""
    found = generator.normal(size=shape)
    return found * (10.0 ** generator.uniform(-12, 3, shape) if scale == "mixed" else float(scale))


def machine(n: int, scale: str = "1", units: str = "spin", seed: int = 0, **options: Any) -> bm.BoltzmannMachine:
    generator = np.random.default_rng([seed, n, UNITS.index(units)])
    upper = np.triu(numbers(generator, scale, (n, n)), 1)
    return bm.BoltzmannMachine(upper + upper.T, numbers(generator, scale, n), units=units, **options)


def coarse(n: int, scale: float, units: str = "spin", seed: int = 0, field: float = 1.0) -> bm.BoltzmannMachine:
    """A machine whose couplings are multiples of 1/64, so that no energy rounds in float64."""
    generator = np.random.default_rng([seed, n, UNITS.index(units)])
    upper = np.round(64 * np.triu(generator.normal(scale=scale, size=(n, n)), 1)) / 64
    bias = np.round(64 * generator.normal(scale=field * scale, size=n)) / 64
    return bm.BoltzmannMachine(upper + upper.T, bias, units=units)


def plan(model: Any, beta: float = 1.0, wanted: Wanted | None = None, **options: Any) -> sum.BlocksSum:
    options = {"threads": 1, "max_bytes": 4e9, "speeds": Speeds()} | options
    return sum.plan(model, beta, wanted or Wanted(), **options)


def total(planned: sum.BlocksSum, threads: int = 1) -> Part:
    return combine([planned.piece(k, threads) for k in range(planned.n_pieces)])


def size_of(model: Any) -> float:
    """sum |W|, each pair once, and fields."""
    weights, bias = machines.parameters(model)
    return float(np.abs(weights).sum() / 2 + np.abs(bias).sum())


def assert_is(part: Part, model: Any, beta: float, truth: Any) -> None:
    """Compare a sum with `twins.Plain`: energies are in units of the couplings, and whatever is given is finite."""
    size = size_of(model)
    close = 1e-11 + 8 * EPS * beta * size
    assert part.log_z == pytest.approx(truth.log_z, rel=1e-12, abs=4 * EPS)
    np.testing.assert_allclose(part.up, truth.up, rtol=0, atol=close)
    np.testing.assert_allclose(part.pairs, truth.pairs, rtol=0, atol=close)
    assert np.array_equal(part.pairs, part.pairs.T)
    assert np.array_equal(part.pairs.diagonal(), part.up)
    assert part.pairs.min() >= 0 and part.pairs.max() <= 1 + 4 * EPS
    assert part.energy == pytest.approx(truth.energy, rel=1e-12, abs=close * size)
    assert part.energy_variance == pytest.approx(truth.energy_variance, rel=1e-9, abs=4 * EPS * size**2)
    assert part.energy_variance >= 0


def enumerated(model: Any, beta: float) -> twins.Plain:
    """The sum over all states with 50 digits."""
    truth = machines.enumerate_machine(model, beta)
    lo, span = model.convention.lo, model.convention.span
    up = (truth.mean - lo) / span
    pairs = (truth.second_moment - lo * span * (up[:, None] + up) - lo**2) / span**2
    np.fill_diagonal(pairs, up)
    return twins.Plain(truth.log_z, up, pairs, truth.energy, truth.energy_variance, truth.probabilities)


def plain(model: Any, beta: float = 1.0) -> twins.Plain:
    return twins.sum_all(*machines.parameters(model), model.units, beta, model.offset)


def assert_same_bits(one: Part, other: Part) -> None:
    for name in ("log_z", "energy", "energy_variance", "up", "pairs"):
        machines.assert_same_values(getattr(one, name), getattr(other, name))
