"""Pictures of comparisons: how far off methods are on every machine, what that costs, and whether error bars hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from .inference.comparison import NOMINAL, Comparison
from .plots_style import GREY, LIGHT
from .run_view import Run

COLUMNS = 4  # panels in a row, at most
LEAST = 1e-6  # errors below are drawn here
MARKERS = "osD^v<>pPX*"
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#d95f02", "#1b9e77", "#000000",
    "#a6761d",
)  # fmt: skip

Rows = list[dict[str, Any]]


def draw_comparison(run: Run) -> Figure:
    """One panel for each machine, errors of log Z over beta (log Z itself where it is held against nothing); below
    them what errors cost in seconds, and errors in units of their error bars, where there are any.
    """
    comparison = run.comparison
    rows = [_best(row) for row in comparison.table if row["log_z"] is not None and row["bound"] != "exact"]
    known = bool(rows) and all(row["log_z_off"] is not None for row in rows)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    styles = {m: {"color": COLOURS[k % 11], "marker": MARKERS[k % 11], "ms": 4.0} for k, m in enumerate(methods)}
    models = list(dict.fromkeys(cell.model for cell in comparison.cells))
    n_rows = -(-len(models) // COLUMNS)
    n_columns = -(-len(models) // n_rows)
    figure = Figure(figsize=(max(6.4, 2.9 * n_columns), 2.7 * (n_rows + known) + 0.5), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(n_rows, 1.0)) if known else (figure, None)
    _machines(parts[0], models, n_rows, n_columns, rows, styles, known)
    if known:
        left, right = parts[1].subplots(1, 2)
        _costs(left, comparison, styles)
        _error_bars(right, rows, styles)
    handles = [_legend_line(style, method) for method, style in styles.items()]
    if handles:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(6, len(handles)))
    return figure


def _legend_line(style: dict[str, Any], label: str) -> Line2D:
    return Line2D([], [], lw=1.0, label=label, **style)


def _best(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the estimate that stands beside a bound in the bound's place."""
    if row["corrected"] is None:
        return row
    own = {"log_z": row["corrected"], "log_z_error": row["corrected_error"], "log_z_off": row["corrected_off"]}
    return row | own


def _machines(
    part: Any, models: list[str], n_rows: int, n_columns: int, rows: Rows, styles: dict[str, Any], known: bool
) -> None:
    panels = part.subplots(n_rows, n_columns, squeeze=False, sharex=True, sharey=known)
    for axes, model in zip(panels.flat, models, strict=False):
        for method, style in styles.items():
            found = [row for row in rows if (row["model"], row["method"]) == (model, method)]
            _curve(axes, found, style, known)
        axes.set_title(model)
        if known:
            axes.set_yscale("log")
    for axes in list(panels.flat)[len(models) :]:
        axes.set_visible(False)
    for axes in panels[-1]:
        axes.set_xlabel("beta")
    for axes in panels[:, 0]:
        axes.set_ylabel("|error of log Z|" if known else "log Z")


def _curve(axes: Any, rows: Rows, style: dict[str, Any], known: bool) -> None:
    """The root mean square error, or the mean of log Z, over seeds."""
    betas = sorted({row["beta"] for row in rows})
    values = []
    for beta in betas:
        of_beta = [row for row in rows if row["beta"] == beta]
        if known:
            mean = float(np.mean([row["log_z_off"] ** 2 for row in of_beta]))
            values.append(max(math.sqrt(mean), LEAST))
        else:
            values.append(float(np.mean([row["log_z"] for row in of_beta])))
    axes.plot(betas, values, lw=1.0, **style)


def _costs(axes: Any, comparison: Comparison, styles: dict[str, Any]) -> None:
    """Errors of every method on every machine against seconds, and all of them together."""
    for row in comparison.summary(("model", "method")):
        if row["method"] in styles and row["log_z_off"] is not None:
            style = styles[row["method"]] | {"ms": 3.0, "alpha": 0.4}
            axes.plot(max(row["seconds"], 1e-5), max(row["log_z_off"], LEAST), lw=0, **style)
    for row in comparison.summary(("method",)):
        if row["method"] in styles and row["log_z_off"] is not None:
            axes.plot(
                max(row["seconds"], 1e-5), max(row["log_z_off"], LEAST), lw=0, **(styles[row["method"]] | {"ms": 8.0})
            )
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="|error of log Z|", title="what it costs")


def _error_bars(axes: Any, rows: Rows, styles: dict[str, Any]) -> None:
    """Errors in standard errors, one line for each method that claims any."""
    shown = [m for m in styles if any(row["method"] == m and row["z"] is not None for row in rows)]
    axes.axvspan(-NOMINAL, NOMINAL, color=LIGHT, lw=0)
    axes.axvline(0.0, color=GREY, lw=0.8)
    spread = np.random.default_rng(0)
    for k, method in enumerate(shown):
        z = np.clip([row["z"] for row in rows if row["method"] == method and row["z"] is not None], -6.0, 6.0)
        style = styles[method] | {"ms": 3.0, "alpha": 0.6}
        axes.plot(z, k + spread.uniform(-0.25, 0.25, len(z)), lw=0, **style)
    axes.set_yticks(range(len(shown)), shown)
    axes.invert_yaxis()
    axes.set(xlim=(-6.3, 6.3), xlabel="error / its error bar", title="95 % of points belong into the grey")
