"""Maximum likelihood by SciPy's L-BFGS-B, made resumable.

SciPy's optimiser keeps its state to itself. Every value and gradient is recorded in the order in which it was asked
for; to go on after a stop the optimiser is run again from the start and fed the record, which takes no time and leads
to the same bits.

Byrd, Lu, Nocedal and Zhu, SIAM J. Sci. Comput. 16, 1190 (1995), doi:10.1137/0916069.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

MEMORY = 20  # correction pairs


class Lbfgs:
    """Minimise a function of one vector, some iterations at a time.

    Parameters
    ----------
    function : callable
        Vector to (value, gradient).
    start : (n,) array
    tolerance : float
        Converged when no entry of the gradient is larger.
    """

    def __init__(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, tolerance: float
    ) -> None:
        self._function, self._start, self._tolerance = function, start, tolerance
        self._record: list[tuple[float, np.ndarray]] = []
        self.done = False
        self.converged = False

    def run(self, max_iterations: int) -> list[tuple[np.ndarray, float, np.ndarray]]:
        """Return (point, value, gradient) of every iteration from the first to at most `max_iterations`."""
        from scipy.optimize import minimize

        path: list[tuple[np.ndarray, float, np.ndarray]] = []
        latest: dict[bytes, tuple[float, np.ndarray]] = {}
        calls = 0

        def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal calls
            if calls == len(self._record):
                self._record.append(self._function(x))
            latest[x.tobytes()] = self._record[calls]
            calls += 1
            return self._record[calls - 1]

        def accept(x: np.ndarray) -> None:
            path.append((x.copy(), *latest[x.tobytes()]))
            latest.clear()

        options: Any = {
            "maxiter": max_iterations,
            "maxfun": 20 * max_iterations,
            "maxcor": MEMORY,
            "gtol": self._tolerance,
            "ftol": 0.0,
        }
        minimize(evaluate, self._start, jac=True, method="L-BFGS-B", callback=accept, options=options)
        self.done = len(path) < max_iterations
        if not path:  # the start is the end
            path.append((self._start, *self._record[0]))
        self.converged = bool(np.abs(path[-1][2]).max(initial=0.0) <= self._tolerance)
        return path

    def state(self) -> dict[str, np.ndarray]:
        """The record."""
        gradients = np.array([gradient for _, gradient in self._record]).reshape(-1, self._start.size)
        return {"values": np.array([value for value, _ in self._record]), "gradients": gradients, "start": self._start}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take up a record."""
        self._record = list(zip(state["values"].tolist(), state["gradients"], strict=True))
        self._start = np.array(state["start"])
