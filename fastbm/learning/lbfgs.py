"""SciPy's L-BFGS-B, made resumable, and a few Newton steps where its line search meets the rounding of the function.

SciPy's optimiser keeps its state to itself. Every value and gradient is recorded in the order in which it was asked
for; to go on after a stop the optimiser is run again from the start and fed the record, which takes no time and leads
to the same bits.

Byrd, Lu, Nocedal and Zhu, SIAM J. Sci. Comput. 16, 1190 (1995), doi:10.1137/0916069. Newton's equations are solved by
conjugate gradients on differences of gradients: Nocedal and Wright, Numerical Optimization (2006), sect. 7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

MEMORY = 20  # correction pairs
ROOM = 16  # gradients for which there is room at first
NEWTON_STEPS, CG_STEPS = 4, 100
CG_TOLERANCE = 1e-3  # to which Newton's equations are solved
DIFFERENCE = 1e-6  # length of the step over which gradients are compared

Point = tuple[np.ndarray, float, np.ndarray]


class Lbfgs:
    """Minimise a function of one vector, some iterations at a time.

    Parameters
    ----------
    function : callable
        Vector to (value, gradient).
    start : (n,) array
    tolerance : float
        Converged when no entry of the gradient is larger; entries that push against a bound do not count.
    lower : (n,) array, optional
        Lower bounds, 0 or -inf.
    newton : bool
        Whether to go on by Newton steps where L-BFGS finds no lower value before the gradient is small enough: for
        functions that are convex and cheap.
    halt : callable, optional
        Told of all iterates after each; true ends the search.
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], tuple[float, np.ndarray]],
        start: np.ndarray,
        tolerance: float,
        *,
        lower: np.ndarray | None = None,
        newton: bool = False,
        halt: Callable[[list[Point]], bool] | None = None,
    ) -> None:
        self._function, self._start, self._tolerance = function, start, tolerance
        self._lower, self._newton, self._halt = lower, newton, halt
        self._values: list[float] = []
        self._gradients = np.empty((ROOM, start.size))  # grows by doubling; rows that are there do not change
        self._steps: list[Point] = []  # of Newton
        self.done = False
        self.converged = False
        self.halted = False

    def run(self, max_iterations: int) -> list[Point]:
        """Return (point, value, gradient) of every iteration from the first to at most `max_iterations`."""
        from scipy.optimize import minimize

        path: list[Point] = []
        latest: dict[bytes, tuple[float, np.ndarray]] = {}
        calls = 0
        self.halted = False

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal calls
            if calls == len(self._values):
                self._record(*self._function(x))
            latest[x.tobytes()] = found = self._values[calls], self._gradients[calls]
            calls += 1
            return found

        def accept(x: np.ndarray) -> None:
            path.append((x.copy(), *latest[x.tobytes()]))
            latest.clear()
            if self._halt is not None and self._halt(path):
                self.halted = True
                raise StopIteration

        options: Any = {
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
            "maxcor": MEMORY,
            "gtol": self._tolerance,
            "ftol": 0.0,
        }
        bounds = None if self._lower is None else [(None if low < 0 else low, None) for low in self._lower]
        minimize(evaluate, self._start, jac=True, method="L-BFGS-B", bounds=bounds, callback=accept, options=options)
        last = path[-1] if path else (self._start, self._values[0], self._gradients[0])
        if self._newton and not self.halted and len(path) < max_iterations:
            path += self._newton_steps(last, min(NEWTON_STEPS, max_iterations - len(path)))
            last = path[-1] if path else last
        self.done = len(path) < max_iterations or self.halted
        if not path:  # the start is the end
            path.append(last)
        self.converged = self.size(*path[-1]) <= self._tolerance
        return path

    def size(self, point: np.ndarray, value: float, gradient: np.ndarray) -> float:
        """The largest entry of the gradient that no bound holds up."""
        return float(np.abs(gradient[self._free(point, gradient)]).max(initial=0.0))

    def _free(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Which entries may move downhill."""
        if self._lower is None:
            return np.ones(point.size, bool)
        return (point > self._lower) | (gradient < 0)

    def _record(self, value: float, gradient: np.ndarray) -> None:
        n = len(self._values)
        if n == len(self._gradients):
            self._gradients = np.concatenate([self._gradients, np.empty_like(self._gradients)])
        self._gradients[n] = gradient
        self._values.append(value)

    def _newton_steps(self, last: Point, most: int) -> list[Point]:
        """Newton steps from `last`, as long as they halve the gradient."""
        last = self._steps[-1] if self._steps else last
        while len(self._steps) < most and self.size(*last) > self._tolerance:
            point, _, gradient = last
            free = self._free(point, gradient)
            moved = point + self._newton_step(point, gradient, free)
            if self._lower is not None:
                moved = np.maximum(moved, self._lower)
            found = (moved, *self._function(moved))
            if not self.size(*found) <= 0.5 * self.size(*last):
                break
            self._steps.append(found)
            last = found
        return list(self._steps)

    def _newton_step(self, point: np.ndarray, gradient: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Minus the inverse Hessian, of the free entries, times the gradient."""
        step, residual = np.zeros_like(point), np.where(free, -gradient, 0.0)
        direction, square = residual, float(residual @ residual)
        end = CG_TOLERANCE**2 * square
        for _ in range(CG_STEPS):
            if square <= end:
                break
            length = DIFFERENCE / float(np.sqrt(direction @ direction))
            change = (self._function(point + length * direction)[1] - gradient) / length
            change = np.where(free, change, 0.0)
            curvature = float(direction @ change)
            if curvature <= 0.0:  # flat to rounding
                break
            step = step + (square / curvature) * direction
            residual = residual - (square / curvature) * change
            square, before = float(residual @ residual), square
            direction = residual + (square / before) * direction
        return step

    def state(self) -> dict[str, np.ndarray]:
        """The record."""
        found = {
            "values": np.array(self._values),
            "gradients": self._gradients[: len(self._values)],
            "start": self._start,
        }
        if self._newton:
            shape = (len(self._steps), self._start.size)
            found |= {
                "newton/points": np.array([point for point, _, _ in self._steps]).reshape(shape),
                "newton/values": np.array([value for _, value, _ in self._steps]),
                "newton/gradients": np.array([gradient for _, _, gradient in self._steps]).reshape(shape),
            }
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take up a record."""
        self._values = state["values"].tolist()
        self._gradients = np.concatenate([state["gradients"], np.empty((ROOM, self._start.size))])
        self._start = np.array(state["start"])
        if self._newton:
            newton = (state[f"newton/{name}"] for name in ("points", "values", "gradients"))
            self._steps = [(np.array(x), float(f), np.array(g)) for x, f, g in zip(*newton, strict=True)]
