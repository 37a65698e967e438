"""The table [data] of a run's file, as arguments of `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...data import datasets
from ...data.sources import Source

KEYS = {
    "source": str,
    "labels": str,
    "side": int,
    "threshold": float,
    "max_rows": int,
    "units": str,
    "holdout": float,
    "folds": int,
    "fold": int,
    "holdout_source": str,
    "holdout_labels": str,
}


def arguments(table: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return what `fit` is called with: data, holdout, and labels of both where there are any; `seed` draws the split.

    Raises
    ------
    ValueError, StorageError
        For keys that contradict one another, and sources that are not there.
    """
    _check(table)
    common = {name: table[name] for name in ("threshold", "side") if name in table}  # of both sources
    parts = {name: table[name] for name in ("max_rows", "holdout", "folds", "fold") if name in table}
    source = Source(table["source"], seed=seed, **parts, **common)
    n_rows = source.n_rows()
    found: dict[str, Any] = {"data": source}
    if "units" in table:
        found["units"] = table["units"]
    labels = _labels(table, source)
    held = source.held_out(n_rows)(0, n_rows)
    if source.splits:
        found["holdout"] = source.opposite()
    elif "holdout_source" in table:
        found["holdout"] = Source(table["holdout_source"], **common)
    if labels is not None:
        found["labels"] = labels[:n_rows][~held]
    if labels is not None and source.splits:
        found["holdout_labels"] = labels[:n_rows][held]
    elif "holdout_labels" in table:
        found["holdout_labels"] = _read(table["holdout_labels"])
    return found


def _check(table: Mapping[str, Any]) -> None:
    if "source" not in table:
        raise ValueError('[data] needs a source, for instance source = "sklearn:digits".')
    for name in ("holdout", "folds"):
        if "holdout_source" in table and table.get(name):
            raise ValueError(f"data.{name} takes held-out rows of the source, holdout_source names others: give one.")
    if "holdout_labels" in table and "holdout_source" not in table:
        raise ValueError("data.holdout_labels are those of data.holdout_source. Give that too, or leave them out.")


def _labels(table: Mapping[str, Any], source: Source) -> np.ndarray | None:
    """Return the labels, one for each row of the source, of which max_rows may leave some out."""
    if "labels" in table:
        labels, n_all = _read(table["labels"]), replace(source, max_rows=None).n_rows()
        if len(labels) not in (n_all, source.n_rows()):
            raise ValueError(f"data.labels must have one entry for each row of source ({n_all}); got {len(labels)}.")
        return labels
    if table["source"] == datasets.DIGITS or table["source"] in datasets.PATTERNS:
        return datasets.load(table["source"], **{k: table[k] for k in ("side",) if k in table}).labels
    return None


def _read(name: str) -> np.ndarray:
    with datasets.opened(name) as table:
        if table.shape is None or max(table.shape, default=0) != table.size:  # a row or a column will do
            raise ValueError(f"{name} must have one entry for each row; got shape {table.shape}.")
        return np.asarray(table[...]).ravel()
