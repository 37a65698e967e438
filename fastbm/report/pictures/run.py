"""Pictures of runs, with Matplotlib: one figure for each kind; and learned couplings with their standard errors."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from ...inference.temperatures import KEY, Temperatures
from ...machine.machine import BoltzmannMachine
from ...runs.fit.learned import Learned
from ...runs.infer.run import InferRun
from ...runs.run import Run
from .compare import draw_comparison, draw_rules
from .fit import fill_fidelity, fill_mixing, has_chains
from .png import write_picture
from .sample import draw_sample
from .style import BLUE, GREY, LIGHT, ORANGE, STYLE, clip
from .temperatures import draw_temperatures

MOST_NAMED, LONGEST_NAME = 40, 12  # units whose names are drawn, and letters of them
LETTERS = 14  # of a verdict on an inch
MOST_BARS = 400  # evenly spaced in order where there are more couplings


def has_errors(run: Learned) -> bool:
    """Tell whether the couplings have standard errors."""
    return len(run.errors.get("bias", ())) > 0


def draw_errors(axes: Any, run: Learned) -> None:
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
    drawn, limit, text = clip(weights)
    axes.axhline(0.0, color=LIGHT, lw=1.0)
    for some, colour, label in ((~clear, GREY, "within 2 of 0"), (clear, BLUE, "beyond 2")):
        finite = some & np.isfinite(errors[chosen]) & (drawn[chosen] == weights[chosen])
        bars = {"yerr": errors[chosen][finite], "fmt": "none", "ecolor": colour, "elinewidth": 0.7}
        axes.errorbar(ranks[finite], drawn[chosen][finite], **bars)
        axes.plot(ranks[some], drawn[chosen][some], ".", color=colour, ms=3, label=label)
    n_open = int((~np.isfinite(errors)).sum())
    title = f"{weights.size} couplings ± standard error"
    title += f", {n_open} of them open" if n_open else ""
    axes.set(xlabel="rank", ylabel="coupling", title=title + (f"\n{text}" if text else ""))
    if text:
        axes.set_ylim(-1.1 * limit, 1.1 * limit)
    axes.legend(fontsize=7.5, title="standard errors", title_fontsize=7.5)


def plot_run(run: Run, path: Path) -> Path:
    """Draw a run of any kind to a PNG file and return its path."""
    with matplotlib.rc_context(STYLE):
        write_picture(run_figure(run), path)
    return path


def run_figure(run: Run) -> Figure:
    """Draw a run of any kind, under its verdict."""
    figure = DRAWERS[run.kind](run)
    verdict, width = run.verdict, int(figure.get_figwidth() * LETTERS)
    figure.suptitle(
        textwrap.fill(verdict, width), fontsize=9.0, color=GREY if run.converged else ORANGE, x=0.01, ha="left"
    )
    return figure


def _fit(run: Learned) -> Figure:
    """Draw a run of learning: its curve, its machine, and its chains beside the data.

    That is the learning curve; receptive fields or couplings; mixing and energies of free chains; samples beside data,
    where rows are square pictures; how the machine compares with its data, where it was held against them.
    """
    side = _side(run.model.n_visible)
    pictures = side is not None and side >= 3 and "rows" in run.data
    mixing = has_chains(run)
    heights = [3.4, *([2.8] if mixing else []), *([3.0] if pictures else []), *([7.4] if run.fidelity else [])]
    figure = Figure(figsize=(10.0, sum(heights)), layout="constrained")
    parts: Any = iter(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0])
    left, right = next(parts).subplots(1, 2)
    draw_learning(left, run)
    if has_errors(run):
        draw_errors(right, run)
    elif run.model.is_layered or not run.model.n_hidden:
        draw_couplings(right, run.model)
    else:
        draw_coupling_matrix(right, run.model.couplings.matrix(), run.model.names)
    if mixing:
        fill_mixing(next(parts), run)
    if pictures and side is not None:
        panels = next(parts).subfigures(1, 3)
        n_times = 1 if run.model.n_hidden else 2  # the fields of visible units hold every coupling twice
        _gallery(panels[0], _receptive_fields(run), side, "receptive fields", signed=True, n_times=n_times)
        _gallery(panels[1], _samples(run), side, "samples")
        _gallery(panels[2], run.data["rows"][:64], side, "data")
    if run.fidelity:
        fill_fidelity(next(parts), run.fidelity)
    return figure


def draw_learning(axes: Any, run: Learned) -> None:
    """Draw likelihoods over epochs, and what is left of the difference of moments or of the gradient."""
    step = run.metrics["step"] + 1
    lines = [
        (n, label)
        for n, label in (("log_likelihood", "log-likelihood"), ("pseudo_likelihood", "pseudo-likelihood"))
        if n in run.metrics
    ]
    for colour, (name, label) in zip((BLUE, GREY), lines, strict=False):
        axes.plot(step, run.metrics[name], color=colour, label=label)
    _draw_ais(axes, run)
    for name, label, marker in (
        ("log_likelihood", "data, at the end", "o"),
        ("log_likelihood_bound", "bound, data, at the end", "o"),
        ("holdout_log_likelihood", "held out, at the end", "s"),
        ("holdout_log_likelihood_bound", "bound, held out, at the end", "s"),
    ):
        values = run.evaluation.get(name, np.empty(0))
        if len(values) and len(step):
            axes.plot(step[-1], values[-1], marker, color=ORANGE, label=f"log-likelihood, {label}", clip_on=False, ms=4)
    axes.set(xlabel="epoch", ylabel="nats a row", title="learning")
    other = "moment_error" if "moment_error" in run.metrics else "gradient"
    if other in run.metrics and len(step):
        twin = axes.twinx()
        twin.spines["right"].set_visible(True)
        twin.plot(step, run.metrics[other], color=ORANGE, lw=0.8, alpha=0.7)
        if "moment_noise" in run.metrics:
            twin.plot(step, run.metrics["moment_noise"], color=ORANGE, lw=0.8, ls=":", alpha=0.7)
            other = "moment error (dotted: its noise)"
        twin.set(ylabel=other.replace("_", " "), yscale="log")
        twin.yaxis.label.set_color(ORANGE)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", fontsize=7.5)


def _draw_ais(axes: Any, run: Learned) -> None:
    """Likelihoods by annealed importance sampling, with the error of log Z."""
    for name, label, colour in (
        ("log_likelihood", "log-likelihood by ais, data", BLUE),
        ("holdout_log_likelihood", "log-likelihood by ais, held out", ORANGE),
        ("log_likelihood_bound", "lower bound by ais, data", BLUE),
        ("holdout_log_likelihood_bound", "lower bound by ais, held out", ORANGE),
    ):
        values = run.likelihood.get(name, np.empty(0))
        if len(values):
            epoch, error = run.likelihood["epoch"] + 1, run.likelihood["log_z_error"]
            axes.errorbar(epoch, values, yerr=error, fmt=".-", color=colour, lw=0.8, ms=4, capsize=2, label=label)


def draw_couplings(axes: Any, model: BoltzmannMachine) -> None:
    """Draw the distribution of couplings."""
    weights = model.couplings.to_vector(model.couplings.arrays)
    drawn, _, text = clip(weights)
    axes.hist(drawn, bins=80, color=BLUE)
    axes.set(xlabel="coupling", ylabel="pairs", title=f"{weights.size} couplings" + (f", {text}" if text else ""))
    if weights.size:
        axes.set_yscale("log")


def draw_coupling_matrix(axes: Any, matrix: np.ndarray, names: tuple[Any, ...] | None = None) -> None:
    """Draw couplings as a matrix of colours, few units with their names."""
    _, limit, text = clip(np.triu(matrix))
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.figure.colorbar(image, ax=axes, shrink=0.8, extend="both" if text else "neither")
    title = "couplings (visible units first)" + (f"\n{text} of the colours" if text else "")
    axes.set(title=title, xlabel="unit", ylabel="unit")
    if names is not None and len(names) <= MOST_NAMED:
        texts, places = [str(name)[:LONGEST_NAME] for name in names], range(len(names))
        axes.set_xticks(places, texts, rotation=90, fontsize=7)
        axes.set_yticks(places, texts, fontsize=7)


def _receptive_fields(run: Learned) -> np.ndarray:
    """Couplings of the hidden units with the strongest ones; of visible machines those of each unit."""
    model = run.model
    block = (
        model.couplings.arrays[0]
        if model.is_layered
        else model.couplings.matrix()[: model.n_visible, model.n_visible :]
    )
    if not block.size:
        block = model.couplings.matrix()
    strongest = np.argsort(-np.linalg.norm(block, axis=0))[:64]
    return block[:, strongest].T


def _samples(run: Learned) -> np.ndarray:
    """Return the last recorded states of the free chains, visible units.

    Where none were recorded these are fresh samples of the machine.
    """
    if run.has_states:
        return np.asarray(run.states[-1])[:64, : run.model.n_visible]
    from ...sampling import make_chains

    chains = make_chains(run.model, 64, beta=run.config["fit"]["beta"], seed=run.config["fit"]["seed"], threads=1)
    chains.sweep(500)
    return chains.bits()[:, : run.model.n_visible]


def _gallery(panel: Any, rows: np.ndarray, side: int, title: str, *, signed: bool = False, n_times: int = 1) -> None:
    """Up to 64 square pictures."""
    across = min(8, math.ceil(math.sqrt(len(rows))))
    down = -(-len(rows) // across)
    gap = 2
    sheet = np.full((down * (side + gap) - gap, across * (side + gap) - gap), np.nan)
    for k, row in enumerate(rows):
        y, x = divmod(k, across)
        sheet[y * (side + gap) : y * (side + gap) + side, x * (side + gap) : x * (side + gap) + side] = row.reshape(
            side, side
        )
    axes = panel.subplots()
    axes.set_facecolor(LIGHT)
    _, far, text = clip(rows, n_times)
    limit = far if signed else float(np.nanmax(np.abs(sheet))) or 1.0
    options = (
        {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        if signed
        else {"cmap": "gray_r", "vmin": float(np.nanmin(sheet)), "vmax": limit}
    )
    axes.imshow(sheet, interpolation="nearest", **options)
    axes.set_title(title + (f"\n{text}" if signed and text else ""))
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _side(n: int) -> int | None:
    side = math.isqrt(n)
    return side if side * side == n else None


def _inference(run: InferRun) -> Figure:
    """Curves over temperatures where the method visits many, else log Z."""
    if KEY in run.inference.detail:
        return draw_temperatures({run.inference.method: Temperatures.of(run.inference)})
    return draw_comparison(run)


DRAWERS: dict[str, Callable[[Any], Figure]] = {
    "fit": _fit, "sample": draw_sample, "compare": draw_comparison, "infer": _inference, "rules": draw_rules,
}  # fmt: skip
