"""Pictures of sampling runs."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ... import diagnostics
from ...models import square_lattice as lattice
from ...runs.sample.physics import Temperature, by_temperature, lattice_energy, n_clamped_patterns, square_lattice
from ...runs.sample.run import SampleRun
from .style import BLUE, GREY, ORANGE

BINS, MOST_LEVELS = 60, 5000
MOST_PATTERNS = 6  # clamped ones that are drawn, each a machine of its own


def draw_sample(run: SampleRun) -> Figure:
    """Draw a sampling run, as its sampler asks for."""
    if not len(run.sweep):
        raise ValueError("there is nothing to draw yet: the run has no samples.")
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
    trace, histogram, correlation = figure.subplots(1, 3)
    energy, thin = run.energy, run.config["sample"]["thin"]
    trace.plot(run.sweep, energy[:, : min(8, energy.shape[1])], lw=0.6)
    trace.set(xlabel="sweep", ylabel="energy", title="first chains")
    patterns = _patterns(run)
    taus = [float(diagnostics.tau_int(energy[:, chains])) for chains in patterns]
    edges, n = _bins(energy), max(2, min(len(energy), int(10 * max(taus)) + 10))
    for k, chains in enumerate(patterns):
        one = energy[:, chains]
        alone = len(patterns) == 1
        style: dict[str, Any] = {"color": BLUE} if alone else {"histtype": "step", "label": f"pattern {k}"}
        histogram.hist(one.ravel(), bins=edges, density=True, **style)
        colour = {"color": BLUE} if alone else {}
        correlation.plot(np.arange(n) * thin, diagnostics.autocorrelation(one)[:n], ".-", ms=3, **colour)
    if len(patterns) > 1:
        histogram.legend()
    histogram.set(xlabel="energy", ylabel="density", title=f"{energy.size} samples{_of_patterns(run)}")
    correlation.axhline(0.0, color=GREY, lw=0.6)
    correlation.set(
        xlabel="lag / sweeps",
        ylabel="autocorrelation of the energy",
        title=f"tau_int = {min(taus):.3g}" + (f" to {max(taus):.3g}" if len(taus) > 1 else "") + " samples",
    )
    for axes in (trace, histogram, correlation):
        axes.locator_params(axis="x", nbins=5)  # five long numbers side by side are legible
    return figure


def _patterns(run: SampleRun) -> list[np.ndarray]:
    """Return the chains of each of the first few clamped patterns; all chains where there is one or none."""
    n_chains, n_patterns = run.config["sample"]["n_chains"], n_clamped_patterns(run)
    return np.split(np.arange(n_chains), n_patterns)[:MOST_PATTERNS]


def _of_patterns(run: SampleRun) -> str:
    """For titles of what is drawn of several clamped patterns."""
    n_patterns = n_clamped_patterns(run)
    return f", {n_patterns} clamped patterns" if n_patterns > 1 else ""


def _bins(energy: np.ndarray) -> np.ndarray | int:
    """Edges of about `BINS` bins; of energies on a lattice each holds equally many levels, not one more or less."""
    levels = np.unique(energy)
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
    rows = by_temperature(run)
    beta = np.unique([row.beta for row in rows])
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    sides = square_lattice(run)
    if sides is not None:
        fine = np.linspace(beta.min(), beta.max(), 400)
        left.plot(
            fine,
            [lattice_energy(*sides, float(b)) for b in fine],
            color=GREY,
            lw=1,
            label=f"Kaufman, {sides[0]} x {sides[1]}",
        )
        left.plot(
            fine, [lattice.onsager_energy(float(b)) for b in fine], ":", color=GREY, lw=1, label="Onsager, infinite"
        )
        right.plot(
            fine, [lattice.onsager_magnetisation(float(b)) for b in fine], ":", color=GREY, lw=1, label="Yang, infinite"
        )
    sampler = run.config["sample"]["sampler"]
    series: dict[str, list[Temperature]] = {}
    for row in rows:
        series.setdefault(sampler if row.pattern is None else f"pattern {row.pattern}", []).append(row)
    for name, some in list(series.items())[:MOST_PATTERNS]:
        options: dict[str, Any] = {"fmt": "o", "ms": 3.5, "capsize": 2, "label": name}
        options |= {"color": BLUE} if name == sampler else {}
        at = [r.beta for r in some]
        left.errorbar(at, [r.energy for r in some], yerr=[r.energy_error for r in some], **options)
        right.errorbar(at, [r.magnetisation for r in some], yerr=[r.magnetisation_error for r in some], **options)
    left.set(xlabel="beta", ylabel="energy per unit")
    right.set(xlabel="beta", ylabel="|magnetisation| per unit")
    for axes in (left, right):
        axes.legend()
    return figure


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
    middle, trips = (betas[1:] + betas[:-1]) / 2, run.round_trips
    panels[1].plot(middle, run.swap_rates, "o-", color=BLUE, ms=3.5, lw=0.8)
    panels[1].set(
        xlabel="beta", ylabel="swaps accepted", ylim=(0.0, 1.0), title=f"{trips.mean():.3g} round trips a ladder"
    )
    if overlaps:
        _overlap(panels[2], run)
    return figure


def _overlap(axes: Any, run: SampleRun) -> None:
    """P(q) with its error as a band."""
    found = run.overlap_distribution()
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
    axes.set(xlabel="overlap q", ylabel="P(q)", xlim=(-1.0, 1.0), title=f"beta = {run.beta[0]:g}")
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
