"""Sums over hidden units, and over missing entries, that every row needs for itself.

Hidden layers whose sums would take too long get bounds in their place; what would take too long is refused beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...data.rows import Rows
from ...exact.choice import duration
from ...inference.conditional.completions import forecast_of_known
from ...inference.conditional.layers import lower_bounds
from ...inference.exact.method import LIMITS, forecast_seconds
from ...inference.likelihood import log_sums
from ...machine.machine import BoltzmannMachine
from ..minibatches import distinct
from ..settings import FitSettings
from ..training_set import values_of

EXACT_SECONDS = 60.0  # rows are summed exactly where that takes no longer
LONGEST_SECONDS = 60.0  # of a mini-batch, or of the last look, beyond which exact sums are refused
FILL_IN = "fill the entries in by fastbm.complete"


def rows_are_summed(start: BoltzmannMachine, data: Mapping[str, Any]) -> bool:
    """Return whether the sums over hidden units, for each distinct row of "rows" and "holdout", take little time."""
    if start.hidden_are_independent:
        return True
    each = forecast_seconds(start.hidden(), moments=False)
    n_rows = sum(len(distinct(data[name])[0]) for name in ("rows", "holdout") if name in data)
    return each * n_rows <= EXACT_SECONDS


def name_of_likelihood(start: BoltzmannMachine, data: Mapping[str, Any]) -> str | None:
    """Return "log_likelihood", or "log_likelihood_bound" where only that can be computed; None without either."""
    if rows_are_summed(start, data):
        return "log_likelihood"
    return "log_likelihood_bound" if start.layout == "deep" else None


def sums_of_rows(model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int, name: str) -> np.ndarray:
    """Return log Z with the visible units held at each row of values, or a lower bound of it, as `name` says."""
    if name == "log_likelihood_bound":
        return lower_bounds(model, rows, beta, threads)
    return log_sums(model, rows, beta, threads)[0]


def mean_log_sum(
    model: BoltzmannMachine,
    rows: Rows,
    beta: float,
    threads: int,
    weights: np.ndarray | None = None,
    kind: str = "log_likelihood",
) -> float:
    """Average log sums over rows, by weight, a part of the rows at a time; missing entries are summed out.

    `kind` is the `name` of `sums_of_rows`.
    """
    if not model.has_free_energy or not rows.complete:  # each distinct row takes a sum of its own
        rows, weights = distinct(rows, weights)
    total = 0.0
    for some in rows.blocks():
        sums = sums_of_rows(model, values_of(model.convention, rows, some), beta, threads, kind)
        total += float(sums.sum() if weights is None else sums @ weights[some])
    return total / (len(rows) if weights is None else float(weights.sum()))


def refuse_long_rows(start: BoltzmannMachine, rows: Iterable[Rows], settings: FitSettings) -> None:
    """Refuse metrics that need a sum for each distinct row of bits, over all sets, if it takes too long.

    For machines whose hidden units are coupled to one another; `rows` are those learned from, then those held out.
    """
    n_distinct = [len(distinct(up)[0]) for up in rows]
    hidden = start.hidden()
    for asked, n_rows, moments, way_out in (
        (settings.clamped == "exact", min(n_distinct[0], settings.batch_size), True, 'clamped="gibbs"'),
        (settings.evaluate in ("exact", "ais"), sum(n_distinct), False, 'evaluate="none"'),
    ):
        seconds = n_rows * forecast_seconds(hidden, moments=moments)
        if asked and seconds > LIMITS.seconds:
            what = 'clamped="exact"' if moments else f"evaluate={settings.evaluate!r}"
            raise ValueError(
                f"{what} needs a sum over the states of {start.n_hidden} coupled hidden units for each of {n_rows} "
                f"distinct rows{' of an update' if moments else ''}, about {duration(seconds)} in all; the limit is "
                f"{duration(LIMITS.seconds)}. Use {way_out}, or fewer hidden units."
            )


def refuse_long_evaluation(model: BoltzmannMachine, tables: Iterable[Rows], evaluate: str | None) -> None:
    """Refuse a likelihood that was asked for where the sums over missing entries would take long."""
    if evaluate in ("exact", "ais"):
        way = "Use evaluate='none', or hold out rows that lack fewer"
        refuse_long_sums(model, tables, f"evaluate={evaluate!r}", way)


def refuse_long_sums(model: BoltzmannMachine, tables: Iterable[Rows], asked: str, way: str) -> None:
    """Refuse likelihoods `asked` for where the sums over missing entries would take long; name the `way` out."""
    seconds = sum(forecast_of_lacking(model, rows) for rows in tables if not rows.complete)
    if seconds > LONGEST_SECONDS:
        raise ValueError(f"{asked} asks for the likelihood of rows that lack entries, which {about(seconds)}. {way}.")


def forecast_of_lacking(model: BoltzmannMachine, rows: Rows) -> float:
    """Return the seconds that sums over missing entries take, each distinct row once."""
    return forecast_of_known(model, distinct(rows)[0])


def about(seconds: float) -> str:
    """Return a forecast as text."""
    return f"would take about {seconds:.1g} s" if np.isfinite(seconds) else "cannot be done in any time"
