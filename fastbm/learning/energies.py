"""Energies of states, hidden units summed out where that has a closed form, and their histogram beside the data's."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..inference.hidden import hidden_are_independent
from ..model import BoltzmannMachine
from ..store import Stream

BINS = 30
MOST_STATES, FEWEST_STATES = 256, 32
WORK = 1 << 27  # states times couplings, up to which a look is short


def most_states(model: BoltzmannMachine) -> int:
    """How many chains, or rows, are looked at: at most 256, and fewer of large machines."""
    each = sum(array.size for array in model.couplings.arrays)
    return max(FEWEST_STATES, min(MOST_STATES, WORK // max(each, 1)))


def energies(model: BoltzmannMachine, values: np.ndarray, beta: float) -> np.ndarray:
    """F(v) = -log sum_h exp(-beta E(v, h)) of rows (m, at least n_visible) where hidden units are not coupled to one
    another, else beta E of whole states (m, n_units); nats.
    """
    if model.n_hidden and hidden_are_independent(model):
        return np.asarray(model.free_energy(values[:, : model.n_visible], beta=beta))
    return beta * np.asarray(model.energy(values))


class EnergyHistogram:
    """Counts of the energies of free chains, and of rows where their hidden units can be summed out, over the same
    equal bins from the lowest to the highest.

    Parameters
    ----------
    start : BoltzmannMachine
    rows : mapping of name to (m, n_visible) array
        Values of the rows that are looked at.
    beta : float
    """

    def __init__(self, start: BoltzmannMachine, rows: Mapping[str, np.ndarray], beta: float) -> None:
        self._rows = dict(rows) if hidden_are_independent(start) else {}
        self._beta = beta

    @property
    def streams(self) -> dict[str, Stream]:
        """What a run writes at every look."""
        counts = {f"energies/{name}": Stream("<i8", (BINS,)) for name in ("chains", *self._rows)}
        return {"energies/edges": Stream("<f8", (BINS + 1,)), "energies/epoch": Stream("<i8"), **counts}

    def __call__(self, model: BoltzmannMachine, chains: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """One row of everything; `chains` are states (n_chains, n_units), as values."""
        found = {name: energies(model, rows, self._beta) for name, rows in self._rows.items()}
        found["chains"] = energies(model, chains, self._beta)
        every = np.concatenate(list(found.values()))
        low, high = float(every.min()), float(every.max())
        edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
        counts = {f"energies/{name}": np.histogram(values, edges)[0][None] for name, values in found.items()}
        return {"energies/edges": edges[None], "energies/epoch": np.array([epoch]), **counts}
