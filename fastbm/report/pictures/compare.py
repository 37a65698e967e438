"""Pictures of comparisons of inference methods, and of rules of learning.

Of methods: how far off they are on every machine, what that costs, and whether error bars hold. Of rules, on the
inverse problem: how far off they are over temperatures and numbers of rows, and what they take.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullFormatter, ScalarFormatter

from ...inference.comparison import NOMINAL, Cell, Comparison, Reference
from ...learning.planted.comparison import RuleComparison, short
from ...runs.infer.run import Results
from ...runs.planted.run import RulesRun
from .style import GREY, LIGHT

COLUMNS = 4  # panels in a row, at most
LEAST = 1e-6  # errors below are drawn here
OFF = "log_z_off"
LABELS = {OFF: "|error of log Z|", "log_z": "log Z", "energy": "energy"}
LETTERS, MOST_LINES = 10, 4  # of a machine's name: letters on an inch, and lines
MARKERS = "osD^v<>pPX*"
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#d95f02", "#1b9e77", "#000000",
    "#a6761d",
)  # fmt: skip

Rows = list[dict[str, Any]]
PANEL = 2.9  # inches, across; and down
DOWN = 2.4
LETTER, SAMPLE = 0.085, 0.7  # inches of a legend: a letter, and what stands before and after a label
HOLLOW: dict[str, Any] = {"marker": "o", "ms": 3.0, "lw": 0, "color": GREY, "mfc": "none", "mew": 0.7}
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


class Panel(NamedTuple):
    """What is drawn of one machine: the column of its rows that all of them have, and brackets of log Z by beta."""

    model: str
    quantity: str
    rows: Rows
    brackets: dict[float, Reference]


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw one panel for each machine: errors of log Z over beta where exact sums tell them, else what was found.

    That is log Z with error bars and the bracket as a band, where there is one; of methods without log Z, the energy.
    Results of several clamped patterns are points side by side. Below the panels stand errors over their cost in
    seconds, and errors in units of their error bars, where exact sums tell any.

    Raises
    ------
    ValueError
        If there is no result yet.
    """
    if not len(comparison):
        raise ValueError("there is nothing to draw yet: the run has no results.")
    panels = _panels(comparison)
    methods = dict.fromkeys(row["method"] for panel in panels for row in panel.rows)
    styles = {method: _style(k) for k, method in enumerate(methods)}
    held = [row for panel in panels if panel.quantity == OFF for row in panel.rows]
    n_rows = -(-len(panels) // COLUMNS)
    n_columns = -(-len(panels) // n_rows)
    width, n_down = max(6.4, PANEL * n_columns), n_rows + bool(held)
    figure = Figure(figsize=(width, 2.7 * n_down + 0.5), layout="constrained")
    parts: Any = figure.subfigures(2, 1, height_ratios=(n_rows, 1.0)) if held else (figure, None)
    _machines(parts[0].subplots(n_rows, n_columns, squeeze=False, sharex=True), panels, styles, width / n_columns)
    handles: list[Any] = [Line2D([], [], lw=1.0, label=method, **style) for method, style in styles.items()]
    if any(panel.brackets for panel in panels):
        handles.append(Patch(color=LIGHT, label="bracket"))
    if held:
        left, right = parts[1].subplots(1, 2)
        _costs(left, comparison, {row["method"]: styles[row["method"]] for row in held})
        _error_bars(right, held, styles)
        if any(row["z"] is not None and not row["converged"] for row in held):
            handles.append(Line2D([], [], label="not said to have converged", **HOLLOW))
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=_fitting(handles, width))
    return figure


def _fitting(handles: Sequence[Any], width: float) -> int:
    """Return in how many columns a legend fits into so many inches, at most 6."""
    sizes = [len(handle.get_label()) for handle in handles]
    for n in range(min(6, len(sizes)), 1, -1):
        if sum(LETTER * max(some) + SAMPLE for some in np.array_split(sizes, n)) <= width:
            return n
    return 1


def _panels(comparison: Comparison) -> list[Panel]:
    by_model: dict[str, Rows] = {}
    for cell, row in zip(comparison.cells, comparison.table, strict=True):
        by_model.setdefault(cell.model, []).append(_found(cell, row))
    panels = []
    for model, rows in by_model.items():
        quantity, brackets = _quantity(rows), {}
        if quantity == "log_z":
            references = {beta: comparison.reference(model, beta) for beta in sorted({row["beta"] for row in rows})}
            brackets = {beta: r for beta, r in references.items() if r is not None and r.kind == "bracket"}
        shown = _estimates(rows) if quantity == OFF else rows
        panels.append(Panel(model, quantity, [row for row in shown if row[quantity] is not None], brackets))
    return panels


def _found(cell: Cell, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with log Z and energy, numbers or arrays over clamped patterns; errors are from exact sums alone.

    The estimate that stands beside a bound takes the bound's place.
    """
    names = ("log_z", "log_z_error", "energy", "energy_error")
    row = row | {name: getattr(cell.result, name) for name in names}
    if row["corrected"] is not None:
        row |= {"log_z": row["corrected"], "log_z_error": row["corrected_error"], OFF: row["corrected_off"]}
    return row if row["reference"] == "exact" else row | {OFF: None}


def _estimates(rows: Rows) -> Rows:
    return [row for row in rows if row["bound"] != "exact"]


def _quantity(rows: Rows) -> str:
    """Return the column that is drawn of a machine: what its estimates have, or exact sums where these are all."""
    with_log_z = [row for row in _estimates(rows) if row["log_z"] is not None]
    if with_log_z:
        return OFF if all(row[OFF] is not None for row in with_log_z) else "log_z"
    has_energy = any(row["energy"] is not None for row in _estimates(rows))
    return "energy" if has_energy else "log_z"


def _machines(grid: Any, panels: list[Panel], styles: dict[str, Any], width: float) -> None:
    """Draw each machine into its axes, `width` inches across; errors of all of them have one scale."""
    first: Any = None
    for axes, panel in zip(grid.flat, panels, strict=False):
        if panel.quantity == OFF:
            axes.set_yscale("log")
            if first is not None:
                axes.sharey(first)
            first = first or axes
        _brackets(axes, panel)
        for method, style in styles.items():
            _curve(axes, [row for row in panel.rows if row["method"] == method], panel.quantity, style)
        if not panel.rows:
            axes.text(0.5, 0.5, "no results", ha="center", color=GREY, transform=axes.transAxes)
        axes.set_title(_wrapped(panel.model, width))
        axes.set_ylabel(LABELS[panel.quantity])
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    _label_grid(grid, any(np.ndim(row[panel.quantity]) for panel in panels for row in panel.rows))


def _label_grid(grid: Any, patterns: bool) -> None:
    """Label the lowest axes, and tell what is the same as to the left once."""
    for axes in grid[-1]:
        axes.set_xlabel("clamped pattern" if patterns else "beta")
        if patterns:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for across in grid:
        for axes, before in reversed(list(zip(across[1:], across, strict=False))):
            if axes.get_ylabel() == before.get_ylabel():
                axes.set_ylabel("")
                axes.tick_params(labelleft=not axes.get_shared_y_axes().joined(axes, before), which="both")


def _brackets(axes: Any, panel: Panel) -> None:
    """Draw the numbers between which log Z lies as a band over beta."""
    betas = list(panel.brackets)
    low, high = ([getattr(panel.brackets[beta], side) for beta in betas] for side in ("low", "high"))
    if len({row["beta"] for row in panel.rows}) > 1:
        axes.fill_between(betas, low, high, color=LIGHT, lw=1.0)
    elif betas:
        axes.axhspan(low[0], high[0], color=LIGHT, lw=1.0)


def _curve(axes: Any, rows: Rows, quantity: str, style: dict[str, Any]) -> None:
    """Draw the root mean square error over seeds, or the mean of another quantity with its error."""
    for row in rows:
        if np.ndim(row[quantity]):
            places, errors = np.arange(len(row[quantity])), _number(row[f"{quantity}_error"])
            axes.errorbar(places, row[quantity], yerr=errors, lw=0, elinewidth=1.0, capsize=2.0, **style)
    by_beta: dict[float, Rows] = {}
    for row in sorted(rows, key=lambda row: row["beta"]):
        if not np.ndim(row[quantity]):
            by_beta.setdefault(row["beta"], []).append(row)
    if quantity == OFF:
        off = [max(_root_mean_square([row[OFF] for row in some]), LEAST) for some in by_beta.values()]
        axes.plot(list(by_beta), off, lw=1.0, **style)
    elif by_beta:
        means = [np.mean([row[quantity] for row in some]) for some in by_beta.values()]
        errors = [
            _root_mean_square([_number(row[f"{quantity}_error"]) for row in some]) / math.sqrt(len(some))
            for some in by_beta.values()
        ]
        axes.errorbar(list(by_beta), means, yerr=errors, lw=1.0, capsize=2.0, **style)


def _number(error: Any) -> Any:
    """Return an error bar, NaN where there is none."""
    return np.nan if error is None else np.asarray(error, dtype=float)


def _root_mean_square(values: list[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _wrapped(name: str, inches: float) -> str:
    """Return a name in lines that fit into a width; of very long ones the beginning."""
    lines = textwrap.wrap(name, int(LETTERS * inches)) or [name]
    return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "..."])


def _costs(axes: Any, comparison: Comparison, styles: dict[str, Any]) -> None:
    """Errors of every method on every machine against seconds, and all of them together; by exact sums alone."""
    rows = zip(comparison.cells, comparison.table, strict=True)
    held = Comparison(tuple(cell for cell, row in rows if row["reference"] == "exact"))
    for by, look in ((("model", "method"), {"ms": 3.0, "alpha": 0.4}), (("method",), {"ms": 8.0})):
        for row in held.summary(by):
            if row["method"] in styles and row[OFF] is not None:
                place = max(row["seconds"], 1e-5), max(row[OFF], LEAST)
                axes.plot(*place, lw=0, **(styles[row["method"]] | look))
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel=LABELS[OFF], title="what it costs")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _error_bars(axes: Any, rows: Rows, styles: dict[str, Any]) -> None:
    """Errors in standard errors, one line for each method that claims any; hollow where it does not believe them."""
    shown = [m for m in styles if any(row["method"] == m and row["z"] is not None for row in rows)]
    axes.axvspan(-NOMINAL, NOMINAL, color=LIGHT, lw=0)
    axes.axvline(0.0, color=GREY, lw=0.8)
    spread = np.random.default_rng(0)
    doubted = False
    for k, method in enumerate(shown):
        for believed in (True, False):
            found = [row for row in rows if row["method"] == method and (row["converged"] is True) == believed]
            z = np.clip([row["z"] for row in found if row["z"] is not None], -6.0, 6.0)
            look = {"ms": 3.0, "alpha": 0.6} if believed else HOLLOW | {"marker": styles[method]["marker"]}
            axes.plot(z, k + spread.uniform(-0.25, 0.25, len(z)), **(styles[method] | {"lw": 0} | look))
            doubted |= len(z) > 0 and not believed
    axes.set_yticks(range(len(shown)), shown)
    axes.invert_yaxis()
    title = f"95 % of {'filled ' if doubted else ''}points belong into the grey"
    axes.set(xlim=(-6.3, 6.3), xlabel="error / its error bar")
    axes.set_title(title, loc="right")  # it is wider than the axes beside long names


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
                axes.set_title(_wrapped(model, PANEL))
    _costs_of_rules(figure.add_subplot(grid[-1, :]), found, models, styles)
    handles = [Line2D([], [], lw=1.0, label=short(rule), **style) for rule, style in styles.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=_fitting(handles, PANEL * n_across))
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
