"""The files that cells read: rows, labels and machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..data.datasets import parts_of

KEYS = (
    "data.source", "data.labels", "data.holdout_source", "data.holdout_labels", "model.source", "model.path",
)  # fmt: skip


def read_by(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that the cells of a campaign read, by their names in its tables, each with the key it is of."""
    of_grid = {key: values for one in (tables["grid"], *tables.get("zip", ())) for key, values in one.items()}
    found = {}
    for key in KEYS:
        table, _, last = key.partition(".")
        said = tables.get(table, {})
        values = of_grid.get(key) or [one.get(last) for one in (said if isinstance(said, list) else [said])]
        for name in _texts(values):
            if path := parts_of(name)[0] if table == "data" else name:
                found[path] = key
    return found


def places_of(names: Iterable[str]) -> dict[str, str]:
    """Return where files are, absolutely."""
    return {name: str(Path(name).absolute()) for name in names}


def _texts(values: Any) -> Iterable[str]:
    """Yield the texts in lists, however deep."""
    if isinstance(values, str):
        yield values
    for one in values if isinstance(values, list) else ():
        yield from _texts(one)
