"""Pictures of the inverse problem: how far off rules are over temperatures and numbers of rows, and what they take."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, ScalarFormatter

from .learning.inverse_comparison import RuleComparison, short
from .plots_compare import COLOURS, MARKERS
from .plots_style import GREY
from .run_view import Run

PANEL = 2.9  # inches, across; and down
DOWN = 2.4
LEAST_LOSS = 1e-5  # nats a row; losses below, and what is better than the planted machine, are drawn here
MEASURES = {"gamma": "error of couplings", "pair_off": "error of pair moments"}
WORST = {"gamma": 5.0, "pair_off": 2.0, "likelihood_off": 30.0}  # axes end here: what is worse says nothing more
LOSS = "held-out loss, nats a row"

Rows = list[dict[str, Any]]


def draw_rules(run: Run) -> Figure:
    """One column of panels for each planted machine: over beta, at the largest number of rows, errors of couplings (of
    pair moments where there are hidden units) and held-out likelihood lost; errors over numbers of rows, at the middle
    beta; below them errors against seconds.
    """
    rows = run.rules.summary(("model", "beta", "n_rows", "rule"))
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
    _costs(figure.add_subplot(grid[-1, :]), run.rules, models, styles)
    handles = [Line2D([], [], lw=1.0, label=short(rule), **style) for rule, style in styles.items()]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(2 * n_across, 6))
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


def _costs(axes: Any, found: RuleComparison, models: list[str], styles: dict[str, Any]) -> None:
    """What every rule takes on every machine, beside the held-out likelihood that it loses, over all rows."""
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
