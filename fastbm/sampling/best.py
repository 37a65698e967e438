"""The distinct states of lowest energy that a run has seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


class Best:
    """The `k` lowest of all distinct states that were shown to it, in memory for `k` and no more.

    States are ordered by energy, ties by their bits, so that what is kept depends on the states shown and on nothing
    else: not on their order, on threads, or on interruptions.

    Attributes
    ----------
    states : (at most k, ceil(n_units / 8)) uint8 array
        Packed bits, unit 0 in the lowest bit, the lowest energy first.
    energies : (at most k,) float64 array
    """

    def __init__(self, k: int, n_bytes: int) -> None:
        self.k = k
        self.states, self.energies = np.empty((0, n_bytes), np.uint8), np.empty(0)

    @property
    def bar(self) -> float:
        """The energy above which a state is not kept."""
        return float(self.energies[-1]) if len(self.energies) == self.k else np.inf

    def show(self, packed: np.ndarray, energies: np.ndarray) -> None:
        """Compare states (..., n_bytes) with energies (...) with those that are kept, and keep the lowest."""
        rows, values = packed.reshape(-1, packed.shape[-1]), energies.ravel()
        for start in range(0, len(rows), max(self.k, 1024)):
            part = slice(start, start + max(self.k, 1024))
            kept = values[part] <= self.bar
            if kept.any():
                self._merge(rows[part][kept], values[part][kept])

    def _merge(self, rows: np.ndarray, values: np.ndarray) -> None:
        rows, values = np.concatenate([self.states, rows]), np.concatenate([self.energies, values])
        states, first = _distinct(rows)
        order = np.argsort(values[first], kind="stable")[: self.k]  # `states` are in the order of their bits
        self.states, self.energies = states[order], values[first][order]

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint."""
        return {"best_states": self.states, "best_energies": self.energies}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self.states, self.energies = np.array(state["best_states"]), np.array(state["best_energies"])


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct rows in increasing order of their bytes, and the first index of each."""
    as_bytes = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, first = np.unique(as_bytes, return_index=True)
    return rows[first], first
