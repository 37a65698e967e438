"""The picture of a campaign: a column of its table over a key of the grid, a curve for each value of another key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, NullLocator

from ...campaigns.columns import text_of
from ...campaigns.table import Table
from ...campaigns.view import View, panels, view
from .png import write_picture
from .style import STYLE

COLOURS = ("#2166ac", "#d6604d", "#4d9221", "#762a83", "#777777", "#b8860b", "#1b9e77", "#aa3377", "#66ccee", "#000000")
MARKERS = "osD^v*<>pP"
LABELS = {
    "xi_over_length": r"$\xi/L$",
    "overlap_xi_over_length": r"$\xi/L$ of overlaps",
    "log_z_off": r"|error of $\log Z$|",
    "mean_off": "largest error of a mean",
    "covariance_off": "largest error of a covariance",
    "holdout": "held-out log-likelihood, nats a row",
    "gamma": "error of couplings",
}
ERRORS = ("_off", "gamma")  # how columns end that are sizes of errors, over orders of magnitude
WIDE = 4.0  # from the smallest to the largest, at least, of what is drawn by powers
MOST_TICKS = 8
LEAST = 1e-12  # errors below are drawn here
FEW = 6  # curves that a legend within the picture names
COLUMNS = 3  # of panels


def draw_campaign(ax: Any, table: Table, x: str | None = None, y: str | None = None, group: str | None = None) -> None:
    """Draw a column over another; keys of the grid that are neither `x` nor `group` are averaged over."""
    draw_view(ax, view(table, x, y, group))


def draw_view(ax: Any, shown: View, *, legend: bool = True) -> None:
    """Draw what was chosen."""
    by_powers = shown.y.endswith(ERRORS)
    curves = [curve for curve in shown.curves if not by_powers or (curve.y > 0.0).any()]  # what is exact has no place
    for k, curve in enumerate(curves):
        style = {
            "color": COLOURS[k % len(COLOURS)],
            "marker": MARKERS[k % len(MARKERS)],
            "ms": 4,
            "lw": 1,
            "capsize": 2,
        }
        values = np.maximum(curve.y, LEAST) if by_powers else curve.y
        known = np.where(np.isnan(curve.errors), 0.0, curve.errors)
        if by_powers:  # none reaches below 0
            known = np.stack([np.minimum(known, 0.9 * values), known])
        ax.errorbar(curve.x, values, known, label="" if curve.label is None else text_of(curve.label), **style)
    ax.set_xlabel(shown.x.replace("_", " "))
    ax.set_ylabel(LABELS.get(shown.y, shown.y.replace("_", " ")))
    if by_powers:
        ax.set_yscale("log")
    places = np.unique(np.concatenate([curve.x for curve in curves])) if curves else np.ones(1)
    if _is_geometric(places):
        ax.set_xscale("log")
        ax.set_xticks(places if len(places) <= MOST_TICKS else places[[0, -1]])
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_locator(NullLocator())
    if legend and shown.group is not None and curves:
        ax.legend(title=shown.group.replace("_", " "))


def _is_geometric(places: np.ndarray) -> bool:
    """Return whether values are spaced by factors rather than by differences."""
    if len(places) < 3 or places[0] <= 0.0 or places[-1] < WIDE * places[0]:
        return False
    steps, factors = np.diff(places), np.diff(np.log(places))
    return bool(np.ptp(factors) / factors.mean() < np.ptp(steps) / steps.mean())


def campaign_figure(shown: Sequence[tuple[str, View]]) -> Figure:
    """Return panels with their titles in one figure."""
    n = len(shown)
    n_columns = min(n, COLUMNS) if n != 4 else 2
    n_rows = -(-n // n_columns)
    size = (6.4, 4.4) if n == 1 else (3.2 * n_columns + 0.6, 2.9 * n_rows)
    figure = Figure(figsize=size, layout="constrained")
    found = figure.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=True)
    inside = n == 1 and len(shown[0][1].curves) <= FEW
    for axes, (title, one) in zip(found.flat, shown, strict=False):
        draw_view(axes, one, legend=inside)
        axes.set_title(title)
        axes.label_outer()
    for axes in list(found.flat)[n:]:
        axes.set_visible(False)
    if not inside and shown[0][1].group is not None:
        handles, labels = found.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, title=shown[0][1].group.replace("_", " "), loc="outside right center")
    return figure


def plot_campaign(table: Table, path: Path, x: str | None, y: str | None, group: str | None) -> Path:
    """Draw a campaign to a PNG file and return its path."""
    with matplotlib.rc_context(STYLE):
        write_picture(campaign_figure(panels(table, x, y, group)), path)
    return path
