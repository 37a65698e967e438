"""What is shown of a campaign: a column of its table over a key of its grid, a curve for each value of another.

What is not named is chosen: over the key with the most numbers, which is no seed and no fold; a third key makes panels.
Seeds, folds and what is left are averaged over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .columns import hashable, label_of, text_of
from .crossing import Curve
from .row import AT
from .table import BETA, FOLD, Table

SHOWN = (
    "overlap_xi_over_length", "xi_over_length", "overlap_binder_cumulant", "binder_cumulant", "holdout", "log_z_off",
    "gamma", "log_z", "energy",
)  # fmt: skip
SEED = "seed"
METHOD = "method"  # of inference, or a rule of learning: what columns NAME@LABEL are of
MOST_LINES, WIDTH = 20, 80  # of a table that is printed
MOST_PANELS = 6
MOST_DIGITS = 6


class View(NamedTuple):
    """A column over another, a curve for each group.

    Attributes
    ----------
    table : Table
        With a row for each temperature or method of a cell, where there are several.
    x, y : str
    group : str or None
    n : int
        How many cells each value is an average of, at most.
    curves : list of Curve
    """

    table: Table
    x: str
    y: str
    group: str | None
    n: int
    curves: list[Curve]

    def printed(self) -> tuple[list[str], list[list[str]]]:
        """Return a table of texts: its head, and its lines; the longer of `x` and `group` goes down."""
        places = np.unique(np.concatenate([curve.x for curve in self.curves])).tolist()
        known = {
            (k, x): with_error(*point)
            for k, curve in enumerate(self.curves)
            for x, *point in zip(curve.x.tolist(), curve.y.tolist(), curve.errors.tolist(), strict=True)
        }
        groups = ["" if curve.label is None else text_of(curve.label) for curve in self.curves]
        if self.group is None:
            return _fitted([self.x, self.y], [[f"{x:g}", known.get((0, x), "-")] for x in some(places, MOST_LINES)])
        if len(groups) <= len(places):
            lines = [[f"{x:g}", *(known.get((k, x), "-") for k in range(len(groups)))] for x in places]
            return _fitted([f"{self.x} \\ {self.group}", *groups], some(lines, MOST_LINES))
        lines = [[name, *(known.get((k, x), "-") for x in places)] for k, name in enumerate(groups)]
        return _fitted([f"{self.group} \\ {self.x}", *(f"{x:g}" for x in places)], some(lines, MOST_LINES))


def _fitted(head: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return a table without the columns between that make it too wide."""
    widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
    most = max(2, (WIDTH - widths[0]) // (1 + max(widths[1:])))
    kept = [0, *some(range(1, len(head)), most)]
    return [head[k] for k in kept], [[line[k] for k in kept] for line in lines]


def view(table: Table, x: str | None = None, y: str | None = None, group: str | None = None) -> View:
    """Return what is drawn of a table in one panel.

    Raises
    ------
    ValueError
        If there are no numbers to draw over, or no column is named that can be drawn.
    KeyError
        If there is no such column.
    """
    table, x, group, _ = _chosen(table, x, group)
    return _view(table, x, y, group)


def panels(
    table: Table, x: str | None = None, y: str | None = None, group: str | None = None
) -> list[tuple[str, View]]:
    """Return what is drawn of a table, a panel with a title for each value of a third key of the grid.

    Raises as `view`.
    """
    table, x, group, left = _chosen(table, x, group)
    if not left:
        return [("", _view(table, x, y, group))]
    values = dict.fromkeys(map(hashable, table[left[0]].tolist()))
    last = _short(left[0], table)
    return [
        (f"{last} = {text_of(value)}", _view(table.where(**{left[0]: value}), x, y, group))
        for value in some(list(values), MOST_PANELS)
    ]


def _chosen(table: Table, x: str | None, group: str | None) -> tuple[Table, str, str | None, list[str]]:
    """Return a table, what it is drawn over, its group, and keys that are left and are more than repeats."""
    n_cells = len(table)
    if not len(table := table.done()):
        way_out = "They failed: see `failed`, mend what it says, and `retry`." if n_cells else "Resume it first."
        raise ValueError(f"the campaign has no cell yet that is done: there is nothing to show. {way_out}")
    table, x, group = _unfolded(table, x, group)
    settings = [one for axis in table.axes if (one := [key for key in axis if not _is_repeat(key)])]
    if x is None:
        x = _numeric([axis[0] for axis in settings if group is None or table.name_of(group) not in axis], table)
    x, group = table.name_of(x), None if group is None else table.name_of(group)
    several = [axis for axis in settings if len(set(map(hashable, table[axis[0]].tolist()))) > 1]
    left = [axis for axis in several if x not in axis]
    if group is None and left:
        group = left[0][0]
    return table, x, group, [axis[0] for axis in left if group not in axis]


def _view(table: Table, x: str, y: str | None, group: str | None) -> View:
    averaged = table.average(over=over) if (over := [key for key in table.keys if key not in (x, group)]) else table
    y = next((name for name in SHOWN if name in averaged), None) if y is None else averaged.name_of(y)
    if y is None:
        raise ValueError(f"say which column is drawn: y (--y). Columns are {', '.join(averaged.columns)}.")
    if averaged[x].dtype.kind not in "iuf":
        raise ValueError(f"{_short(x, table)!r} holds no numbers to draw over; got {averaged[x].tolist()[0]!r}.")
    if averaged[y].dtype.kind not in "biuf":
        raise ValueError(f"{y!r} holds no numbers to draw.")
    n = int(averaged["n"].max()) if over else 1
    curves = [Curve(*curve) for curve in averaged.curves(y, x=x, group=group)]
    return View(table, _short(x, table), y, None if group is None else _short(group, table), n, curves)


def _unfolded(table: Table, x: str | None, group: str | None) -> tuple[Table, str | None, str | None]:
    """Return a table with a row for each temperature or method of columns NAME@LABEL, where that is no key already."""
    labels = {type(label_of(column.partition(AT)[2])) for column in table.columns if AT in column}
    if labels == {float} and BETA not in table and x in (None, BETA):
        return table.long(BETA), BETA, group
    if labels == {str} and METHOD not in table and group in (None, METHOD):
        return table.long(METHOD), x, METHOD
    return table, x, group


def _is_repeat(key: str) -> bool:
    return key == FOLD or key.rpartition(".")[2] == SEED


def _numeric(keys: Sequence[str], table: Table) -> str:
    """Return the key with the most numbers."""
    counts = {key: len(np.unique(table[key])) for key in keys if table[key].dtype.kind in "iuf"}
    if not counts:
        raise ValueError(f"say over which key it is drawn: x (--x), one of {', '.join(table.keys) or 'none'}.")
    return max(counts, key=lambda key: counts[key])


def _short(name: str, table: Table) -> str:
    """Return the last part of a name, where that is clear."""
    last = name.rpartition(".")[2]
    return last if last in table else name


def some(values: Sequence[Any], most: int) -> list[Any]:
    """Return values, or as many of them evenly spaced."""
    if len(values) <= most:
        return list(values)
    return [values[round(k * (len(values) - 1) / (most - 1))] for k in range(most)]


def with_error(value: float, error: float) -> str:
    """Return a value with its error in its last digit, 0.65(3), or in two where the first is a 1."""
    if math.isnan(value):
        return "-"
    if not (math.isfinite(error) and error > 0.0):
        return f"{value:.5g}"
    mantissa, _, power = f"{error:.1e}".partition("e")
    digits = (1 if mantissa.startswith("1") else 0) - int(power)
    if digits > MOST_DIGITS:
        return f"{value:.3g}"
    if digits <= 0:
        return f"{value:.0f}({error:.0f})"
    last = round(error * 10.0**digits)
    return f"{value:.{digits}f}({last})" if int(power) < 0 else f"{value:.{digits}f}({error:.{digits}f})"
