"""Rows that monitors look at, the same at every look, and what several of them ask of each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._base import rng
from ...data.rows import Rows
from ...inference.conditional.layers import Conditionals
from ...machine.machine import BoltzmannMachine
from ..minibatches import LISTED
from ..settings import FitSettings
from ..training_set import values_of

MOST_ROWS = 256
MOST_UNITS = 64


def places_of_some(
    rows: Rows | np.ndarray, generator: np.random.Generator, weights: np.ndarray | None = None, most: int = MOST_ROWS
) -> np.ndarray:
    """Draw the indices of at most `most` rows, without replacement; by weight, and with it, where rows have weights."""
    if weights is None and len(rows) <= LISTED:
        chosen = generator.permutation(len(rows))[:most]
    elif weights is None:
        chosen = generator.choice(len(rows), size=most, replace=False)
    else:
        chosen = generator.choice(len(rows), size=most, p=weights / weights.sum())
    return np.sort(chosen)


class Look:
    """At most `most` rows, in the values of `start`, NaN where an entry is missing.

    Attributes
    ----------
    values : (m, n_visible) float64 array
    complete : bool
        Whether no row of the table lacks an entry.
    units : (k,) int array
        At most 64 visible units, drawn once, which stand for all.
    """

    def __init__(
        self, start: BoltzmannMachine, table: Rows, settings: FitSettings, weights: np.ndarray | None, most: int
    ) -> None:
        generator, self._beta = rng.keyed(settings.seed, rng.MONITOR), settings.beta
        places = places_of_some(table, generator, weights, most)
        self.values, self.complete = values_of(start.convention, table, places), table.complete
        self.units = np.sort(generator.permutation(start.n_visible)[:MOST_UNITS])
        self._conditionals = Conditionals(start, self.values, self.units) if start.hidden_are_independent else None
        self._seen: tuple[BoltzmannMachine, tuple[float, np.ndarray | None]] | None = None

    def at(self, model: BoltzmannMachine) -> tuple[float, np.ndarray | None]:
        """Return what is asked of whole rows and a machine whose hidden units are independent, computed once.

        The mean of log p(v_i | others) over rows and `units`, and log sum_h exp(-beta E(v, h)) of each row, if there
        are hidden units.
        """
        if self._seen is None or self._seen[0] is not model:
            assert self._conditionals is not None
            self._seen = model, self._conditionals.look(model, self._beta)
        return self._seen[1]


def looks_of(
    start: BoltzmannMachine, data: Mapping[str, Any], settings: FitSettings, most: int = MOST_ROWS
) -> dict[str, Look]:
    """Return looks at the rows and at those held out, where there are any; rows that have weights are drawn by them."""
    return {
        name: Look(start, Rows.of(data[name]), settings, data.get("weights") if name == "rows" else None, most)
        for name in ("rows", "holdout")
        if name in data
    }
