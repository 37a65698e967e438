"""The picture of a campaign: a column of its table over a key of the grid, a curve for each value of another key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ...campaigns.columns import text_of
from ...campaigns.table import Table
from .png import write_picture
from .style import STYLE

COLOURS = ("#2166ac", "#d6604d", "#4d9221", "#762a83", "#777777", "#b8860b")
MARKERS = "osD^v*"
BINDER = ("binder_cumulant", "overlap_binder_cumulant", "log_z", "holdout", "energy")  # what is drawn unless told


def draw_campaign(ax: Any, table: Table, x: str, y: str | None = None, group: str | None = None) -> None:
    """Draw a column over another; keys of the grid that are neither `x` nor `group` are averaged over."""
    table = table.done()
    shown = {table.name_of(name) for name in (x, group) if name is not None}
    if over := [key for key in table.keys if key not in shown]:
        table = table.average(over=over)
    y = next((name for name in BINDER if name in table), None) if y is None else y
    if y is None:
        raise ValueError(f"say which column is drawn: y. Columns are {', '.join(table.columns)}.")
    curves = table.curves(y, x=x, group=group)
    for k, (label, places, values, errors) in enumerate(curves):
        if places.dtype.kind not in "iuf":
            raise ValueError(f"{x!r} holds no numbers to draw over; got {places.tolist()[0]!r}.")
        known = np.where(np.isnan(errors), 0.0, errors)
        style = {
            "color": COLOURS[k % len(COLOURS)],
            "marker": MARKERS[k % len(MARKERS)],
            "ms": 4,
            "lw": 1,
            "capsize": 2,
        }
        ax.errorbar(places, values, known, label="" if label is None else text_of(label), **style)
    ax.set_xlabel(x)
    ax.set_ylabel(y.replace("_", " "))
    if group is not None and curves:
        ax.legend(title=group)


def plot_campaign(table: Table, path: Path, x: str, y: str | None, group: str | None) -> Path:
    """Draw a campaign to a PNG file and return its path."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        draw_campaign(figure.subplots(), table, x, y, group)
        write_picture(figure, path)
    return path
