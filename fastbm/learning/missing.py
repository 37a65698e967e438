"""Learning from rows with missing entries: what is possible, and how; checked before anything is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base import checks
from ..data.rows import Rows
from ..inference.conditional.completions import forecast_of_known
from ..machine.machine import BoltzmannMachine
from .methods import PRESETS
from .monitor.row_sums import FILL_IN, LONGEST_SECONDS, about, forecast_of_lacking
from .settings import FitSettings

EXACT_SECONDS = 0.1  # of a mini-batch, up to which a preset's exact clamped phase stays so
CLAMPED = ("exact", "gibbs", "annealed", "mean-field")  # ways to infer what a row lacks
MOST_NAMED = 10


def check_known(argument: str, rows: Rows, weights: np.ndarray | None = None, *, all_units: bool) -> None:
    """Refuse rows of which no entry is known, and units that no row knows whose weight is above 0."""
    if rows.complete:
        return
    empty, first = 0, -1
    for some in rows.blocks():
        nothing = ~rows.known(some).any(axis=1)
        if first < 0 and nothing.any():
            first = some.start + int(np.argmax(nothing))
        empty += int(nothing.sum())
    if empty:
        what = "1 row has" if empty == 1 else f"{empty} rows have"
        raise ValueError(
            f"{argument} must have at least one known entry in each row; {what} none, the first is row {first}. Leave "
            "such rows out: they say nothing."
        )
    never = np.flatnonzero(rows.known_counts(weights) == 0)
    if all_units and never.size:
        named = ", ".join(map(str, never[:MOST_NAMED])) + (" and more" if never.size > MOST_NAMED else "")
        raise ValueError(
            f"{argument} must have each unit known in at least one row{'' if weights is None else ' that counts'}; "
            f"never known: {named}. Leave these units out, or make them hidden units by n_hidden."
        )


def _check_method(method: str, given: dict[str, Any]) -> None:
    """Refuse methods that need whole rows."""
    preset = PRESETS[method]
    if preset.driver != "phases":
        raise ValueError(
            f"method={method!r} needs whole rows; entries of data are missing. Use method='monte-carlo', 'pcd' or "
            f"'exact', or {FILL_IN}."
        )
    if (given["free"] or preset.free) == "contrastive":
        raise ValueError(
            "free='contrastive' (method='cd') starts chains at whole rows; entries of data are missing. Use "
            f"method='pcd' or 'monte-carlo', or {FILL_IN}."
        )


def suit(model: BoltzmannMachine, rows: Rows, method: str, given: dict[str, Any]) -> None:
    """Check that `method` can learn from rows with missing entries, and fill in how these are inferred.

    What is filled in are those of the options `given` where a preset's exact sums would take long.
    """
    preset = PRESETS.get(method)
    if rows.complete or preset is None:
        return
    _check_method(method, given)
    if given["clamped"] is None and preset.clamped == "exact" and preset.free != "exact":
        asked = given["batch_size"]
        batch = preset.batch_size if asked is None else checks.whole("batch_size", asked, least=1)
        coupled = not model.hidden_are_independent
        if coupled or forecast_of_known(model, rows) * min(batch / len(rows), 1.0) > EXACT_SECONDS:
            given["clamped"] = "gibbs"


def check_settings(settings: FitSettings, *, classify: bool) -> None:
    """Refuse settings that need whole rows, where entries of rows are missing."""
    needed = {
        "errors='fisher'": (settings.errors == "fisher", "Use errors='bootstrap'"),
        "fidelity": (settings.fidelity, "Leave it out"),
        "pretrain_epochs": (settings.pretrain_epochs > 0, "Leave it out"),
        "classify": (classify, "Leave it out"),
    }
    for name, (asked, way) in needed.items():
        if asked:
            raise ValueError(f"{name} needs whole rows; entries of data or holdout are missing. {way}, or {FILL_IN}.")
    if settings.clamped not in CLAMPED:
        raise ValueError(
            f"clamped={settings.clamped!r} needs whole rows; entries of data are missing. Use one of "
            f"{', '.join(map(repr, CLAMPED))}, or {FILL_IN}."
        )


def refuse_long_phase(model: BoltzmannMachine, rows: Rows, settings: FitSettings) -> None:
    """Refuse an exact clamped phase where the sums over the missing entries of a mini-batch would take long."""
    if rows.complete or settings.clamped != "exact":
        return
    seconds = forecast_of_lacking(model, rows) * min(settings.batch_size / len(rows), 1.0)
    if seconds > LONGEST_SECONDS:
        raise ValueError(
            f"clamped='exact' sums over what rows lack, which {about(seconds)} for each step. Use clamped='gibbs' "
            f"with method='monte-carlo' or 'pcd', or {FILL_IN}."
        )
