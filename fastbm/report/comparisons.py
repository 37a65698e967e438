"""Tables of comparisons on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..inference.comparison import COLUMNS, MOST_ROWS, SUMMARY_COLUMNS, Cell, Comparison, text

WIDTHS = {
    "beta": 4,
    "method": 14,
    "log_z": 11,
    "log_z_error": 7,
    "log_z_off": 8,
    "bound": 6,
    "mean_off": 8,
    "seconds": 7,
}
SUMMARY_TEXT = (
    "off by: log Z, median; z: in standard errors, root mean square, about 1 where\n"
    "error bars are honest; covered: the part of 95 % error bars that do, both of\n"
    "results that say that they have converged (conv.); bounds: the part of bounds\n"
    "that hold; means, covs: largest errors, medians."
)


def facts(cell: Cell) -> list[list[str]]:
    """Return what a run of `infer` has found, by names: log Z and energy, for many clamped patterns their ranges."""
    result, found = cell.result, [["beta", f"{cell.beta:g}"], ["method", cell.method], *cell.result._numbers()]
    if result.mean is not None:
        n_units = np.shape(result.mean)[-1]
        found.append(["means", f"{np.min(result.mean):.4g} to {np.max(result.mean):.4g}, {n_units} units"])
    return found


def print_inference(console: Console, comparison: Comparison) -> None:
    """Print what a run of `infer` has found so far."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for cell in comparison.cells:
        for name, value in facts(cell):
            table.add_row(name, escape(value))
    console.print()
    console.print(table)
    for line in comparison.compiling:
        console.print(f"\n{line}", style="dim")


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the cells of a comparison, one table for each machine; many of them together."""
    _print_cells(console, comparison)
    for line in comparison.compiling:
        console.print(f"\n{line}", style="dim")


def _print_cells(console: Console, comparison: Comparison) -> None:
    rows = comparison.table
    if len(rows) > MOST_ROWS:
        for model, found in _by_model(comparison.summary(("model", "method"))):
            console.print(f"\n{model}", style="bold", markup=False)
            console.print(_summary_table(found))
            for row in found:
                if row["skipped"]:
                    console.print(f"{row['method']} was skipped in {row['skipped']} of {row['skipped'] + row['n']}")
        console.print("\nall of them", style="bold")
        console.print(_summary_table(comparison.summary(("method",))))
        console.print(SUMMARY_TEXT, style="dim")
        return
    for model, found in _by_model(rows):
        console.print(f"\n{model}", style="bold", markup=False)
        console.print(_cells_table(found))
        for why in dict.fromkeys(f"{row['method']} was skipped: {row['skipped']}" for row in found if row["skipped"]):
            console.print(why, markup=False)


def _by_model(rows: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for model in dict.fromkeys(row["model"] for row in rows):
        yield model, [row for row in rows if row["model"] == model]


def _summary_table(rows: list[dict[str, Any]]) -> Table:
    names = {name: title for name, title in SUMMARY_COLUMNS.items() if name != "model"}
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 1))
    for name, title in names.items():
        table.add_column(title, justify="left" if name == "method" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(text(row[name], name) for name in names))
    return table


def _cells_table(rows: list[dict[str, Any]]) -> Table:
    names = {name: title for name, title in COLUMNS.items() if name != "model"}
    table = Table(box=None, pad_edge=False)
    for name, title in names.items():
        left = name in ("method", "bound")
        table.add_column(title, justify="left" if left else "right", no_wrap=True, min_width=WIDTHS[name])
    for row in rows:
        table.add_row(*(text(row[name], name) for name in names))
        if row["corrected"] is not None:
            estimate = {
                "method": "  corrected",
                "log_z": row["corrected"],
                "log_z_error": row["corrected_error"],
                "log_z_off": row["corrected_off"],
            }
            table.add_row(*(text(estimate[name], name) if name in estimate else "" for name in names))
    return table
