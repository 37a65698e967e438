"""The structure factor of spins on a periodic lattice at its smallest wave vectors, from packed states.

S(k) = |sum_i s_i exp(i k x_i)|^2 / n_units with k = 2 pi / L along a side, averaged over the longest sides; of
overlaps, products s_i t_i of two replicas stand for spins. Cooper, Freedman and Preston, Nucl. Phys. B 210, 210 (1982),
doi:10.1016/0550-3213(82)90240-1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

PLACES, UNITS = 64, 1 << 14  # of all longest sides together, up to which sums one by one take longer than a product


def periodic_sides(origin: Mapping[str, Any], n_units: int, what: str) -> list[int]:
    """Return the sides of the periodic lattice whose spins are the units; refuse other models for `what`."""
    sides = origin.get("shape")
    if not sides or not origin.get("periodic") or math.prod(sides) != n_units or max(sides) < 2:
        raise ValueError(
            f"{what} needs a periodic lattice of models.ising or models.edwards_anderson, which this machine is not "
            "known to be; of others pass the structure factor to diagnostics.correlation_length."
        )
    return list(sides)


def structure_factor(packed: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """Return S(k) at the smallest k of packed states (..., ceil(n_units / 8)), or of where two replicas differ."""
    n_units, most = math.prod(sides), max(sides)
    angle = 2.0 * np.pi * np.arange(most) / most
    # sums of spins across a side; their products with a wave are summed in one order, whatever BLAS there is
    across = 2.0 * _count_across(packed, tuple(sides)) - n_units // most
    of_waves = [(across * wave).sum(axis=-1) ** 2 for wave in (np.cos(angle), np.sin(angle))]
    found: np.ndarray = (of_waves[0] + of_waves[1]).sum(axis=-1) / (across.shape[-2] * n_units)
    return found


def _count_across(packed: np.ndarray, sides: tuple[int, ...]) -> np.ndarray:
    """Return how many spins are up across each of the longest sides, (..., n_sides, L) whole float64."""
    n_units, most = math.prod(sides), max(sides)
    up = np.unpackbits(packed, axis=-1, count=n_units, bitorder="little")
    longest = [axis for axis, side in enumerate(sides) if side == most]
    if 1 < len(longest) <= PLACES // most and n_units <= UNITS:
        counts = up.astype(np.float32) @ _members(sides)
        return counts.reshape(*packed.shape[:-1], len(longest), most).astype(np.float64)
    kind, up = np.uint16 if n_units < 1 << 16 else np.int64, up.reshape(*packed.shape[:-1], *sides)
    others = [tuple(k - len(sides) for k in range(len(sides)) if k != axis) for axis in longest]
    return np.stack([up.sum(axis=axes, dtype=kind) for axes in others], axis=-2).astype(np.float64)


@lru_cache(maxsize=4)
def _members(sides: tuple[int, ...]) -> np.ndarray:
    """Return which units lie at each place of the longest sides, (n_units, n_sides L) of 0 and 1."""
    most, places = max(sides), np.indices(sides).reshape(len(sides), -1)
    longest = places[[axis for axis, side in enumerate(sides) if side == most]]
    return (longest[:, None, :] == np.arange(most)[:, None]).reshape(-1, longest.shape[1]).T.astype(np.float32)
