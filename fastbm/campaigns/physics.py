"""The columns of a run of `sample`: averages over its samples at its temperature, or at each of several."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..diagnostics import standard_error
from ..runs.sample.convergence import groups, independent_families, judge, least_ess, watched_names
from ..runs.sample.errors import across_chains, longest_visit, observable_error, observable_errors
from ..runs.sample.order import mirrors_of, of_energies, of_link_overlaps, of_mean
from ..runs.sample.physics import averages_at, length_of, n_clamped_patterns
from ..runs.sample.relaxation import of_chains
from ..runs.sample.run import SampleRun
from ..runs.sample.series import At, Series, magnetisations, named, recorded, temperatures
from ..runs.sample.valleys import is_even

Columns = dict[str, Any]
RELAXING = ("energy", "energy_error", "correlation", "correlation_error")
Recorded = dict[str, Series]
# of which it is not known by how much an unseen state may differ
OF_NO_FLIP = frozenset({"energy_square", "structure_factor", "overlap_structure_factor"})
OWN = ("magnetisation", "overlap", "structure_factor", "overlap_structure_factor")  # of these more is told than means
# order parameter, structure factor, and what the correlation length over the size of the lattice is called
LENGTHS = (
    ("magnetisation", "structure_factor", "xi_over_length"),
    ("overlap", "overlap_structure_factor", "overlap_xi_over_length"),
)


def columns_of_sample(run: SampleRun) -> Columns:
    """Return the columns of a run of `sample`; see `fastbm.campaigns.row.columns_of`."""
    if not len(run.sweep):
        return {"n_samples": 0}
    found: Columns = {"n_samples": len(run.sweep) * len(run.beta)}
    if run.at_log_times:
        found |= _of_relaxation(run)
    elif run.has_chains and run.config["sample"].get("keep") != "best":
        if n_clamped_patterns(run) == 1:
            found |= _of_chains(run) | _of_observables(run)
        found |= _diagnostics(run)
    else:
        found |= _of_a_search(run)
    return found


def _of_chains(run: SampleRun) -> Columns:
    series = {"magnetisation": magnetisations(run)} | {name: recorded(run, name) for name in OWN[1:]}
    places, lattice, even = temperatures(run), _of_lattice(run, series), is_even(run)
    found = dict(lattice) if even else {}  # averages over disorder know of no means that would have to be taken off
    if (target := _target(run, places)) is not None:
        row = averages_at(run, target, series["magnetisation"], series["overlap"], even=even)
        for name, estimate in zip(row._fields[1:], row[1:], strict=True):
            if estimate is not None:
                found[name], found[f"{name}_error"] = estimate
        found |= _means(run, target, series, frozenset(found), even=even)
        found |= _lengths(target, series, lattice, even=even)
    if len(places) > 1:
        for at in places:
            of_one = _means(run, at, series, even=even)
            of_one |= {} if even else _lengths(at, series, lattice, even=even)
            spread = of_one["energy_square"] - of_one["energy"] ** 2
            of_one["specific_heat"] = at.beta**2 * run._start.n_units * spread
            found |= {f"{name}@{at.beta!r}": value for name, value in of_one.items()}
    return found


def _target(run: SampleRun, places: list[At]) -> At | None:
    """Return the temperature that is the run's own: the only one, or the target of its ladders."""
    return places[-1] if len(places) == 1 or "tempering/energy" in run.streams else None


def _means(run: SampleRun, at: At, series: Recorded, done: frozenset[str] = frozenset(), *, even: bool) -> Columns:
    """Return means and their errors at one temperature, but for those that are done, and a magnetisation that is 0."""
    n_units, found, m = run._start.n_units, {}, series["magnetisation"].at(at)
    mirrors = None if even or m is None else mirrors_of(run, at, m)
    if "energy" not in done:
        found["energy"], found["energy_error"] = of_energies(run, at, None, mirrors)
    if not (even or m is None or "magnetisation" in done):
        error = float(standard_error(m))
        found["magnetisation"], found["magnetisation_error"] = of_mean(run, m, error, mirrors)
    of_chains: dict[str, np.ndarray] = {"energy_square": (at.energy / n_units) ** 2}
    of_pairs: dict[str, np.ndarray] = {}
    if m is not None:
        square = m * m
        of_chains |= {"abs_magnetisation": np.abs(m), "m2": square, "m4": square * square}
    if (q := series["overlap"].at(at)) is not None and q.shape[1]:
        square = q * q
        of_pairs |= {"abs_overlap": np.abs(q), "q2": square, "q4": square * square}
    for of_these, (_, name, _) in zip((of_chains, of_pairs), LENGTHS, strict=True):
        if (s_k := series[name].at(at)) is not None and s_k.shape[1]:
            of_these[name] = s_k
    unseen = (2.0 / n_units, longest_visit(run))
    return found | _of_series(of_chains, unseen, done) | _of_series(of_pairs, unseen, done)


def _of_lattice(run: SampleRun, series: Recorded) -> Columns:
    """Return what of a lattice makes lengths of structure factors, where these were recorded."""
    if all(series[name].of_chains is None for _, name, _ in LENGTHS):
        return {}
    return {"n_units": run._start.n_units, "length": max(run.config["model"]["origin"]["shape"])}


def _lengths(at: At, series: Recorded, lattice: Columns, *, even: bool) -> Columns:
    """Return correlation lengths over the size of the lattice, where both that they are made of were recorded."""
    found: Columns = {}
    for order, structure, name in LENGTHS:
        x, s_k = series[order].at(at), series[structure].at(at)
        if x is not None and s_k is not None and s_k.shape[1]:
            length = lattice["length"]
            xi = length_of(x, s_k, lattice["n_units"], length, even=even)
            found[name], found[f"{name}_error"] = xi.value / length, xi.error / length
    return found


def _of_series(series: dict[str, np.ndarray], unseen: tuple[float, float], done: frozenset[str]) -> Columns:
    """Return means and errors of series of one shape.

    An unseen state is off by the first number, where that is known, for as many samples as the second.
    """
    names, (flip, longest), found = [name for name in series if name not in done], unseen, Columns()
    values, scales = [series[name] for name in names], [None if name in OF_NO_FLIP else flip for name in names]
    for name, one, error in zip(names, values, observable_errors(values, scales, longest), strict=True):
        found[name], found[f"{name}_error"] = float(one.mean()), error
    return found


def _of_observables(run: SampleRun) -> Columns:
    """Return means of the observables that are numbers, but for magnetisations and overlaps, at each temperature."""
    kinds, places, found = run.config["sample"].get("observables") or {}, temperatures(run), Columns()
    target = _target(run, places)
    for name in watched_names(run):
        if name == "energy" or kinds[name] in OWN:
            continue
        series = named(run, name)
        for at in places:
            values = series.at(at)
            if values is None or not np.isfinite(values).all():
                continue
            mean, error = float(values.mean()), observable_error(values, longest=longest_visit(run))
            if kinds[name] == "link_overlap":
                mean, error = of_link_overlaps(run, values)
            if at is target:
                found |= {name: mean, f"{name}_error": error}
            if len(places) > 1:
                found |= {f"{name}@{at.beta!r}": mean, f"{name}_error@{at.beta!r}": error}
    return found


def _diagnostics(run: SampleRun) -> Columns:
    r_hats = [q.r_hat for q in judge(run).quantities if q.varies]
    return {"r_hat": max(r_hats, default=None), "ess": least_ess(run), "acceptance": run.acceptance}


def _of_relaxation(run: SampleRun) -> Columns:
    """Return means over chains at the last time: of the energy, the observables, and the correlation with the start."""
    found: Columns = {"time": int(run.times[-1]), "acceptance": run.acceptance}
    if n_clamped_patterns(run) > 1:
        return found
    together = groups(run)
    for chains in together:
        last = of_chains(run, chains)
        at = f"@{last.beta!r}" if len(together) > 1 else ""
        found |= {f"{name}{at}": float(getattr(last, name)[-1]) for name in RELAXING}
    for name in run.observables if len(together) == 1 else ():
        if name in watched_names(run):
            mean, error = across_chains(run, run.observables[name][-1:])
            found[name], found[f"{name}_error"] = float(mean[0]), float(error[0])
    return found


def _of_a_search(run: SampleRun) -> Columns:
    """Return the energies that a schedule or a search came to, and log Z of a population."""
    n_units = run._start.n_units
    last = run.energy[-1]
    found: Columns = {"energy": float(last.mean()) / n_units, "lowest_energy": float(run.energy.min())}
    if run.config["sample"].get("keep") == "best" and len(run.best_energies):
        found["lowest_energy"] = float(run.best_energies[0])
    if "population/log_z" in run.streams and len(run.betas):
        found |= {"log_z": float(run.read("population/log_z")[-1]), "families": independent_families(run)}
    return found
