"""The summary of a run of `sample`: settings, moves of the sampler, results, and whether to trust them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ... import diagnostics
from ..summary import format_value
from .convergence import Quantity, by_group, groups, independent_families, judge, quantities, spacing, watched_names
from .errors import across_chains, energy_error, longest_visit, observable_error, why_unknown
from .samples import Samples
from .valleys import is_even, starts_at_one_point


def summarise_sample(run: Samples) -> dict[str, Any]:
    """Return the entries of the summary of a run of `sample`; empty ones are left out."""
    found = {**_settings(run), **_moves(run)}
    if not len(run.sweep):
        return found | _population(run)
    best = run.config["sample"].get("keep") == "best"  # then there may be no burn-in, and averages mean little
    chains = {} if best and run.has_chains else _of_chains(run) if run.has_chains else _energy(run)
    found |= chains | _population(run) | _best(run)
    return found | _verdict(run)


def _verdict(run: Samples) -> dict[str, Any]:
    """Return whether the run has converged, where that can be asked."""
    converged, reason, _ = judge(run)
    if converged is None and not reason:
        return {}
    return {"converged": converged}


def _settings(run: Samples) -> dict[str, Any]:
    """Return the machine, the sampler, and the progress of a run, as entries."""
    settings = run.config["sample"]
    sampler, rule, order = settings["sampler"], settings.get("rule", ""), settings.get("order", "")
    words = [f"{sampler} ({rule})" if rule and rule != sampler else sampler, f"{order} order" if order else ""]
    held = f"{settings['n_patterns']} clamped patterns" if settings.get("n_patterns", 0) > 1 else ""
    words.append(held or ("clamped units" if settings.get("n_patterns") else ""))
    fields = run.meta.get("fields") or run.meta.get("bond probabilities")
    found: dict[str, Any] = {
        "model": repr(run._start)[1:-1],
        "sampler": ", ".join(word for word in words if word),
        "kernel": str(run.meta.get("kernel", "")) + (f" ({fields})" if fields else ""),
    }
    n_samples, n_chains = len(run.sweep), settings["n_chains"]
    if not run.has_chains:
        found["samples"] = f"{n_samples} of {n_chains} chains, at the end of {settings['n_sweeps']} sweeps" + (
            " at each temperature" if sampler == "population-annealing" else ""
        )
        return found
    every = "every sweep" if settings["thin"] == 1 else f"every {settings['thin']} sweeps"
    if run.at_log_times:
        every = "at logarithmic times" + (f" up to {run.times[-1]} sweeps" if n_samples else "")
    found["samples"] = f"{n_samples} of {n_chains} chains, {every}"
    if settings.get("keep") == "best":
        found["samples"] += ", energies only"
    if settings["burn_in"] == "auto":
        found["burn-in"] = _burn_in(run)
    else:
        found["burn-in"] = f"{settings['burn_in']} sweeps"
    if settings.get("until"):
        rule = ", ".join(f"{name} {value:g}" for name, value in settings["until"].items())
        found["until"] = f"{rule}: { ({True: 'met', False: 'not met', None: 'not yet'}[run.until_met]) }"
    return found


def _burn_in(run: Samples) -> str:
    if run.burn_in is None:
        return "looked for"
    return f"{run.burn_in} sweeps, " + ("found" if run.burn_in_found else "the limit: chains still drift")


def _moves(run: Samples) -> dict[str, Any]:
    """Return how well the sampler moved: acceptance, swaps, clusters."""
    found: dict[str, Any] = {}
    if run.acceptance is not None:
        found["acceptance"] = f"{run.acceptance:.3g} flips an attempt"
    betas, settings = run.betas, run.config["sample"]
    if len(betas) > 1:
        found["beta"] = f"{betas.min():g} to {betas.max():g}, {len(betas)} values"
    elif settings["sampler"] == "annealing":
        found["beta"] = f"{min(settings['betas']):g} to {betas[0]:g}"
    elif settings.get("keep") == "best" and len(betas):  # it may be the machine's own
        found["beta"] = f"{betas[0]:g}"
    if "tempering/attempted" in run.streams and len(run.sweep):
        rates, trips = run.swap_rates, run.round_trips
        found["swap rates"] = f"{rates.min():.3g} to {rates.max():.3g}"
        found["round trips"] = f"{trips.sum()}, {trips.min()} to {trips.max()} a ladder"
    if settings.get("cluster"):
        levels = betas[json.loads(run.meta.get("cluster moves at levels", "[]"))]
        where = f", beta {levels.min():g} to {levels.max():g}" if len(levels) else ""
        found["cluster moves"] = f"at {len(levels)} of {len(betas)} temperatures{where}"
    if "clusters/size" in run.streams and len(run.sweep):
        sizes = [run.read("clusters/size")[:, chains].mean() for chains in groups(run)]
        ends = sizes if len(sizes) == 1 else (sizes[0], sizes[-1])
        parts = " to ".join(f"{size / run._start.n_units:.3g}" for size in ends)
        found["cluster size"] = f"{' to '.join(f'{size:.4g}' for size in ends)} units, {parts} of all"
    return found


def _of_chains(run: Samples) -> dict[str, Any]:
    return _relaxation(run) if run.at_log_times else _chains(run)


def _relaxation(run: Samples) -> dict[str, Any]:
    """Return means over chains of the energy and the observables at the first time and at the last."""
    found: dict[str, Any] = {}
    for name, stream in watched_names(run).items() if len(groups(run)) == 1 else ():
        values = run.read(stream)[[0, -1]]
        means = zip(*across_chains(run, values), strict=True)
        told = [format_value(float(m) if np.isnan(e) else (m, e)) for m, e in means]
        found[name] = " to ".join(f"{text} at time {time}" for text, time in zip(told, run.times[[0, -1]], strict=True))
    return found | ({"errors": why_unknown(run)} if found and run.shares_order else {})


def _chains(run: Samples) -> dict[str, Any]:
    """Return the energy and the diagnostics of chains in time; for several temperatures, the worst of each."""
    found: dict[str, Any] = {}
    thin, energy = run.config["sample"]["thin"], run.energy
    watched = quantities(run, ess=True) if len(energy) >= 4 else []
    if len(groups(run)) == 1:
        tau = float(diagnostics.tau_int(energy))
        found["energy"] = (float(energy.mean()), energy_error(run, energy))
        found["tau_int"] = f"{tau * thin:.4g} sweeps"
    for name in dict.fromkeys(q.name for q in watched):
        if name != "energy":
            found |= _observable(run, name)
    found |= _not_finite(run)
    if is_even(run):
        found["means of units"] = "0 of spins by symmetry, whatever side the chains are on"
    if starts_at_one_point(run):
        found["begun at"] = "one state, the same for all chains, which may hide other valleys"
    frozen = [q.label for q in watched if not q.varies]
    watched = [q for q in watched if q.varies]
    if frozen:
        more = f" (and {len(frozen) - 1} more)" if len(frozen) > 1 else ""
        found["never changed"] = f"the {frozen[0]}{more}: r_hat and ess are not known"
    if watched:
        some = f" in one of {step} records" if (step := spacing(run)) > 1 else ""
        ess = f"{_least(watched, 'ess_bulk'):.4g} bulk, {_least(watched, 'ess_tail'):.4g} tail"
        found["ess"] = ess + some + _of(watched)
        worst = max(watched, key=lambda q: q.r_hat)
        found["r_hat"] = f"{worst.r_hat:.4g}" + (f" ({worst.label})" if len(watched) > 1 else "")
    return found


def _observable(run: Samples, name: str) -> dict[str, Any]:
    """Return the mean of an observable, with its error.

    For an observable that is odd where the machine is even, the mean is 0 and its modulus is averaged beside it.
    """
    if name in run.observables:
        return {name: _mean(run, run.observables[name])}
    return {name[1:-1]: (0.0, 0.0), name: _mean(run, np.abs(run.observables[name[1:-1]]))}


def _mean(run: Samples, values: np.ndarray) -> Any:
    """Return the mean of values with its error; of several groups of chains those of the first and the last, in words.

    Each temperature and each clamped pattern makes another machine, over which there is no average.
    """
    n_chains, n_patterns = len(run.beta), run.config["sample"].get("n_patterns") or 1
    found = []
    for _, chains, own in by_group(run, {"": values}, groups(run)):
        pattern = f", pattern {int(chains[0]) * n_patterns // n_chains}" if n_patterns > 1 else ""
        where = f"at beta = {run.beta[chains[0]]:g}{pattern}"
        found.append(((float(own.mean()), observable_error(own, longest=longest_visit(run))), where))
    if len(found) == 1:
        return found[0][0]
    return " to ".join(f"{format_value(told)} {where}" for told, where in (found[0], found[-1]))


def _not_finite(run: Samples) -> dict[str, str]:
    """Return how many values of functions are no numbers, which leaves their means unknown."""
    found: dict[str, str] = {}
    for name, what in (run.config["sample"].get("observables") or {}).items():
        if what is None and name in watched_names(run):
            n_bad = int(np.count_nonzero(~np.isfinite(values := run.observables[name])))
            found |= {name: f"not known: {n_bad} of {values.size} values are not finite"} if n_bad else {}
    return found


def _least(watched: list[Quantity], name: str) -> float:
    return min(getattr(q, name) for q in watched)


def _of(watched: list[Quantity]) -> str:
    return f", the least of {len(watched)} quantities" if len(watched) > 1 else ""


def _energy(run: Samples) -> dict[str, Any]:
    """Return the energies at the end of a schedule, where chains are independent but not at equilibrium."""
    energy = run.energy[-1]
    return {"energy": f"{energy.mean():.6g}, {energy.min():.6g} to {energy.max():.6g}"}


def _population(run: Samples) -> dict[str, Any]:
    if "population/log_z" not in run.streams or not len(run.betas):
        return {}
    log_z, left = run.read("population/log_z")[-1], run.read("population/n_families")[-1]
    return {
        "log Z": f"{log_z:.8g} at beta = {run.betas[-1]:g}",
        "families": f"{left} left; exp(entropy) {independent_families(run):.4g}",
        "culled": f"{run.read('population/culled').max():.3g} of the replicas at a step, at most",
    }


def _best(run: Samples) -> dict[str, Any]:
    if run.config["sample"].get("keep") != "best" or not len(run.best_energies):
        return {}
    energies = run.best_energies
    n_lowest = int(np.count_nonzero(energies == energies[0]))
    return {"best energy": f"{energies[0]:.10g}, {n_lowest} states; {len(energies)} kept, up to {energies[-1]:.10g}"}
