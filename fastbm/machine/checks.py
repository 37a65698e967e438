"""Checks of what a machine has beside its couplings and biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base import checks
from .couplings import Couplings


def check_hidden(n_hidden: Any, couplings: Couplings) -> int:
    """Return the number of hidden units; of layers all but the first are hidden."""
    n_hidden = checks.whole("n_hidden", n_hidden)
    if couplings.kind != "layered":
        if n_hidden >= couplings.n_units:
            raise ValueError(f"n_hidden must be below the number of units, {couplings.n_units}; got {n_hidden}.")
        return int(n_hidden)
    derived: int = couplings.n_units - couplings.sizes[0]
    if n_hidden not in (0, derived):
        raise ValueError(
            f"n_hidden of a layered machine is the size of its layers after the first, {derived}; got {n_hidden}."
        )
    return derived


def check_rates(rates: Any, n_visible: int) -> np.ndarray:
    """Return base rates, one for each visible unit, above 0 and below 1."""
    array = checks.finite_array("rates", rates)
    if array.shape != (n_visible,):
        raise ValueError(
            f"rates must have one number for each visible unit, ({n_visible},); got shape {array.shape}. "
            "fastbm.smoothed_rates(rows, model) makes them of rows."
        )
    wrong = np.flatnonzero((array <= 0.0) | (array >= 1.0))
    if wrong.size:
        raise ValueError(
            f"rates must be above 0 and below 1, P(unit up); got {array[wrong[0]]:g} for unit {wrong[0]}, "
            f"{len(wrong)} such units in all. fastbm.smoothed_rates(rates, model) keeps them from 0 and 1."
        )
    return array
