"""When a machine's likelihood of rows is told as a bound: hidden layers whose sums, row by row, would take too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..inference.exact import forecast_seconds
from ..inference.hidden import hidden_are_independent, machine_of_hidden
from ..inference.hidden_layers import is_deep, lower_bounds
from ..inference.likelihood import log_sums
from ..model import BoltzmannMachine
from .distinct import distinct

EXACT_SECONDS = 60.0  # rows are summed exactly where that takes no longer


def rows_are_summed(start: BoltzmannMachine, data: Mapping[str, Any]) -> bool:
    """Whether the sums over hidden units, one for each distinct row of "rows" and "holdout", are soon done."""
    if hidden_are_independent(start):
        return True
    each = forecast_seconds(machine_of_hidden(start), moments=False)
    n_rows = sum(len(distinct(data[name])[0]) for name in ("rows", "holdout") if name in data)
    return each * n_rows <= EXACT_SECONDS


def name_of_likelihood(start: BoltzmannMachine, data: Mapping[str, Any]) -> str | None:
    """ "log_likelihood", or where that cannot be had "log_likelihood_bound"; None without either."""
    if rows_are_summed(start, data):
        return "log_likelihood"
    return "log_likelihood_bound" if is_deep(start) else None


def sums_of_rows(model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int, name: str) -> np.ndarray:
    """log Z with the visible units held at each row of values, or a lower bound of it, as `name` says."""
    if name == "log_likelihood_bound":
        return lower_bounds(model, rows, beta, threads)
    return log_sums(model, rows, beta, threads)[0]
