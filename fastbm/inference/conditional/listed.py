"""Sums over the states of few free units, all of them listed, given each of many patterns on the clamped ones.

Patterns share the states and what these couple, and differ in their fields: one product of matrices gives all weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ..._base.threads import fan_out, single_threaded_blas
from ...machine.clamping import Clamped
from ...machine.machine import BoltzmannMachine

MOST_LISTED = 12  # free units whose states are listed
WEIGHTS = 1 << 18  # of states, that a block of patterns may hold

T = TypeVar("T")


class Listed:
    """All states of the units that a clamping leaves free.

    Parameters
    ----------
    clamped : Clamped
    beta : float
    threads : int

    Attributes
    ----------
    states : (n_states, n_free) array
        Values in the units of the machine.
    """

    def __init__(self, clamped: Clamped[BoltzmannMachine], beta: float, threads: int) -> None:
        self._clamped, self._beta, self._threads = clamped, beta, threads
        n = clamped.free.size
        self.states = clamped.model.convention.values((np.arange(1 << n)[:, None] >> np.arange(n)) & 1, np.float64)

    def each(self, function: Callable[[np.ndarray, np.ndarray, slice], T]) -> list[T]:
        """Return what `function` makes of blocks of patterns.

        It is told P(state given pattern), (n_patterns, n_states), log Z given each pattern, and which patterns these
        are.
        """
        clamped, states = self._clamped, self.states
        pairs = 0.5 * (clamped.couplings.field(states) * states).sum(axis=1)
        step = max(1, WEIGHTS // len(states))

        def one(first: int) -> T:
            some = slice(first, first + step)
            p = self._beta * (clamped.bias[some] @ states.T + pairs)
            highest = p.max(axis=1)
            np.exp(np.subtract(p, highest[:, None], out=p), out=p)
            total = p.sum(axis=1)
            p /= total[:, None]
            return function(p, highest + np.log(total) - self._beta * clamped.offset[some], some)

        with single_threaded_blas():
            return fan_out(one, range(0, clamped.n_patterns, step), self._threads)

    def log_z(self) -> np.ndarray:
        """Return log Z given each pattern, (n_patterns,)."""
        return np.concatenate(self.each(lambda p, log_z, some: log_z))

    def averages(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return means of the free units given each pattern, and averages over patterns by their `shares`.

        These are the covariance of the free units given a pattern, (n_free, n_free), and log Z.
        """
        states = self.states

        def one(p: np.ndarray, log_z: np.ndarray, some: slice) -> tuple[np.ndarray, np.ndarray, float]:
            return p @ states, shares[some] @ p, float(shares[some] @ log_z)

        parts = self.each(one)
        means = np.concatenate([part[0] for part in parts])
        of_states = np.sum([part[1] for part in parts], axis=0)
        with single_threaded_blas():
            second = states.T @ (of_states[:, None] * states) - means.T @ (shares[:, None] * means)
        return means, 0.5 * (second + second.T), sum(part[2] for part in parts)
