"""How the learning rate falls from epoch to epoch.

With sampled gradients parameters settle only if it does. Robbins and Monro, Ann. Math. Stat. 22, 400 (1951),
doi:10.1214/aoms/1177729586.
"""

from __future__ import annotations

import math
from collections.abc import Callable

# the part of the learning rate that is left, by the part of the epochs that is over
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda over: 1.0,
    "linear": lambda over: 1.0 - over,
    "cosine": lambda over: 0.5 * (1.0 + math.cos(math.pi * over)),
    "inverse": lambda over: 1.0 / (1.0 + 9.0 * over),
}


def rate(schedule: str, learning_rate: float, epoch: int, epochs: int) -> float:
    """The learning rate of an epoch, counted from 0."""
    return learning_rate * SCHEDULES[schedule](epoch / epochs)
