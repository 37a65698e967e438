"""Campaigns run in one loop: every cell by the call that its tables describe, one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from fastbm.campaigns import grid
from fastbm.campaigns.row import Row, columns_of
from fastbm.campaigns.table import Table
from fastbm.runs.toml import file


def run_tables(tables: Mapping[str, Any]) -> Any:
    """What a run's tables describe, in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return file.call(tables, file.check(tables))(threads=1, progress=False)


def row_of(tables: Mapping[str, Any]) -> Row:
    return columns_of(run_tables(tables))


def table_of(tables: Mapping[str, Any]) -> Table:
    plan = grid.read(tables)
    return Table.of([cell.keys for cell in plan.cells], [row_of(cell.tables) for cell in plan.cells], plan.axes)
