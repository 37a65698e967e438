"""Iteration to a fixed point, for mean field, TAP and belief propagation: starts, mixing, residuals, warnings.

All three go round their equations in sweeps, several starts side by side in lanes. Where sweeps are slow to settle they
are mixed (Anderson, J. ACM 12, 547 (1965), doi:10.1145/321296.321305): of the last sweeps' results that combination is
taken whose changes cancel best, and given up again where the change grows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, Protocol

import numpy as np

from ..._base import checks, rng
from ..._base.options import Above, Least, options
from ..._base.steps import tell
from ...machine.machine import BoltzmannMachine
from ..estimator import Estimator
from ..result import Inference

ENTROPY_ROUNDING = 1e-6  # of the numbers that an entropy is the difference of
BOUND_SLACK = 0.05  # nats by which an approximation may lie below a bound
LANES = 4  # starts that are worked on together; a fixed number, so that results do not depend on threads
PLAIN_SWEEPS = 12  # sweeps before the first is mixed
DEPTH = 6  # sweeps that are mixed
MIXED_NUMBERS = 1 << 26  # numbers that the memory of sweeps may hold; fewer are mixed, or none, where they would not do


def part_kept(name: str, value: Any) -> float:
    """Check a damping."""
    if not 0.0 <= (damping := checks.real(name, value, least=0.0)) < 1.0:
        raise ValueError(f"{name} must be from 0 to below 1; got {damping:g}.")
    return damping


@options
class Iterated(Estimator):
    """The base of methods that iterate equations from several starts.

    Parameters
    ----------
    n_starts : int
        One from m = 0 (moved by the bias), the others random.
    tolerance : float
        Largest residual of the equations.
    damping : float
        Part of the old mean that is kept at each step, from 0 to below 1.
    max_sweeps : int
        Rounds, at most.
    """

    n_starts: Annotated[int, Least(1)] = 8
    tolerance: Annotated[float, Above(0.0)] = 1e-10
    damping: Annotated[float, part_kept] = 0.0
    max_sweeps: Annotated[int, Least(1)] = 10_000


class Equations(Protocol):
    """The protocol of fixed-point equations in several lanes."""

    @property
    def values(self) -> np.ndarray:
        """The iterated values, (lanes, width), as a view that may be written; `refresh` is due after."""

    def sweep(self, damping: float, least: np.ndarray) -> np.ndarray:
        """Update every value once; return the largest change of every lane. Changes up to `least` may be left out."""

    def refresh(self) -> None:
        """Compute again what is derived from the values and kept."""

    def valid(self, values: np.ndarray) -> np.ndarray:
        """Return which lanes of `values` the iteration may continue from."""


def starting_means(n_units: int, n_starts: int, seed: int, first: float = 0.0) -> np.ndarray:
    """Draw random means to start from (n_starts, n_units), between -1 and 1.

    In the first start they are between -first and first.
    """
    start = rng.keyed(seed, rng.STARTS).uniform(-1.0, 1.0, (n_starts, n_units))
    start[0] *= first
    return start


def settle(
    equations: Equations,
    *,
    tolerance: float,
    damping: float,
    max_sweeps: int,
    lazy: float = 0.0,
    mixed: bool = True,
) -> tuple[np.ndarray, int]:
    """Sweep until no lane changes by more than `tolerance`.

    Return the last change of every lane, and the number of sweeps.

    With `lazy` above 0 changes of up to that part of a lane's last change are left for later, and nothing is mixed, as
    without `mixed`: plain sweeps, of equations for a maximum, go uphill and come to no saddle.
    """
    n_lanes, width = equations.values.shape
    depth = 0 if lazy or not mixed else min(DEPTH, MIXED_NUMBERS // max(2 * n_lanes * width, 1) - 1)
    mixer = _Mixer(equations, depth) if depth >= 2 else None
    change, n_sweeps = np.full(n_lanes, np.inf), 0
    while n_sweeps < max_sweeps and not np.all(change <= tolerance):
        tell("sweep", n_sweeps, max_sweeps)
        least = np.where(change <= tolerance, np.inf, lazy * change if lazy and n_sweeps else 0.0)
        mixing = mixer is not None and n_sweeps >= PLAIN_SWEEPS
        if mixing:
            mixer.before()  # type: ignore[union-attr]
        change = equations.sweep(damping, least)
        n_sweeps += 1
        if mixing and not np.all(change <= tolerance):
            mixer.after(change, tolerance)  # type: ignore[union-attr]
    return change, n_sweeps


class _Mixer:
    """Anderson's mixing of the last `depth` sweeps, lane by lane, once in `depth` sweeps."""

    def __init__(self, equations: Equations, depth: int) -> None:
        self._equations, self._depth = equations, depth
        shape = (depth + 1, *equations.values.shape)
        self._changes, self._results = np.empty(shape), np.empty(shape)
        self._n_kept = 0
        self._saved = np.empty(shape[1:])
        self._mixed: np.ndarray | None = None  # the lanes mixed before the sweep that is under way
        self._bar = np.full(shape[1], np.inf)  # changes from which they were mixed
        self._wait = np.zeros(shape[1], int)  # rounds that a lane sits out after a mixture that made it worse
        self._penalty = np.ones(shape[1], int)

    def before(self) -> None:
        """Record the values before a sweep."""
        self._changes[self._n_kept] = self._equations.values

    def after(self, change: np.ndarray, tolerance: float) -> None:
        """Record the change of a sweep; mix once enough are recorded."""
        if self._mixed is not None:
            worse = self._mixed & ~(change <= 2.0 * self._bar)
            self._penalty[worse] *= 2
            self._wait[worse] = self._penalty[worse]
            self._mixed = None
            if worse.any():
                self._equations.values[worse] = self._saved[worse]
                self._equations.refresh()
                self._n_kept = 0
                return
        k, values = self._n_kept, self._equations.values
        self._results[k] = values
        self._changes[k] = values - self._changes[k]
        self._n_kept += 1
        if self._n_kept <= self._depth:
            return
        self._n_kept = 0
        mixture = self._mixture()
        good = self._equations.valid(mixture) & (change > tolerance) & (self._wait == 0)
        self._wait = np.maximum(self._wait - 1, 0)
        if good.any():
            self._saved = values.copy()
            values[good] = mixture[good]
            self._equations.refresh()
            self._mixed, self._bar = good, change

    def _mixture(self) -> np.ndarray:
        """Return Anderson's mixture of the last sweeps.

        results[-1] - sum_k g_k (results[k + 1] - results[k]), g the least squares of the same sum of changes.
        """
        steps, last = np.diff(self._changes, axis=0), self._changes[-1]
        size = np.sqrt(np.einsum("klw,klw->kl", steps, steps))
        scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 1e-100)
        gram = np.einsum("klw,mlw->lkm", steps, steps) * (scale.T[:, :, None] * scale.T[:, None, :])
        gram += 1e-12 * np.eye(len(steps))
        right = np.einsum("klw,lw->lk", steps, last) * scale.T
        weights = np.linalg.solve(gram, right[:, :, None])[:, :, 0] * scale.T
        mixture: np.ndarray = self._results[-1] - np.einsum("lk,klw->lw", weights, np.diff(self._results, axis=0))
        return mixture


def warn_unsettled(method: str, residual: float, n_sweeps: int, rest: str) -> None:
    """Warn that the equations are not solved."""
    checks.warn(f"{method} did not converge: residual {residual:.2g} after {n_sweeps} sweeps; {rest}")


def of_entropy(found: Inference, n_units: int, beta: float) -> Inference:
    """Return a result, not converged where its entropy is none that so many units have; a warning says so.

    Free energies that are no bounds have solutions of negative entropy where couplings are strong and loops many.
    """
    slack = ENTROPY_ROUNDING * (1.0 + abs(found.log_z) + beta * abs(found.energy))
    if not found.converged or -slack <= found.entropy <= n_units * math.log(2.0) + slack:
        return found
    reason = f"an entropy of {found.entropy:.3g} nats is none that {n_units} units have: the approximation fails here"
    checks.warn(f'{found.method} has not converged: {reason}. Take infer(model, "auto").')
    return replace(found, converged=False, detail=found.detail | {"doubt": reason})


def of_bound(found: Inference, bound: float) -> Inference:
    """Return a result, not converged where its log Z lies below a bound that holds for certain; a warning says so."""
    if not found.converged or bound - found.log_z <= BOUND_SLACK + ENTROPY_ROUNDING * abs(bound):
        return found
    gap = f"{bound - found.log_z:.3g} nats"
    reason = f"log Z lies {gap} below a bound that holds for certain (mean field): a better solution was missed"
    checks.warn(f'{found.method} has not converged: {reason}. Raise n_starts, or take infer(model, "auto").')
    return replace(found, converged=False, detail=found.detail | {"doubt": reason})


def warn_no_response(method: str) -> None:
    """Warn that there are no covariances, as the linear response diverges."""
    checks.warn(
        f"{method}: the linear response diverges here (a transition, or a solution that is not stable), so there are "
        "no covariances."
    )


def moments(model: BoltzmannMachine, method: str, m: np.ndarray, covariance: Any) -> dict[str, Any]:
    """Return moments in the model's units, from those of spins.

    <s_i^2> is known exactly and not taken from the response.

    `covariance` is a matrix, a scipy.sparse.csr_array that holds the diagonal, or None where there is none.
    """
    binary = model.units == "binary"
    if binary:
        m = (1 + m) / 2
    if covariance is None:
        warn_no_response(method)
        return {"mean": m, "second_moment": None, "covariance": None}
    if binary:
        covariance = covariance / 4
    own = m if binary else np.ones_like(m)
    if isinstance(covariance, np.ndarray):
        second = covariance + np.outer(m, m)
        np.fill_diagonal(second, own)
    else:
        second = covariance.copy()
        rows = np.repeat(np.arange(len(m)), np.diff(second.indptr))
        same = rows == second.indices
        second.data = second.data + m[rows] * m[second.indices]
        second.data[same] = own
    return {"mean": m, "second_moment": second, "covariance": covariance}
