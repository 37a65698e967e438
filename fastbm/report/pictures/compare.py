"""Pictures of comparisons of inference methods, and of rules of learning.

Of methods: how far off they are on every machine, what that costs, and whether error bars hold. Of rules, on the
inverse problem: how far off they are over temperatures and numbers of rows, and what they take.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, ScalarFormatter

from ...inference.comparison import NOMINAL, Comparison
from ...learning.planted.comparison import RuleComparison, short
from ...runs.infer.run import Results
from ...runs.planted.run import RulesRun
from .style import GREY, LIGHT

COLUMNS = 4  # panels in a row, at most
LEAST = 1e-6  # errors below are drawn here
MARKERS = "osD^v<>pPX*"
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#d95f02", "#1b9e77", "#000000",
    "#a6761d",
)  # fmt: skip

Rows = list[dict[str, Any]]
PANEL = 2.9  # inches, across; and down
DOWN = 2.4
LEAST_LOSS = 1e-5  # nats a row; losses below, and what is better than the planted machine, are drawn here
MEASURES = {"gamma": "error of couplings", "pair_off": "error of pair moments"}
WORST = {"gamma": 5.0, "pair_off": 2.0, "likelihood_off": 30.0}  # axes end here: what is worse says nothing more
LOSS = "held-out loss, nats a row"


def draw_comparison(run: Results) -> Figure:
    """Draw a run of `infer` or `compare`, as `comparison_figure` does its results."""
    return comparison_figure(run.comparison)


def draw_rules(run: RulesRun) -> Figure:
    """Draw a run of `compare_rules`, as `rules_figure` does its results."""
    return rules_figure(run.rules)


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw one panel for each machine: errors of log Z over beta, or log Z itself where it is held against nothing.

    Below them stand errors over their cost in seconds, and errors in units of their error bars, where there are any.
    """
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
        figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)))
    return figure


def _legend_line(style: dict[str, Any], label: str) -> Line2D:
    return Line2D([], [], lw=1.0, label=label, **style)


def _best(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with the estimate that stands beside a bound in the bound's place."""
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
    """Draw the root mean square error, or the mean of log Z, over seeds."""
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
    axes.xaxis.set_minor_formatter(NullFormatter())


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


def rules_figure(found: RuleComparison) -> Figure:
    """Draw one column of panels for each planted machine.

    Over beta, at the largest number of rows, stand errors of couplings (of pair moments where there are hidden units)
    and held-out likelihood lost; then errors over numbers of rows, at the middle beta; below them errors against
    seconds.
    """
    rows = found.summary(("model", "beta", "n_rows", "rule"))
    models, rules = (list(dict.fromkeys(row[name] for row in rows)) for name in ("model", "rule"))
    styles = {rule: _style(k) for k, rule in enumerate(rules)}
    sizes, betas = (sorted({row[name] for row in rows}) for name in ("n_rows", "beta"))
    kinds = ["beta", "loss", *(["rows"] if len(sizes) > 1 else [])] if len(betas) > 1 else ["rows", "loss rows"]
    n_across = max(2, len(models))
    figure = Figure(figsize=(PANEL * n_across, DOWN * (len(kinds) + 1) + 0.6), layout="constrained")
    grid = figure.add_gridspec(len(kinds) + 1, n_across)
    for column, model in enumerate(models):
        of_model = [row for row in rows if row["model"] == model]
        for place, kind in enumerate(kinds):
            axes = figure.add_subplot(grid[place, column])
            _panel(axes, kind, of_model, styles, sizes, betas)
            if place == 0:
                axes.set_title(model)
    _costs_of_rules(figure.add_subplot(grid[-1, :]), found, models, styles)
    handles = [Line2D([], [], lw=1.0, label=short(rule), **style) for rule, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(2 * n_across, 6))
    return figure


def _style(k: int) -> dict[str, Any]:
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)], "ms": 4.0}


def _measure(rows: Rows) -> str:
    """Couplings cannot be held against those of a machine with hidden units; moments can."""
    return "gamma" if any(row["gamma"] is not None for row in rows) else "pair_off"


def _panel(axes: Any, kind: str, rows: Rows, styles: dict[str, Any], sizes: list[int], betas: list[float]) -> None:
    """Curves of all rules: over beta at the largest number of rows, or over these at the middle beta."""
    over_beta = kind in ("beta", "loss")
    across, fixed, at = ("beta", "n_rows", sizes[-1]) if over_beta else ("n_rows", "beta", betas[len(betas) // 2])
    measure = "likelihood_off" if kind.startswith("loss") else _measure(rows)
    for rule, style in styles.items():
        found = [row for row in rows if (row["rule"], row[fixed]) == (rule, at) and row[measure] is not None]
        values = [_positive(row[measure], measure) for row in found]
        axes.plot([row[across] for row in found], values, lw=1.0, alpha=0.85, **style)
    axes.set_yscale("log")
    axes.set_ylim(top=min(axes.get_ylim()[1], WORST[measure]))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set(ylabel=LOSS if measure == "likelihood_off" else MEASURES[measure])
    axes.set_xlabel(f"beta ({at} rows)" if over_beta else f"rows (beta = {at:g})")
    if measure == "gamma":
        axes.axhline(1.0, color=GREY, lw=0.8, ls=":")  # what no couplings at all are off by
    if not over_beta:
        axes.set(xscale="log", xticks=sizes)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_formatter(NullFormatter())


def _positive(value: float, measure: str) -> float:
    return max(-value, LEAST_LOSS) if measure == "likelihood_off" else value


def _costs_of_rules(axes: Any, found: RuleComparison, models: list[str], styles: dict[str, Any]) -> None:
    """Draw the seconds of every rule on every machine against the held-out likelihood that it loses, over all rows."""
    for rule, style in styles.items():
        places = []
        for row in found.summary(("model", "rule")):
            if row["rule"] == rule and row["seconds"] and row["likelihood_off"] is not None:
                places.append((row["seconds"], _positive(row["likelihood_off"], "likelihood_off")))
        if places:
            seconds, losses = np.array(places).T
            axes.plot(seconds, losses, lw=0, **(style | {"ms": 3.5, "alpha": 0.5}))
            middle = np.exp(np.log(np.array(places)).mean(axis=0))
            axes.plot(*middle, lw=0, **(style | {"ms": 8.0}))
    axes.set(xscale="log", yscale="log", xlabel="seconds to learn", ylabel=LOSS)
    axes.set_title("what it takes: each machine (small), and their geometric means (large), all rows and betas")
