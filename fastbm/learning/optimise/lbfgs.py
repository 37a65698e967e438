"""SciPy's L-BFGS-B, made resumable, with some steps more where its line search meets the rounding of the function.

SciPy's optimiser keeps its state to itself. Every value and gradient is recorded in the order in which it was asked
for; to go on after a stop the optimiser is run again from the start and fed the record, which takes no time and leads
to the same bits.

A gradient g changes the value by g^2, so that values are equal to rounding while the gradient is still 1e-7. The last
steps therefore look at the gradient alone, which they must make smaller: "secant" takes the step of L-BFGS at its full
length, one evaluation each; "newton" solves Newton's equations by conjugate gradients on differences of gradients.

Byrd, Lu, Nocedal and Zhu, SIAM J. Sci. Comput. 16, 1190 (1995), doi:10.1137/0916069; Nocedal and Wright, Numerical
Optimization (2006), algorithm 7.4 and sect. 7.1.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ...machine.couplings.protocol import frozen

MEMORY = 20  # correction pairs
ROOM = 16  # gradients for which there is room at first
SECANT_STEPS, SECANT_RISE = 40, 10.0
NEWTON_STEPS, CG_STEPS = 4, 100
CG_TOLERANCE = 1e-3  # to which Newton's equations are solved
DIFFERENCE = 1e-6  # length of the step over which gradients are compared
ROUNDING = 1e-13  # part of the value below which its changes are no guide

Point = tuple[np.ndarray, float, np.ndarray]


class Lbfgs:
    """Minimisation of a function of one vector by L-BFGS-B, some iterations at a time.

    Parameters
    ----------
    function : callable
        Vector to (value, gradient).
    start : (n,) array
    tolerance : float
        Converged when no entry of the gradient is larger; entries that push against a bound do not count.
    lower : (n,) array, optional
        Lower bounds, 0 or -inf.
    finish : {"none", "secant", "newton"}
        How to go on where L-BFGS finds no lower value before the gradient is small enough; Newton steps are for
        functions that are convex and cheap.
    measure : callable, optional
        Turns the gradient into the one that is held against `tolerance`; without bounds.
    halt : callable, optional
        Told of all iterates after each; true ends the search.
    curvature : (n,) array, optional
        About the second derivatives at the minimum, of a function without bounds. L-BFGS then begins with a step of
        Newton's by them, in place of one of length 1.
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], tuple[float, np.ndarray]],
        start: np.ndarray,
        tolerance: float,
        *,
        lower: np.ndarray | None = None,
        finish: str = "none",
        measure: Callable[[np.ndarray], np.ndarray] | None = None,
        halt: Callable[[list[Point]], bool] | None = None,
        curvature: np.ndarray | None = None,
    ) -> None:
        self._function, self._start, self._tolerance = function, start, tolerance
        self._curvature = curvature
        self._lower, self._finish, self._measure, self._halt = lower, finish, measure, halt
        self._values: list[float] = []
        self._gradients = np.empty((ROOM, start.size))  # grows by doubling; rows that are there do not change
        self._steps: list[Point] = []  # that finish
        self._n_looked_at = 0  # iterates that do not end the search
        self.done = False
        self.converged = False
        self.halted = False

    @property
    def n_numbers(self) -> int:
        """The number of coordinates."""
        return self._start.size

    def run(self, max_iterations: int) -> list[Point]:
        """Return (point, value, gradient) of every iteration from the first to at most `max_iterations`."""
        from scipy.optimize import minimize

        path: list[Point] = []
        latest: list[Point] = []
        calls = 0
        self.halted = False
        stretch = self._stretch()

        def evaluate(stretched: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal calls
            if calls == len(self._values):
                self._record(*self._function(stretched / stretch))
            value, gradient = self._values[calls], self._gradients[calls]
            latest.append((stretched.copy(), value, gradient))
            calls += 1
            return value, gradient / stretch

        def accept(stretched: np.ndarray) -> None:
            found = next((one for one in reversed(latest) if np.array_equal(one[0], stretched)), latest[-1])
            path.append((stretched / stretch, *found[1:]))
            latest.clear()
            if len(path) <= self._n_looked_at:
                return
            self.halted = self._halt is not None and self._halt(path)
            if self.halted or self._is_over(path):
                raise StopIteration
            self._n_looked_at = len(path)

        options: Any = {
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
            "maxcor": MEMORY,
            "gtol": 0.0 if self._judges else self._tolerance,
            "ftol": 0.0,
        }
        bounds = None if self._lower is None else [(None if low < 0 else low, None) for low in self._lower]
        start = self._start * stretch
        minimize(evaluate, start, jac=True, method="L-BFGS-B", bounds=bounds, callback=accept, options=options)
        last = path[-1] if path else (self._start, self._values[0], self._gradients[0])
        if self._finish != "none" and not self.halted and len(path) < max_iterations:
            path += self._finishing_steps(path or [last], max_iterations - len(path))
            last = path[-1] if path else last
        self.converged = self.size(*last) <= self._tolerance
        self.done = len(path) < max_iterations or self.halted or self.converged
        return path or [last]  # where the start is the end

    @property
    def _judges(self) -> bool:
        """Whether the gradient that SciPy sees is another than the one that is held against `tolerance`."""
        return self._measure is not None or self._curvature is not None

    def _stretch(self) -> np.ndarray:
        """Return by what SciPy's point is longer than the function's, so that its first step is Newton's.

        Of any function SciPy's first step has length 1.
        """
        if self._curvature is None:
            return np.ones(1)
        if not self._values:
            self._record(*self._function(self._start))
        roots = np.sqrt(self._curvature)
        length = float(np.linalg.norm(self._gradients[0] / roots))
        found: np.ndarray = roots / (length or 1.0)
        return found

    def _is_over(self, path: list[Point]) -> bool:
        """Return whether L-BFGS has nothing left to do: by the measure, or as values are equal to rounding."""
        if self._judges and self.size(*path[-1]) <= self._tolerance:
            return True
        if self._finish != "secant" or len(path) < 2:
            return False
        before, value = path[-2][1], path[-1][1]
        return before - value <= ROUNDING * abs(value)

    def size(self, point: np.ndarray, value: float, gradient: np.ndarray) -> float:
        """Return the largest entry of the gradient, in the measure if there is one, among those that no bound holds."""
        if self._measure is not None:
            return float(np.abs(self._measure(gradient)).max(initial=0.0))
        return float(np.abs(gradient[self._free(point, gradient)]).max(initial=0.0))

    def _free(self, point: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Return which entries may move downhill."""
        if self._lower is None:
            return np.ones(point.size, bool)
        return (point > self._lower) | (gradient < 0)

    def _record(self, value: float, gradient: np.ndarray) -> None:
        n = len(self._values)
        if n == len(self._gradients):
            before, self._gradients = self._gradients, np.empty((2 * n, gradient.size))
            self._gradients[:n] = before
        self._gradients[n] = gradient
        self._values.append(value)

    def _finishing_steps(self, path: list[Point], most: int) -> list[Point]:
        """Return the steps from the end of `path` to the smallest gradient that is found.

        A Newton step costs many evaluations and must halve the gradient; one by secants may make it larger for a while.
        """
        allowed, steps, secant = most, self._steps, self._finish == "secant"
        most, worst = (min(most, SECANT_STEPS), SECANT_RISE) if secant else (min(most, NEWTON_STEPS), 0.5)
        sizes = [self.size(*one) for one in (path[-1], *steps)]
        while len(steps) < most and sizes[-1] > self._tolerance:
            point, _, gradient = steps[-1] if steps else path[-1]
            if secant:
                moved = point - by_secants(gradient, (path + steps)[-MEMORY - 1 :])
            else:
                moved = point + self._newton_step(point, gradient, self._free(point, gradient))
            if self._lower is not None:
                moved = np.maximum(moved, self._lower)
            found = (moved, *self._function(moved))
            if not self.size(*found) < worst * min(sizes):
                break
            steps.append(found)
            sizes.append(self.size(*found))
        best = int(np.argmin(sizes))
        if len(steps) < allowed:  # else there may be more
            del steps[best:]
        return list(steps)

    def _newton_step(self, point: np.ndarray, gradient: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Return minus the inverse Hessian, of the free entries, times the gradient."""
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
        """Return the record of the iterations, from which they continue."""
        found = {
            "values": np.array(self._values),
            "gradients": frozen(self._gradients[: len(self._values)]),
            "start": self._start,
        }
        if self._curvature is not None:
            found["stretched"] = np.array(True)
        if self._finish != "none":
            shape = (len(self._steps), self._start.size)
            found |= {
                "newton/points": np.array([point for point, _, _ in self._steps]).reshape(shape),
                "newton/values": np.array([value for _, value, _ in self._steps]),
                "newton/gradients": np.array([gradient for _, _, gradient in self._steps]).reshape(shape),
            }
        return found

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        if "stretched" not in state:  # as the points were that the record belongs to
            self._curvature = None
        self._values = state["values"].tolist()
        self._gradients = np.concatenate([state["gradients"], np.empty((ROOM, self._start.size))])
        self._start = np.array(state["start"])
        if self._finish != "none" and "newton/points" in state:
            steps = (state[f"newton/{name}"] for name in ("points", "values", "gradients"))
            self._steps = [(np.array(x), float(f), np.array(g)) for x, f, g in zip(*steps, strict=True)]


def by_secants(gradient: np.ndarray, path: list[Point]) -> np.ndarray:
    """Return the inverse Hessian, estimated from the last changes of point and gradient, times the gradient.

    Algorithm 7.4.
    """
    changes = [(b[0] - a[0], b[2] - a[2]) for a, b in pairwise(path)]
    changes = [(step, change) for step, change in changes if step @ change > 0]
    found, parts = gradient.copy(), []
    for step, change in reversed(changes):
        parts.append((step @ found) / (step @ change))
        found -= parts[-1] * change
    if changes:
        step, change = changes[-1]
        found *= (step @ change) / (change @ change)
    for (step, change), part in zip(changes, reversed(parts), strict=True):
        found += (part - (change @ found) / (step @ change)) * step
    return found
