"""The structure factor of spins on a periodic lattice at its smallest wave vectors, from packed states.

S(k) = |sum_i s_i exp(i k x_i)|^2 / n_units with k = 2 pi / L along a side, averaged over the longest sides; of
overlaps, products s_i t_i of two replicas stand for spins. Cooper, Freedman and Preston, Nucl. Phys. B 210, 210 (1982),
doi:10.1016/0550-3213(82)90240-1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def periodic_sides(origin: Mapping[str, Any], n_units: int, what: str) -> list[int]:
    """Return the sides of the periodic lattice whose spins are the units; refuse other models for `what`."""
    sides = origin.get("shape")
    if not sides or not origin.get("periodic") or math.prod(sides) != n_units or max(sides) < 2:
        raise ValueError(
            f"{what} needs a periodic lattice of models.ising or models.edwards_anderson; of others pass the structure "
            "factor to diagnostics.correlation_length."
        )
    return list(sides)


def structure_factor(packed: np.ndarray, sides: Sequence[int]) -> np.ndarray:
    """Return S(k) at the smallest k of packed states (..., ceil(n_units / 8)), or of where two replicas differ."""
    up = np.unpackbits(packed, axis=-1, count=math.prod(sides), bitorder="little")
    up = up.reshape(*packed.shape[:-1], *sides)
    n_axes, most = len(sides), max(sides)
    kind = np.uint16 if math.prod(sides) < 1 << 16 else np.int64  # which are summed sooner
    angle = 2.0 * np.pi * np.arange(most) / most
    waves, of_sides = (np.cos(angle), np.sin(angle)), []
    for axis in (axis for axis, side in enumerate(sides) if side == most):
        others = tuple(other - n_axes for other in range(n_axes) if other != axis)
        # sums of spins across the side; their products with a wave are summed in one order, whatever BLAS there is
        across = np.ascontiguousarray(2.0 * up.sum(axis=others, dtype=kind) - math.prod(sides) // most)
        of_sides.append(sum((across * wave).sum(axis=-1) ** 2 for wave in waves))
    return np.asarray(sum(of_sides) / (len(of_sides) * math.prod(sides)))
