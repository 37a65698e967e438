"""Pictures of the free chains of a learning run: R-hat over epochs, and energies beside those of the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from .learning.mixing import R_HAT_OF_CHAINS
from .plots_style import BLUE, GREY, LIGHT, ORANGE
from .run_view import Run

HIGHEST = 10.0  # R-hat that is drawn; infinite ones, of chains that stand still, lie there


def has_chains(run: Run) -> bool:
    """Whether free chains were looked at."""
    return len(run.read("energies/epoch")) > 0


def fill_mixing(figure: Any, run: Run) -> None:
    """Draw both panels into a figure, or a part of one."""
    left, right = figure.subplots(1, 2)
    _draw_r_hat(left, run)
    _draw_energies(right, run)


def _draw_r_hat(axes: Any, run: Run) -> None:
    """R-hat with its limit; the epochs at which more was done by free="auto"."""
    epoch, r_hat = run.metrics["step"] + 1, run.metrics["r_hat"]
    axes.axhspan(1.0, R_HAT_OF_CHAINS, color=LIGHT, lw=0)
    axes.plot(epoch, np.minimum(r_hat, HIGHEST), ".-", color=BLUE, lw=1.0, ms=3)
    known = r_hat[~np.isnan(r_hat)]
    highest = min(max(known.max(initial=1.0), 1.1 * R_HAT_OF_CHAINS), HIGHEST)
    axes.set(xlabel="epoch", ylabel="R-hat", title="mixing of the free chains", ylim=(0.98, 1.04 * highest))
    if not len(known):
        axes.set_xlim(0, max(epoch.max(initial=1), 1) + 1)
        axes.text(0.5, 0.5, "too few epochs", transform=axes.transAxes, ha="center", va="center", color=GREY)
    if "n_sweeps" in run.metrics:
        work = np.stack([run.metrics["n_sweeps"], run.metrics["n_betas"]])
        changes = np.flatnonzero((np.diff(work, axis=1) != 0).any(axis=0)) + 1
        top = axes.get_xaxis_transform()
        for k in changes:
            sweeps, replicas = work[:, k]
            label = f" {sweeps:g}" if replicas == 1 else f" {sweeps:g} × {replicas:g}"
            axes.axvline(epoch[k], color=ORANGE, lw=0.8, ls=":")
            axes.text(epoch[k], 0.98, label, transform=top, color=ORANGE, fontsize=7.0, rotation=90, va="top")
        if len(changes):
            axes.set_title("mixing of the free chains; n_sweeps (× replicas)")


def _draw_energies(axes: Any, run: Run) -> None:
    """The last histograms, as densities."""
    edges = run.energies["edges"][-1]
    labels = {"chains": "free chains", "rows": "data", "holdout": "held out"}
    colours = {"chains": BLUE, "rows": ORANGE, "holdout": GREY}
    for name in (name for name in labels if name in run.energies):
        counts = run.energies[name][-1]
        density = counts / (counts.sum() * np.diff(edges))
        if name == "chains":
            axes.stairs(density, edges, fill=True, color=colours[name], alpha=0.35, label=labels[name])
        else:
            axes.stairs(density, edges, color=colours[name], lw=1.2, label=labels[name])
    summed = "rows" in run.energies and run.model.n_hidden
    quantity = "free energy of visible units, nats" if summed else "beta × energy, nats"
    axes.set(xlabel=quantity, ylabel="density", title=f"energies after epoch {run.energies['epoch'][-1] + 1}")
    axes.legend(loc="best", fontsize=7.5)
