"""Grids that grow, written otherwise: 1 and 1.0 are one value, and a cell is found whichever its tables have.

A cell is known by the hash of its tables as they are written, so that what is there keeps its id: the tables of a grid
that has grown are written as those before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from . import grid

There = dict[tuple[str, str], dict[str, Any]]  # by "table.key" and value, how it was written


def as_before(plan: grid.Plan, earlier: Iterable[Mapping[str, Any]]) -> grid.Plan:
    """Return a plan whose numbers are written as in the earlier tables of its campaign."""
    there: There = {}
    for tables in earlier:
        for name, table in tables.items():
            if name not in grid.TABLES:
                _note(there, name, table)
        for key, values in _columns(tables.get("grid", {}), tables.get("zip", ())):
            for value in values:
                _note(there, key, value)
    base = {name: _written(there, name, table) for name, table in plan.base.items()}
    of_grid = _as_written(there, plan.grid)
    zips = [_as_written(there, one) for one in plan.zips]
    if grid.written([base, of_grid, zips]) == grid.written([plan.base, plan.grid, plan.zips]):
        return plan
    settings = {name: value for name, value in asdict(plan.settings).items() if value is not None}
    return grid.read({**base, "grid": of_grid, "zip": zips, "campaign": settings})


def refuse_doubles(plan: grid.Plan) -> None:
    """Refuse entries of [zip] that are there twice: they would be one cell."""
    for one in plan.zips:
        seen: set[str] = set()
        columns = dict(_columns(one))
        for values in zip(*columns.values(), strict=True):
            if (text := grid.written(grid.by_value(list(values)))) in seen:
                entry = ", ".join(f"{key} = {value!r}" for key, value in zip(columns, values, strict=True))
                raise ValueError(f"[zip] has {entry} twice. Each entry makes cells of its own.")
            seen.add(text)


def _columns(of_grid: Mapping[str, Any], zips: Iterable[Mapping[str, Any]] = ()) -> Iterator[tuple[str, list[Any]]]:
    for table in (of_grid, *zips):
        for key, given in table.items():
            yield key, grid.values_of("zip", key, given)


def _note(there: There, key: str, value: Any) -> None:
    if isinstance(value, dict):
        for name, one in value.items():
            _note(there, f"{key}.{name}", one)
    else:
        there.setdefault((key, grid.written(grid.by_value(value))), {})[grid.written(value)] = value


def _written(there: There, key: str, value: Any) -> Any:
    """Return a value as it was written before, if it was."""
    if isinstance(value, dict):
        return {name: _written(there, f"{key}.{name}", one) for name, one in value.items()}
    before = there.get((key, grid.written(grid.by_value(value))), {})
    return value if not before or grid.written(value) in before else next(iter(before.values()))


def _as_written(there: There, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of lists of values; words for lists stay where nothing in them changes."""
    found = {}
    for key, given in table.items():
        values = grid.values_of("zip", key, given)
        new = [_written(there, key, value) for value in values]
        found[key] = given if grid.written(new) == grid.written(values) else new
    return found
