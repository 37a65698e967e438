"""Summaries of a comparison of rules: averages over the sets of rows that all rules were measured on.

A rule that fails where learning is hard must not gain by it, so that the sets of rows on which a rule has no number
count for none of them. A rule that has numbers on fewer than half of the sets is not averaged: it would leave the
others too little. Failures are counted either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Row = dict[str, Any]

ROOT_MEAN_SQUARES = ("gamma", "coupling_off", "bias_off", "mean_off", "pair_off")
MEASURES = (*ROOT_MEAN_SQUARES, "likelihood_off")
SET_OF_ROWS = ("model", "beta", "n_rows", "seed")


def summarise(rows: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """Return one row for each combination of the columns `by`; see `RuleComparison.summary`."""
    side_by_side: dict[tuple[Any, ...], list[Row]] = {}
    others = [name for name in by if name != "rule"]
    for row in rows:
        side_by_side.setdefault(tuple(row[name] for name in others), []).append(row)
    found: dict[tuple[Any, ...], Row] = {}
    for together in side_by_side.values():
        shared = {name: _shared(together, name) if "rule" in by else _known(together, name) for name in MEASURES}
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in together:
            groups.setdefault(tuple(row[name] for name in by), []).append(row)
        found |= {key: _average(chosen, shared) for key, chosen in groups.items()}
    order = dict.fromkeys(tuple(row[name] for name in by) for row in rows)
    return [dict(zip(by, key, strict=True)) | found[key] for key in order]


def rank(rows: Sequence[Row], measure: str) -> str:
    """Return the ranking of rules on one machine, the best first, and their failures; empty for a single rule."""
    found = summarise(rows, ("rule",))
    n_sets = len({_place(row) for row in rows})
    ranked = [row for row in found if row[measure] is not None]
    if len(found) < 2 or not ranked:
        return ""
    is_likelihood = measure == "likelihood_off"  # of which more is better, above that of the truth too
    ranked.sort(key=lambda row: -row[measure] if is_likelihood else abs(row[measure]))
    text = ", ".join(f"{row['rule']} {row[measure]:.2g}{_failures(row)}" for row in ranked)
    left = ", ".join(f"{row['rule']}{_failures(row)}" for row in found if row[measure] is None)
    common = ranked[0]["common"] if measure == "gamma" else max(row["common_likelihood"] for row in ranked)
    return f"Ranked over the {common} of {n_sets} sets of rows that all of them were measured on: {text}." + (
        f" Not ranked, as they failed on more than half: {left}." if left else ""
    )


def _failures(row: Row) -> str:
    return f" ({row['skipped']} of {row['n']} failed)" if row["skipped"] else ""


def _place(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SET_OF_ROWS)


def _known(rows: Sequence[Row], measure: str) -> dict[str, set[Any]]:
    """Return for each rule the sets of rows on which it has this number."""
    found: dict[str, set[Any]] = {}
    for row in rows:
        known = found.setdefault(row["rule"], set())
        if row[measure] is not None:
            known.add(_place(row))
    return found


def _shared(rows: Sequence[Row], measure: str) -> dict[str, set[Any]]:
    """Return for each rule the sets of rows on which rules are compared by this number.

    Rules that have it on less than half of the sets are left out, and then sets on which any of the others lacks it.
    """
    n_sets = len({_place(row) for row in rows})
    known = {rule: sets for rule, sets in _known(rows, measure).items() if sets and 2 * len(sets) >= n_sets}
    while known and not (common := set.intersection(*known.values())):
        del known[min(known, key=lambda rule: len(known[rule]))]
    return dict.fromkeys(known, common) if known else {}


def _average(rows: Sequence[Row], shared: dict[str, dict[str, set[Any]]]) -> Row:
    def values(name: str) -> list[float]:
        return [row[name] for row in rows if _place(row) in shared[name].get(row["rule"], ())]

    found: Row = {name: _mean(np.square(values(name))) for name in ROOT_MEAN_SQUARES}
    found = {name: None if value is None else value**0.5 for name, value in found.items()}
    timed, settled = [row["seconds"] for row in rows if row["seconds"]], [row["converged"] for row in rows]
    return found | {
        "likelihood_off": _mean(values("likelihood_off")),
        "converged": _mean([one for one in settled if one is not None]),
        "seconds": _mean(timed),
        "n": len(rows),
        "common": len(values("gamma")),
        "common_likelihood": len(values("likelihood_off")),
        "skipped": sum(row["skipped"] is not None for row in rows),
    }


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
