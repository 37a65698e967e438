"""Newton's method for the likelihood of few units without hidden ones, whose states are a table.

In centred and scaled parameters theta a state's -beta E is theta . phi but for a constant, phi the centred statistics
(`fastbm.learning.optimise.centring`). With p(s) ~ exp(theta . phi(s)) the mean log-likelihood of a row is
theta . <phi>_data - log sum_s exp(theta . phi(s)), its gradient <phi>_data - <phi>, and minus its
Hessian Cov(phi) (`fastbm.learning.errors.statistics`). It is concave, so that steps of Newton's, halved
until they gain, end at the maximum; the last ones square the gradient. Far from there a machine may be so sure of one
state that the Hessian is 0 to rounding along some directions, and the steps endless: it is then damped by a multiple of
the unit matrix, which is about what the Hessian is at the maximum.

Boyd and Vandenberghe, Convex Optimization (2004), sect. 9.5; Marquardt, J. Soc. Ind. Appl. Math. 11, 431 (1963),
doi:10.1137/0111030.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from ..._base.threads import single_threaded_blas
from ...machine.machine import BoltzmannMachine
from ..errors.statistics import MomentsOfStates, Statistics
from ..moments import PhaseMoments
from ..settings import FitSettings
from .centring import Centring
from .coordinates import penalty_curvature
from .lbfgs import ROUNDING, Point

MOST_NUMBERS = 350_000  # of the table, 12 units that are all coupled: beyond it L-BFGS is faster
GAIN = 1e-4  # part of the gain that the slope promises, with which a step is content (Armijo)
MOST_HALVINGS = 40
DAMPINGS = (0.01, 1.0, 100.0)  # of the Hessian where its own steps do not gain


class FewStates:
    """Minus the penalised mean log-likelihood of a row, by the table of the statistics of all states."""

    def __init__(self, like: BoltzmannMachine, data: PhaseMoments, settings: FitSettings, centring: Centring) -> None:
        statistics, units, means = Statistics(like), like.convention, centring.means
        i, j = statistics.i, statistics.j
        up = np.arange(1 << like.n_units)[:, None] >> np.arange(like.n_units) & 1
        self._table = statistics.of(units.values(up, np.float64) - means)
        self._table /= centring.scale
        self._moments = MomentsOfStates(statistics)
        rows = np.arange(len(i))  # phi, made of plain statistics and a constant
        self._centred = np.eye(len(statistics))
        self._centred[rows, len(i) + i], self._centred[rows, len(i) + j] = -means[j], -means[i]
        self._centred *= (1.0 / centring.scale)[:, None]
        gap, pairs = data.mean - means, like.couplings.to_vector(data.pairs)
        pairs = pairs - means[i] * means[j] - means[i] * gap[j] - gap[i] * means[j]
        self._data = np.concatenate([pairs, gap]) / centring.scale
        penalised = settings.l2 > 0 or settings.l2_bias > 0
        self._penalty = penalty_curvature(statistics, settings, centring) if penalised else None

    def value(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value, and the probabilities of all states."""
        log_f = self._table @ vector
        largest = float(log_f.max())
        probabilities = np.exp(log_f - largest)
        total = float(probabilities.sum())
        probabilities /= total
        value = largest + np.log(total) - float(vector @ self._data)
        if self._penalty is not None:
            value += 0.5 * float(vector @ self._penalty @ vector)
        return value, probabilities

    def slope(self, vector: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
        """Return the gradient at a point and its probabilities."""
        found: np.ndarray = probabilities @ self._table - self._data
        return found if self._penalty is None else found + self._penalty @ vector

    def curvature(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the Hessian."""
        mean, second = self._moments(probabilities)
        found: np.ndarray = self._centred @ (second - mean[:, None] * mean) @ self._centred.T
        return found if self._penalty is None else found + self._penalty


def few_states(
    like: BoltzmannMachine, data: PhaseMoments, settings: FitSettings, centring: Centring
) -> FewStates | None:
    """Return the function to minimise; None where the table would be large."""
    if centring.scale.size << min(like.n_units, 60) > MOST_NUMBERS:
        return None
    return FewStates(like, data, settings, centring)


class Newton:
    """Minimisation by Newton's steps, some at a time, as `Lbfgs` does it; the path itself is the record.

    Parameters
    ----------
    function : FewStates
    start : (n,) array
    tolerance : float
        Converged when no entry of the gradient is larger.
    """

    def __init__(self, function: FewStates, start: np.ndarray, tolerance: float) -> None:
        self._function, self._start, self._tolerance = function, start, tolerance
        self._path: list[Point] = []
        self._stuck = False
        self._step: np.ndarray | None = None  # from where the path ends; empty if there is none, None if not known
        self.converged = False

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return self.converged or self._stuck

    def run(self, max_iterations: int) -> list[Point]:
        """Return (point, value, gradient) of every iteration from the first to at most `max_iterations`."""
        with single_threaded_blas():
            if self._step is None:
                self._look(self._path[-1][0] if self._path else self._start)
            while len(self._path) < max_iterations and not self.done:
                self._advance()
        return self._path or [self._here]  # where the start is the end

    def step_from(self, point: np.ndarray) -> np.ndarray:
        """Return Newton's step from a point, 0 where the Hessian allows none."""
        with single_threaded_blas():
            probabilities = self._function.value(point)[1]
            found = self._step_at(self._function.slope(point, probabilities), probabilities)
        return found if found.size else np.zeros_like(point)

    def _look(self, point: np.ndarray, value: float | None = None, probabilities: np.ndarray | None = None) -> None:
        """Take a point to be where the path ends, and find Newton's step from there."""
        if value is None or probabilities is None:
            value, probabilities = self._function.value(point)
        gradient = self._function.slope(point, probabilities)
        self._here = point, value, gradient
        self.converged = self.size(*self._here) <= self._tolerance
        self._step = gradient[:0] if self.converged else self._step_at(gradient, probabilities)

    def _step_at(self, gradient: np.ndarray, probabilities: np.ndarray, damping: float = 0.0) -> np.ndarray:
        """Return Newton's step from a point, by the Hessian and the `damping`; empty if there is none."""
        curvature = self._function.curvature(probabilities)
        if damping:
            curvature[np.diag_indices(len(curvature))] += damping
        with suppress(np.linalg.LinAlgError):
            found: np.ndarray = -np.linalg.solve(curvature, gradient)
            return found
        return gradient[:0]

    def _advance(self) -> None:
        """Take a step; there is no more to gain where all must be shortened to nothing."""
        before, step = self._here, self._step
        assert step is not None
        found = self._along(step)
        for damping in DAMPINGS:
            if found is None:
                probabilities = self._function.value(before[0])[1]
                found = self._along(self._step_at(before[2], probabilities, damping))
        if found is None:
            self._stuck = True
            return
        self._look(*found)
        value, reached = before[1], found[1]
        if reached >= value and not self.size(*self._here) < self.size(*before):  # equal to rounding
            self._here, self._stuck = before, True
            return
        self._path.append(self._here)

    def _along(self, step: np.ndarray) -> tuple[np.ndarray, float, np.ndarray] | None:
        """Return the point, the value and the probabilities at the end of a step, shortened until it gains."""
        point, value, gradient = self._here
        slope = float(gradient @ step) if step.size else 0.0
        for _ in range(MOST_HALVINGS if slope < 0 else 0):
            reached, probabilities = self._function.value(point + step)
            if reached <= value + GAIN * slope + ROUNDING * abs(value):
                return point + step, reached, probabilities
            step, slope = 0.5 * step, 0.5 * slope
        return None

    def size(self, point: np.ndarray, value: float, gradient: np.ndarray) -> float:
        """Return the largest entry of the gradient."""
        return float(np.abs(gradient).max(initial=0.0))

    def state(self) -> dict[str, np.ndarray]:
        """Return the path, from which the iterations continue."""
        shape = (len(self._path), self._start.size)
        return {
            "start": self._start,
            "points": np.array([point for point, _, _ in self._path]).reshape(shape),
            "values": np.array([value for _, value, _ in self._path]),
            "gradients": np.array([gradient for _, _, gradient in self._path]).reshape(shape),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        rows = zip(state["points"], state["values"], state["gradients"], strict=True)
        self._start = np.array(state["start"])
        self._path = [(np.array(point), float(value), np.array(gradient)) for point, value, gradient in rows]
        self._step = None
