"""What is told of the persistent free chains: whether they mix, and a histogram of their energies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import rng
from ..model import BoltzmannMachine
from ..rows import Rows
from ..store import Stream
from .energies import EnergyHistogram, most_states
from .gaps import values_of
from .mixing import Mixing, principal_axis
from .monitors import places_of_some
from .settings import FitSettings


class ChainMonitor:
    """Follows the chains, epoch by epoch: the first 256, and fewer of large machines.

    Parameters
    ----------
    start : BoltzmannMachine
    data : mapping of name to array
        As `FitTask` takes them; of rows those are looked at that the pseudo-likelihood looks at, or fewer. Where rows
        lack entries none of them have energies.
    settings : FitSettings
    """

    metric_names = ("r_hat",)

    def __init__(self, start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings) -> None:
        self._n_units, seed, most = start.n_units, settings.seed, most_states(start)
        self._n_chains = min(settings.n_chains, most)
        weights = {"rows": data.get("weights")}
        tables = {name: Rows.of(data[name]) for name in ("rows", "holdout") if name in data}
        rows = {}
        for name, table in tables.items():
            places = places_of_some(table, rng.keyed(seed, rng.MONITOR), weights.get(name), most)
            rows[name] = values_of(start.convention, table, places)
        whole = {name: values for name, values in rows.items() if tables[name].complete}
        self._histogram = EnergyHistogram(start, whole, settings.beta)
        if "rows" in rows:
            known = ~np.isnan(rows["rows"])
            mean = rows["rows"].sum(axis=0, where=known) / np.maximum(known.sum(axis=0), 1)
            centred = np.where(known, rows["rows"] - mean, 0.0)
            axis = principal_axis(lambda v: centred.T @ (centred @ v), start.n_visible, seed)
        else:
            covariance = data["second_moment"] - np.outer(data["mean"], data["mean"])
            axis = principal_axis(lambda v: covariance @ v, start.n_visible, seed)
        self._mixing = Mixing(axis, settings.beta, self._n_chains)

    @property
    def streams(self) -> dict[str, Stream]:
        """What a run writes beside metrics."""
        return self._histogram.streams

    @property
    def r_hat(self) -> float:
        """Of the chains over the last records."""
        return self._mixing.r_hat

    def forget(self) -> None:
        """Chains move in another way from here on."""
        self._mixing.forget()

    def follow(self, model: BoltzmannMachine, packed: np.ndarray) -> bool:
        """An epoch is over, with chains in packed states; whether there is a record more."""
        return self._mixing.record(model, self._bits(packed))

    def look(self, model: BoltzmannMachine, packed: np.ndarray, epoch: int) -> dict[str, np.ndarray]:
        """One row of everything but metrics."""
        return self._histogram(model, model.convention.values(self._bits(packed), np.float64), epoch)

    def _bits(self, packed: np.ndarray) -> np.ndarray:
        return np.unpackbits(packed[: self._n_chains], axis=1, count=self._n_units, bitorder="little")

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        return self._mixing.state()

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self._mixing.restore(state)
