"""What the tests of error bars share."""

from __future__ import annotations

import numpy as np

import fastbm as bm

N_ROWS = 1000


def planted(units: str, seed: int = 0, n: int = 6, scale: float = 0.3) -> bm.BoltzmannMachine:
    """A machine of moderate couplings, given in spins."""
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    return bm.BoltzmannMachine(upper + upper.T, generator.normal(scale=scale, size=n)).to_units(units)
