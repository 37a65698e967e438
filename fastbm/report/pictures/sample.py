"""Pictures of sampling runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ... import diagnostics
from ..._base import checks
from ...models import square_lattice as lattice
from ...runs.sample.convergence import groups
from ...runs.sample.physics import Temperature, by_temperature, lattice_energy, n_clamped_patterns, square_lattice
from ...runs.sample.relaxation import of_chains
from ...runs.sample.run import SampleRun
from .style import BLUE, GREY, ORANGE

BINS, MOST_LEVELS = 60, 5000
MOST_PATTERNS = 6  # clamped ones that are drawn, each a machine of its own, and temperatures beside them
RELAXING = {
    "energy": ("sweeps after the burn-in", "energy per unit"),
    "correlation": ("sweeps after the first sample", "correlation with it"),
}


def draw_sample(run: SampleRun) -> Figure:
    """Draw a sampling run, as its sampler asks for."""
    if not len(run.sweep):
        raise ValueError("there is nothing to draw yet: the run has no samples.")
    if run.at_log_times:
        return _relaxation(run)
    for name, drawer in (
        ("tempering/energy", _tempering),
        ("population/beta", _population),
        ("annealing/beta", _annealing),
    ):
        if name in run.streams:
            return drawer(run)
    if len(np.unique(run.beta)) > 1 and run.has_states:
        return _temperatures(run)
    return _chains(run)


def _chains(run: SampleRun) -> Figure:
    """Energies in time, their distribution and autocorrelation."""
    figure = Figure(figsize=(10.0, 3.2), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, draw in zip(panels, (draw_trace, draw_energies, draw_autocorrelation), strict=True):
        draw(axes, run)
        axes.locator_params(axis="x", nbins=5)  # five long numbers side by side are legible
    return figure


def _relaxation(run: SampleRun) -> Figure:
    """Energies of the first chains, and means over chains: the energy, and the correlation with the first sample."""
    quantities = ["energy", *(["correlation"] if run.has_states and len(run.sweep) > 1 else [])]
    figure = Figure(figsize=(3.4 * (1 + len(quantities)), 3.2), layout="constrained")
    first, *others = figure.subplots(1, 1 + len(quantities))
    draw_trace(first, run)
    for axes, quantity in zip(others, quantities, strict=True):
        draw_relaxation(axes, run, quantity)
    return figure


def draw_relaxation(axes: Any, run: SampleRun, quantity: str = "energy") -> None:
    """Draw means over the chains of each temperature and clamped pattern, with their errors as bands."""
    xlabel, ylabel = RELAXING[checks.choice("quantity", quantity, RELAXING)]
    together = groups(run)
    for k, chains in enumerate(together[:MOST_PATTERNS]):
        found = of_chains(run, chains)
        time, value, error = found.time, getattr(found, quantity), np.nan_to_num(getattr(found, f"{quantity}_error"))
        if quantity == "correlation":  # with itself it is 1
            time, value, error = time[1:] - time[0], value[1:], error[1:]
        style: dict[str, Any] = {"label": f"beta = {found.beta:g}"} if len(together) > 1 else {"color": BLUE}
        if (n_patterns := n_clamped_patterns(run)) > 1:
            style["label"] += f", pattern {k % n_patterns}"
        (line,) = axes.plot(time, value, ".-", ms=3, lw=0.8, **style)
        axes.fill_between(time, value - error, value + error, color=line.get_color(), alpha=0.25, lw=0)
    if len(together) > 1:
        axes.legend()
    axes.set(xlabel=xlabel, ylabel=ylabel, title=f"mean of {len(together[0])} chains{_of_patterns(run)}")
    axes.set_xscale("log" if run.at_log_times else "linear")


def draw_trace(axes: Any, run: SampleRun, n_chains: int = 8) -> None:
    """Draw energies of the first chains in time."""
    axes.plot(run.times if run.at_log_times else run.sweep, run.energy[:, :n_chains], lw=0.6)
    axes.set(xlabel="sweep", ylabel="energy", title="first chains")
    if run.at_log_times:
        axes.set(xlabel="sweeps after the burn-in", xscale="log")


def draw_energies(axes: Any, run: SampleRun) -> None:
    """Draw the distribution of energies of a few temperatures and clamped patterns, or of all samples."""
    energy, together = run.energy, _named_groups(run)
    edges = _bins(energy)
    for label, chains in together.items():
        style: dict[str, Any] = {"histtype": "step", "label": label} if len(together) > 1 else {"color": BLUE}
        axes.hist(energy[:, chains].ravel(), bins=edges, density=True, **style)
    if len(together) > 1:
        axes.legend()
    axes.set(xlabel="energy", ylabel="density", title=f"{energy.size} samples{_of_patterns(run)}")


def draw_autocorrelation(axes: Any, run: SampleRun) -> None:
    """Draw the autocorrelation of the energy of a few temperatures and clamped patterns, or of all chains."""
    if run.at_log_times:
        raise ValueError("samples at logarithmic times have no autocorrelation over lags: draw `relaxation`.")
    energy, together, thin = run.energy, _named_groups(run), run.config["sample"]["thin"]
    taus = [float(diagnostics.tau_int(energy[:, chains])) for chains in together.values()]
    n = min(len(energy), int(10 * max(taus)) + 10)
    for label, chains in together.items():
        style = {"label": label} if len(together) > 1 else {"color": BLUE}
        axes.plot(np.arange(n) * thin, diagnostics.autocorrelation(energy[:, chains])[:n], ".-", ms=3, **style)
    if len(together) > 1:
        axes.legend()
    axes.axhline(0.0, color=GREY, lw=0.6)
    axes.set(
        xlabel="lag / sweeps",
        ylabel="autocorrelation of the energy",
        title=f"tau_int = {min(taus):.3g}" + (f" to {max(taus):.3g}" if len(taus) > 1 else "") + " samples",
    )


def _named_groups(run: SampleRun) -> dict[str, np.ndarray]:
    """Return the chains of each temperature and clamped pattern by its name, of many a few that are evenly chosen."""
    together, n_patterns = groups(run), n_clamped_patterns(run)
    betas, found = run.beta, {}
    for k in np.unique(np.linspace(0, len(together) - 1, MOST_PATTERNS).round().astype(int)):
        names = [f"beta = {betas[together[k][0]]:g}"] if len(together) > n_patterns else []
        names += [f"pattern {k % n_patterns}"] if n_patterns > 1 else []
        found[", ".join(names)] = together[k]
    return found


def _patterns(run: SampleRun) -> list[np.ndarray]:
    """Return the chains of each of the first few clamped patterns; all chains where there is one or none."""
    n_chains, n_patterns = run.config["sample"]["n_chains"], n_clamped_patterns(run)
    return np.split(np.arange(n_chains), n_patterns)[:MOST_PATTERNS]


def _of_patterns(run: SampleRun) -> str:
    """For titles of what is drawn of several clamped patterns."""
    n_patterns = n_clamped_patterns(run)
    return f", {n_patterns} clamped patterns" if n_patterns > 1 else ""


def _bins(energy: np.ndarray) -> np.ndarray | int:
    """Edges of about `BINS` bins; of energies on a lattice each holds equally many levels, not one more or less.

    There is one bin where floats are too few for the edges between.
    """
    levels = np.unique(energy)
    largest, spread = np.abs(levels).max(), np.ptp(levels) or 1.0  # which matplotlib takes for that of one level
    if spread < 1e-12 * largest:
        return np.array([levels[0] - 1e-9 * largest, levels[-1] + 1e-9 * largest])
    if not 2 <= len(levels) <= MOST_LEVELS:
        return BINS
    gaps = np.diff(levels)
    step = gaps.min()
    if step < 1e-9 * np.abs(levels).max() or not np.allclose(gaps / step, np.rint(gaps / step), atol=1e-3):
        return BINS
    n_levels = round(float((levels[-1] - levels[0]) / step)) + 1
    if n_levels > MOST_LEVELS:
        return BINS
    width = max(1, -(-n_levels // BINS))
    return levels[0] + step * (np.arange(-(-n_levels // width) + 1) * width - 0.5)


def _temperatures(run: SampleRun) -> Figure:
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_energy(left, run)
    draw_magnetisation(right, run)
    return figure


def draw_energy(axes: Any, run: SampleRun) -> None:
    """Draw the energy over beta, of square lattices beside exact values of finite and infinite ones."""
    rows, sides = by_temperature(run), square_lattice(run)
    if sides is not None:
        beta = [row.beta for row in rows]
        fine = np.linspace(min(beta), max(beta), 400)
        finite = [lattice_energy(*sides, float(b)) for b in fine]
        axes.plot(fine, finite, color=GREY, lw=1, label=f"Kaufman, {sides[0]} x {sides[1]}")
        infinite = [lattice.onsager_energy(float(b)) for b in fine]
        axes.plot(fine, infinite, ":", color=GREY, lw=1, label="Onsager, infinite")
    _series(axes, run, rows, "energy")
    axes.set(xlabel="beta", ylabel="energy per unit")


def draw_magnetisation(axes: Any, run: SampleRun) -> None:
    """Draw the size of the magnetisation over beta, of square lattices beside that of infinite ones."""
    rows = by_temperature(run)
    if square_lattice(run) is not None:
        beta = [row.beta for row in rows]
        fine = np.linspace(min(beta), max(beta), 400)
        infinite = [lattice.onsager_magnetisation(float(b)) for b in fine]
        axes.plot(fine, infinite, ":", color=GREY, lw=1, label="Yang, infinite")
    _series(axes, run, rows, "magnetisation")
    axes.set(xlabel="beta", ylabel="|magnetisation| per unit")


def _series(axes: Any, run: SampleRun, rows: list[Temperature], name: str) -> None:
    """Draw averages over beta, a series for each of the first clamped patterns."""
    sampler = run.config["sample"]["sampler"]
    series: dict[str, list[Temperature]] = {}
    for row in rows:
        series.setdefault(sampler if row.pattern is None else f"pattern {row.pattern}", []).append(row)
    for label, some in list(series.items())[:MOST_PATTERNS]:
        options: dict[str, Any] = {"fmt": "o", "ms": 3.5, "capsize": 2, "label": label}
        options |= {"color": BLUE} if label == sampler else {}
        at, errors = [row.beta for row in some], [getattr(row, f"{name}_error") for row in some]
        axes.errorbar(at, [getattr(row, name) for row in some], yerr=errors, **options)
    axes.legend()


def _tempering(run: SampleRun) -> Figure:
    """Energy and swap rate along the ladder, round trips, and P(q) where pairs of ladders were recorded."""
    betas, energy = run.betas, run.read("tempering/energy") / run.model.n_units
    patterns = _patterns(run)
    overlaps = run.has_states and len(run.beta) > 1 and len(patterns) == 1
    figure = Figure(figsize=(10.0 if overlaps else 6.8, 3.4), layout="constrained")
    panels: Any = figure.subplots(1, 3 if overlaps else 2)
    for chains in patterns:
        some = energy[:, chains]
        errors = [float(diagnostics.standard_error(some[:, :, k])) for k in range(len(betas))]
        colour = {"color": BLUE} if len(patterns) == 1 else {}
        panels[0].errorbar(betas, some.mean(axis=(0, 1)), yerr=errors, fmt="o-", ms=3.5, lw=0.8, capsize=2, **colour)
    panels[0].set(
        xlabel="beta",
        ylabel="energy per unit",
        title=f"{len(betas)} temperatures, {len(run.beta)} ladders{_of_patterns(run)}",
    )
    draw_swaps(panels[1], run)
    if overlaps:
        draw_overlap(panels[2], run)
    return figure


def draw_swaps(axes: Any, run: SampleRun) -> None:
    """Draw the part of accepted swaps between neighbours on the ladder."""
    betas = run.betas
    axes.plot((betas[1:] + betas[:-1]) / 2, run.swap_rates, "o-", color=BLUE, ms=3.5, lw=0.8)
    title = f"{run.round_trips.mean():.3g} round trips a ladder"
    axes.set(xlabel="beta", ylabel="swaps accepted", ylim=(0.0, 1.0), title=title)


def draw_overlap(axes: Any, run: SampleRun, beta: float | None = None) -> None:
    """Draw P(q) with its error as a band."""
    found = run.overlap_distribution(beta)
    axes.fill_between(
        found.overlap,
        np.maximum(found.value - found.error, 0.0),
        found.value + found.error,
        color=BLUE,
        alpha=0.25,
        lw=0,
    )
    axes.plot(found.overlap, found.value, color=BLUE, lw=1.0)
    axes.plot(found.overlap, found.value[::-1], color=GREY, lw=0.6, ls=":", label="mirrored")
    axes.set(
        xlabel="overlap q", ylabel="P(q)", xlim=(-1.0, 1.0), title=f"beta = {run.beta[0] if beta is None else beta:g}"
    )
    axes.set_ylim(bottom=0.0)
    axes.legend()


def _annealing(run: SampleRun) -> Figure:
    """Energies down the schedule, and those at its end."""
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    beta, energy = run.read("annealing/beta"), run.read("annealing/energy")
    low, middle, high = np.quantile(energy, [0.05, 0.5, 0.95], axis=1)
    left.fill_between(beta, low, high, color=BLUE, alpha=0.25, lw=0, label="nine chains of ten")
    left.plot(beta, middle, color=BLUE, lw=1.0, label="median")
    left.plot(beta, energy.min(axis=1), color=ORANGE, lw=0.8, label="lowest")
    left.set(xlabel="beta", ylabel="energy")
    left.legend()
    right.hist(run.energy[-1], bins=_bins(run.energy[-1]), color=BLUE)
    right.locator_params(axis="x", nbins=5)
    right.set(
        xlabel="energy at the end", ylabel="chains", title=f"lowest {run.energy[-1].min():.8g}{_of_patterns(run)}"
    )
    return figure


def _population(run: SampleRun) -> Figure:
    """Energy, log Z and families down the temperatures."""
    figure = Figure(figsize=(10.0, 3.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    beta, energy = run.betas, run.read("population/energy")
    spread = run.read("population/energy_std")
    left.fill_between(beta, energy - spread, energy + spread, color=BLUE, alpha=0.25, lw=0)
    left.plot(beta, energy, ".-", color=BLUE, ms=3, lw=0.8)
    left.set(xlabel="beta", ylabel="energy, with its spread")
    middle.plot(beta, run.read("population/log_z"), ".-", color=BLUE, ms=3, lw=0.8)
    middle.set(xlabel="beta", ylabel="log Z")
    right.plot(beta, run.read("population/n_families"), color=GREY, lw=0.8, label="families")
    right.plot(beta, np.exp(run.read("population/family_entropy")), color=BLUE, lw=1.0, label="exp(entropy)")
    right.set(xlabel="beta", ylabel="families", yscale="log")
    right.legend()
    return figure
