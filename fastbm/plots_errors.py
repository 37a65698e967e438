"""Learned couplings with their standard errors, in order of size."""

from __future__ import annotations

from typing import Any

import numpy as np

from .plots_style import BLUE, GREY, LIGHT, clip
from .run_view import Run

MOST_BARS = 400  # evenly spaced in order where there are more couplings


def has_errors(run: Run) -> bool:
    """Whether the couplings have standard errors."""
    return len(run.errors.get("bias", ())) > 0


def draw_errors(axes: Any, run: Run) -> None:
    """Draw couplings with bars of one standard error; those whose bars of two leave out 0 stand out.

    Couplings that the data leave open have no bar; the title counts them. Those far larger than most stand at the
    edge, without a bar.
    """
    couplings = run.model.couplings
    weights = couplings.to_vector(couplings.arrays)
    names = [name for name in run.errors if name != "bias"]
    errors = couplings.to_vector([run.errors[name][-1] for name in names])
    order = np.argsort(weights, kind="stable")
    ranks = np.unique(np.linspace(0, weights.size - 1, min(weights.size, MOST_BARS)).round().astype(int))
    chosen = order[ranks]
    clear = np.abs(weights[chosen]) > 2.0 * errors[chosen]
    drawn, limit, told = clip(weights)
    axes.axhline(0.0, color=LIGHT, lw=1.0)
    for some, colour, label in ((~clear, GREY, "within 2 of 0"), (clear, BLUE, "beyond 2")):
        finite = some & np.isfinite(errors[chosen]) & (drawn[chosen] == weights[chosen])
        bars = {"yerr": errors[chosen][finite], "fmt": "none", "ecolor": colour, "elinewidth": 0.7}
        axes.errorbar(ranks[finite], drawn[chosen][finite], **bars)
        axes.plot(ranks[some], drawn[chosen][some], ".", color=colour, ms=3, label=label)
    n_open = int((~np.isfinite(errors)).sum())
    title = f"{weights.size} couplings ± standard error"
    title += f", {n_open} of them open" if n_open else ""
    axes.set(xlabel="rank", ylabel="coupling", title=title + (f"\n{told}" if told else ""))
    if told:
        axes.set_ylim(-1.1 * limit, 1.1 * limit)
    axes.legend(fontsize=7.5, title="standard errors", title_fontsize=7.5)
