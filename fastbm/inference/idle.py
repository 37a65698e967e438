"""Options that a method would not look at beside the others that are given: better refused than ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .temperatures import VISITORS


def refuse_idle(method: str, options: Mapping[str, Any]) -> None:
    """Refuse the first of the `options` that would do nothing; say what it goes with."""
    given = [name for name, value in options.items() if value is not None]
    for name in given:
        if "betas" in given and name in ("n_betas", "path"):
            raise ValueError(f"betas say all that {name} would: leave one of them out.")
        if "betas" in given and name == "start" and method in VISITORS and _is_base(options["start"]):
            raise ValueError(
                f"betas are inverse temperatures from 0, and start={_told(options['start'])} leads to the machine by "
                "levels that are none: leave one of them out."
            )
        if why := _idle(method, name, options):
            raise ValueError(f"{name} {why}. Leave {name} out.")


def _is_base(start: Any) -> bool:
    """Whether `start` is a product model other than the machine at beta = 0."""
    return not (start is None or (isinstance(start, str) and start == "uniform"))


def _told(start: Any) -> str:
    return f'"{start}"' if isinstance(start, str) else "means"


def _idle(method: str, name: str, options: Mapping[str, Any]) -> str:
    """Why an option does nothing; empty if it does something."""
    source = options.get("source")
    if method == "ais" and name in ("source", "n_sweeps") and options.get("bracket", False) is False:
        return "is for the way down the path, which ais goes with bracket=True alone"
    if method in ("ais", "reverse-ais") and name == "n_sweeps" and source != "gibbs":
        return f"is for the chains of source='gibbs'; got source={source or 'tempering'!r}"
    if method == "sampled-states" and name == "burn_in" and source == "annealing":
        return "is for chains at one temperature; source='annealing' cools them down once"
    return ""
