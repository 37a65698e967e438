"""Pictures of what a learned machine gets right of its data, and of the free chains of a learning run.

Of chains R-hat is drawn over epochs, and their energies beside those of the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ...learning.fidelity.fidelity import Compared, Fidelity
from ...learning.fidelity.patterns import PatternFrequencies
from ...learning.monitor.chains import R_HAT_OF_CHAINS
from ...runs.fit.learned import Learned
from .png import write_picture
from .style import BLUE, GREY, LIGHT, ORANGE, STYLE

BAND_ERRORS = 2.0  # standard errors of the data on either side
N_BINS = 24  # of moments, for the width of the band
DENSE = 2_000  # points above which they are drawn small and faint
MOMENTS = {
    "mean": ("means", r"$\langle s_i \rangle$"),
    "covariance": ("covariances", r"$\langle \delta s_i \, \delta s_j \rangle$"),
    "triple": ("triples", r"$\langle \delta s_i \, \delta s_j \, \delta s_k \rangle$"),
}
HIGHEST = 10.0  # R-hat that is drawn; infinite ones, of chains that stand still, lie there


def draw_fidelity(fidelity: Fidelity, path: str | Path) -> Path:
    """Draw a comparison of a machine with data to a PNG file and return its path.

    Parameters
    ----------
    fidelity : Fidelity
    path : str or Path
    """
    path = Path(path)
    with matplotlib.rc_context(STYLE | {"axes.formatter.use_mathtext": True}):
        figure = fidelity_figure(fidelity)
        write_picture(figure, path)
    return path


def fidelity_figure(fidelity: Fidelity) -> Figure:
    """Draw means, covariances and triples, machine against data, and the distribution of the population count."""
    figure = Figure(figsize=(9.0, 7.6), layout="constrained")
    fill_fidelity(figure, fidelity)
    return figure


def fill_fidelity(figure: Any, fidelity: Fidelity) -> None:
    """Draw the four panels of `fidelity_figure` into a figure, or a part of one."""
    panels = figure.subplots(2, 2)
    for axes, name in zip(panels.flat, MOMENTS, strict=False):
        draw_against(axes, fidelity, name)
    draw_population(panels[1, 1], fidelity)


def draw_against(axes: Any, fidelity: Fidelity, name: str) -> None:
    """Draw moments of the machine against those of the data, the identity, and a band of the data's errors about it."""
    one: Compared = getattr(fidelity, name)
    title, label = MOMENTS[name]
    axes.set(xlabel=f"{label}, data", ylabel=f"{label}, machine")
    if not one.data.size:
        axes.set_title(f"no {title}")
        return
    axes.set_title(f"{len(one.data):,} {title}")
    message = f"χ² / n = {_short(one.chi2)}\nlargest |z| = {_short(one.largest_z)}"
    low, high = min(one.data.min(), one.machine.min()), max(one.data.max(), one.machine.max())
    margin = 0.04 * (high - low) or 0.1
    ends = np.array([low - margin, high + margin])
    centres, widths = _band(one)
    axes.fill_between(
        centres, centres - widths, centres + widths, color=LIGHT, lw=0, label=f"± {BAND_ERRORS:g} errors of the data"
    )
    axes.plot(ends, ends, color=GREY, lw=0.8)
    many = len(one.data) > DENSE
    axes.plot(one.data, one.machine, ".", color=BLUE, ms=2 if many else 4, alpha=0.3 if many else 0.7, mew=0)
    axes.set(xlim=ends, ylim=ends)
    axes.set_aspect("equal")
    axes.locator_params(nbins=5)
    axes.ticklabel_format(scilimits=(-2, 3))
    axes.legend(loc="upper left")
    _note(axes, 0.97, 0.04, message, va="bottom")


def draw_patterns(axes: Any, frequencies: PatternFrequencies) -> None:
    """Draw probabilities of patterns against their frequencies among the rows, on logarithmic axes."""
    f = frequencies
    low = max(1e-3 / f.counts.sum(), min(f.machine.min(), f.independent.min()))
    ends = np.array([0.5 / f.counts.sum(), 1.5 * f.data.max()])
    axes.set(xscale="log", yscale="log", xlabel="frequency of a pattern, data", ylabel="probability of the pattern")
    axes.plot(
        f.data, np.maximum(f.independent, low), ".", color=GREY, ms=3, alpha=0.5, mew=0, label="independent units"
    )
    axes.plot(f.data, np.maximum(f.machine, low), ".", color=BLUE, ms=4, alpha=0.7, mew=0, label="machine")
    axes.plot(ends, ends, color=GREY, lw=0.8)
    axes.set(xlim=ends, ylim=(0.5 * low, ends[1]), title=f"{len(f.counts):,} patterns")
    axes.legend(loc="upper left", markerscale=2)
    parts = ("machine", f.divergence), ("independent", f.independent_divergence), ("noise", f.noise)
    _note(axes, 0.97, 0.04, "divergence, nats\n" + "\n".join(f"{name} {_short(x)}" for name, x in parts), va="bottom")


def _short(x: float) -> str:
    """Two digits, or a whole number."""
    return f"{x:.2g}" if x < 100 else f"{x:,.0f}"


def _note(axes: Any, x: float, y: float, text: str, **alignment: str) -> None:
    axes.text(x, y, text, transform=axes.transAxes, ha="right", fontsize=8.0, color=GREY, **alignment)


def _band(one: Compared) -> tuple[np.ndarray, np.ndarray]:
    """Where moments lie, and how wide the errors of those nearby are: root mean squares of equal numbers of them."""
    order = np.argsort(one.data, kind="stable")
    parts = np.array_split(order, min(N_BINS, len(order)))
    centres = np.array([one.data[part].mean() for part in parts])
    widths = np.array([np.sqrt(np.mean(one.error[part] ** 2)) for part in parts])
    ends = one.data[order[[0, -1]]]
    return np.concatenate([ends[:1], centres, ends[1:]]), BAND_ERRORS * np.concatenate(
        [widths[:1], widths, widths[-1:]]
    )


def draw_population(axes: Any, fidelity: Fidelity) -> None:
    """Draw P(K) on a log scale; what neither side shows is left out."""
    one = fidelity.population
    least = 0.3 / fidelity.n_rows
    counts = np.arange(len(one.data))
    seen = one.data > 0
    lower = np.minimum(one.error, one.data * 0.999)[seen]
    axes.errorbar(
        counts[seen], one.data[seen], yerr=[lower, one.error[seen]], fmt="o", color=ORANGE, ms=3, lw=0.8, label="data"
    )
    drawn = one.machine > 0
    machine, error = one.machine[drawn], one.machine_error[drawn]
    axes.fill_between(
        counts[drawn], np.maximum(machine - error, least / 10), machine + error, color=BLUE, alpha=0.25, lw=0
    )
    axes.plot(counts[drawn], machine, color=BLUE, lw=1.2, label="machine")
    last = int(np.flatnonzero((one.data > 0) | (one.machine > least)).max())
    axes.set(
        yscale="log", xlabel="units up, K", ylabel="P(K)", xlim=(-0.5, last + 0.5),
        ylim=(least, 2 * max(one.data.max(), one.machine.max())), title="population count",
    )  # fmt: skip
    axes.legend(loc="upper right")
    divergence, noise = fidelity.population_divergence, fidelity.population_divergence_noise
    _note(axes, 0.97, 0.83, f"Jensen–Shannon divergence\n{divergence:.2g} nats (noise {noise:.1g})", va="top")


def has_chains(run: Learned) -> bool:
    """Tell whether free chains were looked at."""
    return len(run.read("energies/epoch")) > 0


def fill_mixing(figure: Any, run: Learned) -> None:
    """Draw R-hat and energies of free chains into a figure, or a part of one."""
    left, right = figure.subplots(1, 2)
    _draw_r_hat(left, run)
    _draw_energies(right, run)


def _draw_r_hat(axes: Any, run: Learned) -> None:
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


def _draw_energies(axes: Any, run: Learned) -> None:
    """Draw the last histograms of energies, as densities."""
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
