"""Plain twins of what deep machines are learned by; nothing of fastbm is imported."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.twins import reference

RANGE = {"spin": (-1.0, 1.0), "binary": (0.0, 1.0)}


def mean_of_unit(field: float, beta: float, units: str) -> float:
    lo, hi = RANGE[units]
    return lo + (hi - lo) * reference.sigmoid(beta * (hi - lo) * field)


def mean_field(row: Sequence[float], weights: np.ndarray, bias: Sequence[float], beta: float, units: str) -> list:
    """Means of the hidden units given a row, one unit after the other until nothing moves."""
    means = [*map(float, row), *([sum(RANGE[units]) / 2] * (len(bias) - len(row)))]
    for _ in range(100_000):
        largest = 0.0
        for i in range(len(row), len(bias)):
            old, means[i] = means[i], mean_of_unit(reference.field(means, i, weights, bias), beta, units)
            largest = max(largest, abs(means[i] - old))
        if largest < 1e-14:
            break
    return means[len(row) :]


def bound(
    row: Sequence[float], means: Sequence[float], weights: np.ndarray, bias: Sequence[float], beta: float, units: str
) -> float:
    """sum_h q(h) (-beta E(v, h) - log q(h)), state by state."""
    lo, hi = RANGE[units]
    up = [(m - lo) / (hi - lo) for m in means]
    total = 0.0
    for hidden in reference.all_states(len(means), units):
        q = math.prod(p if h == hi else 1.0 - p for p, h in zip(up, hidden, strict=True))
        if q > 0.0:
            total -= q * (beta * reference.energy([*row, *hidden], weights, bias) + math.log(q))
    return total
