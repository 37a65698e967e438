"""Pictures of what tempering and population annealing say of every temperature."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from ...inference.result import Inference
from ...inference.temperatures import Temperatures
from .png import write_picture
from .style import BLUE, GREY, ORANGE, STYLE

PANELS = (
    ("log_z", "log Z"),
    ("energy", "energy"),
    ("heat_capacity", "heat capacity"),
    ("entropy", "entropy / nats"),
)
COLOURS = (BLUE, ORANGE, GREY, "#4d9221", "#762a83")
MANY_LEVELS = 40  # beyond it points would hide the curve


def plot_temperatures(
    results: Temperatures | Inference | Mapping[str, Temperatures | Inference], path: str | Path
) -> Path:
    """Draw curves with error bars to a PNG file and return its path.

    Parameters
    ----------
    results : Temperatures, Inference, or mapping of name to one of them
        Several are drawn into the same panels.
    path : path

    Raises
    ------
    ValueError
        If a result has no curves, or there are more than five of them.
    """
    named = results if isinstance(results, Mapping) else {"": results}
    if not 1 <= len(named) <= len(COLOURS):
        raise ValueError(f"results must hold 1 to {len(COLOURS)} of them, to be told apart; got {len(named)}.")
    found = {n: r if isinstance(r, Temperatures) else Temperatures.of(r) for n, r in named.items()}
    path = Path(path)
    with matplotlib.rc_context(STYLE):
        figure = draw_temperatures(found)
        write_picture(figure, path)
    return path


def draw_temperatures(curves: Mapping[str, Temperatures]) -> Figure:
    """Draw log Z, energy, heat capacity and entropy over beta; below each, how large its errors are."""
    figure = Figure(figsize=(12.0, 4.6), layout="constrained")
    axes: Any = figure.subplots(2, len(PANELS), sharex=True, height_ratios=(2.2, 1.0))
    for (name, label), (top, bottom) in zip(PANELS, axes.T, strict=True):
        for colour, (who, one) in zip(COLOURS, curves.items(), strict=False):
            error = _curve(top, one, name, colour, who)
            known = error > 0
            bottom.plot(one.betas[known], error[known], ".-", ms=3.0, color=colour, lw=0.8)
        top.set(title=label)
        bottom.set(xlabel="beta", yscale="log")
        bottom.set_ylim(*_decades(bottom.dataLim.intervaly))
        bottom.yaxis.set_minor_formatter(NullFormatter())
    axes[1, 0].set(ylabel="standard error")
    if any(curves):
        axes[0, 0].legend()
    return figure


def draw_quantity(axes: Any, one: Temperatures, name: str, label: str) -> None:
    """Draw one quantity over beta, with its errors."""
    _curve(axes, one, name, BLUE, "")
    axes.set(xlabel="beta", ylabel=label)


def _curve(axes: Any, one: Temperatures, name: str, colour: str, label: str) -> np.ndarray:
    """Draw a curve with error bars, and return these."""
    error: np.ndarray = getattr(one, f"{name}_error")
    points = {"fmt": "o-" if len(one.betas) <= MANY_LEVELS else "-", "ms": 3.0, "capsize": 2.0}
    axes.errorbar(one.betas, getattr(one, name), yerr=error, label=label, color=colour, lw=0.8, **points)
    return error


def _decades(limits: np.ndarray) -> tuple[float, float]:
    """Whole decades round what is drawn; errors that are all 0 leave an empty panel."""
    low, high = (float(value) for value in limits)
    if not 0.0 < low <= high < np.inf:
        return 1e-3, 1.0
    return 10.0 ** np.floor(np.log10(low)), 10.0 ** np.ceil(np.log10(high * 1.001))
