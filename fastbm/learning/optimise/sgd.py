"""Steps uphill: gradient ascent with momentum, and Adam; and how the learning rate falls from epoch to epoch.

Each step is a pure function of parameters, gradient and its own state, as natural gradients are
(`fastbm.learning.optimise.natural`). With sampled gradients parameters settle only if the rate falls: Robbins and
Monro, Ann. Math. Stat. 22, 400 (1951), doi:10.1214/aoms/1177729586.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..moments import Parameters

# the part of the learning rate that is left, by the part of the epochs that is over
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda over: 1.0,
    "linear": lambda over: 1.0 - over,
    "cosine": lambda over: 0.5 * (1.0 + math.cos(math.pi * over)),
    "inverse": lambda over: 1.0 / (1.0 + 9.0 * over),
}


class Sgd:
    """Gradient ascent with momentum: v <- momentum v + rate g; theta <- theta + v.

    Polyak, USSR Comput. Math. Math. Phys. 4, 1 (1964), doi:10.1016/0041-5553(64)90137-5.
    """

    def __init__(self, parameters: Parameters, learning_rate: float, momentum: float) -> None:
        self.learning_rate, self.momentum = learning_rate, momentum
        self._velocity = [np.zeros_like(array) for array in parameters.arrays]

    def step(self, parameters: Parameters, gradient: Parameters) -> Parameters:
        """Return the parameters after one step."""
        for velocity, slope in zip(self._velocity, gradient.arrays, strict=True):
            velocity *= self.momentum
            velocity += self.learning_rate * slope
        moved = (array + v for array, v in zip(parameters.arrays, self._velocity, strict=True))
        return Parameters.from_arrays(tuple(moved))

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the steps."""
        return {f"velocity/{k}": array for k, array in enumerate(self._velocity)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._velocity = [np.array(state[f"velocity/{k}"]) for k in range(len(self._velocity))]


class Adam:
    """Gradient ascent by Adam: Kingma and Ba, ICLR (2015), arXiv:1412.6980, algorithm 1 as the end of section 2 has it.

    `EPSILON` is their epsilon hat: it is added to the root of the second moment before the bias of that is corrected.
    """

    BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, parameters: Parameters, learning_rate: float, momentum: float) -> None:
        self.learning_rate = learning_rate
        self._first = [np.zeros_like(array) for array in parameters.arrays]
        self._second = [np.zeros_like(array) for array in parameters.arrays]
        self._n_steps = 0

    def step(self, parameters: Parameters, gradient: Parameters) -> Parameters:
        """Return the parameters after one step."""
        self._n_steps += 1
        rate = self.learning_rate * math.sqrt(1 - self.BETA2**self._n_steps) / (1 - self.BETA1**self._n_steps)
        moved = []
        for array, slope, first, second in zip(
            parameters.arrays, gradient.arrays, self._first, self._second, strict=True
        ):
            first += (1 - self.BETA1) * (slope - first)
            second += (1 - self.BETA2) * (slope * slope - second)
            moved.append(array + rate * first / (np.sqrt(second) + self.EPSILON))
        return Parameters.from_arrays(tuple(moved))

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the steps."""
        moments = {"first": self._first, "second": self._second}
        arrays = {f"{name}/{k}": a for name, group in moments.items() for k, a in enumerate(group)}
        return {**arrays, "n_steps": np.array(self._n_steps)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._first = [np.array(state[f"first/{k}"]) for k in range(len(self._first))]
        self._second = [np.array(state[f"second/{k}"]) for k in range(len(self._second))]
        self._n_steps = int(state["n_steps"])


PLAIN: dict[str, Any] = {"sgd": Sgd, "adam": Adam}
OPTIMIZERS = (*PLAIN, "natural")


def rate(schedule: str, learning_rate: float, epoch: int, epochs: int) -> float:
    """Return the learning rate of an epoch, counted from 0."""
    return learning_rate * SCHEDULES[schedule](epoch / epochs)
