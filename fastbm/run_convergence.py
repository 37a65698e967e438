"""Whether to believe a sampling run: R-hat and effective samples of the energy and of the chains' observables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import _checks, diagnostics

if TYPE_CHECKING:
    from .run_sampled import SampledRun as Run

MOST_NUMBERS = 1 << 19  # of a series that are looked at, evenly spaced: ranks of more take seconds
FEWEST_CHAINS, FEWEST_SAMPLES, FEWEST = 4, 32, 256  # for a verdict that is wrong less than once in 1000 runs
SMALL_POPULATION = 100.0  # independent families


class Quantity(NamedTuple):
    """One watched quantity at one temperature (and clamped pattern)."""

    name: str
    beta: float
    r_hat: float
    ess_bulk: float
    ess_tail: float

    @property
    def label(self) -> str:
        return f"{self.name} at beta = {self.beta:g}"


def groups(run: Run) -> list[np.ndarray]:
    """The chains, (k,) indices, of each temperature and clamped pattern."""
    n_chains, n_patterns = len(run.beta), run.config["sample"].get("n_patterns") or 1
    pattern = np.arange(n_chains) // (n_chains // n_patterns)
    pairs = np.stack([run.beta, pattern])
    which = np.unique(pairs, axis=1, return_inverse=True)[1].ravel()
    return [np.flatnonzero(which == g) for g in range(which.max() + 1)]


def quantities(run: Run, *, ess: bool = False) -> list[Quantity]:
    """Return R-hat of the energy and of the observables that are numbers of chains, and on demand their ess."""
    return quantities_of(run, _series(run), groups(run), ess=ess)


def quantities_of(
    run: Run, series: Mapping[str, np.ndarray], together: Sequence[np.ndarray], *, ess: bool
) -> list[Quantity]:
    """Return the diagnostics of series by name, (n, n_chains) or (n, pairs), for each group of chains."""
    found = []
    for name, values in series.items():
        of_pairs = values.shape[1] < len(run.beta)
        for chains in together:
            columns = values[:, chains[::2] // 2 if of_pairs else chains]
            bulk, tail = (diagnostics.ess_bulk(columns), diagnostics.ess_tail(columns)) if ess else (np.nan, np.nan)
            found.append(
                Quantity(name, float(run.beta[chains[0]]), float(diagnostics.r_hat(columns)), float(bulk), float(tail))
            )
    return found


def _series(run: Run) -> dict[str, np.ndarray]:
    """The energy and the observables of chains or pairs of chains, thinned where they are long."""
    step = spacing(run)
    series = {name: run.read(stream, step) for name, stream in watched_names(run).items()}
    return {name: values for name, values in series.items() if np.isfinite(values).all()}


def spacing(run: Run) -> int:
    """Every which record is looked at."""
    return max(1, -(-len(run.sweep) * run.config["sample"]["n_chains"] // MOST_NUMBERS))


def watched_names(run: Run) -> dict[str, str]:
    """The streams of the energy and of the observables that are numbers of chains or pairs."""
    settings, names = run.config["sample"], {"energy": "samples/energy"}
    for name, what in (settings.get("observables") or {}).items():
        stream = f"observables/{name}"
        if what in ("overlap", "link_overlap") or run.streams[stream].shape == (settings["n_chains"],):
            names[name] = stream
    return names


def has_converged(run: Run) -> bool | None:
    """Whether the chains agree, the burn-in was found where it was asked for, and the stopping rule was met; None where
    nothing tells.
    """
    settings = run.config["sample"]
    if settings["sampler"] == "population-annealing":
        families = independent_families(run)
        return None if families is None else families >= SMALL_POPULATION
    if not run.has_chains or settings.get("keep") == "best" or len(run.sweep) < 4:
        return None
    if run.burn_in_found is False or run.until_met is False:
        return False
    watched = quantities(run)
    if len({q.name for q in watched}) < len(watched_names(run)) or _frozen(run):
        return None  # an observable is not finite, or there is nothing to compare
    return all(q.r_hat <= diagnostics.R_HAT_LIMIT for q in watched)


def _frozen(run: Run) -> bool:
    """Whether no unit ever flipped, or a chain that is the only one of its kind has an energy that never changes."""
    if run.acceptance == 0.0:
        return True
    energy = run.energy
    return any(len(chains) == 1 and np.ptp(energy[:, chains[0]]) == 0.0 for chains in groups(run))


def independent_families(run: Run) -> float | None:
    """How many families a population counts for at its last temperature, exp of the family entropy."""
    entropy = run.read("population/family_entropy")
    return float(np.exp(entropy[-1])) if len(entropy) else None


def warn_of(run: Run) -> None:
    """Say once, at the end of a run, what has not converged and the way out."""
    text = _complaint(run)
    if text:
        _checks.warn(text)


def _complaint(run: Run) -> str:
    settings = run.config["sample"]
    if settings["sampler"] == "population-annealing":
        families = independent_families(run)
        if families is not None and families < SMALL_POPULATION:
            return (
                f"the population descends from about {families:.3g} independent replicas, too few for log Z or means "
                f"to be trusted. Raise n_chains (now {settings['n_chains']}) or n_sweeps."
            )
        return ""
    if not run.has_chains or settings.get("keep") == "best":
        return ""
    limit = f"n_sweeps = {settings['n_sweeps']}"
    single = settings["sampler"] in ("gibbs", "metropolis")  # clusters have no use for a ladder
    way_out = "Sample longer" + (', or with sampler="tempering"' if single else "")
    if run.burn_in_found is False:
        return f"chains still drift after the limit of the burn-in, {limit}: what was sampled is biased. {way_out}."
    if not _enough(run):
        return "" if run.until_met is not False else _unmet(run, limit, way_out)
    bad = [q for q in quantities(run) if not q.r_hat <= diagnostics.R_HAT_LIMIT]
    if bad:
        worst = max(bad, key=lambda q: q.r_hat)
        detail = next(q for q in quantities(run, ess=True) if q[:2] == worst[:2] and q.r_hat == worst.r_hat)
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        return (
            f"chains disagree: r_hat of the {worst.label} is {worst.r_hat:.3g}{more}, above "
            f"{diagnostics.R_HAT_LIMIT:g}; ess {detail.ess_bulk:.3g}. {way_out}."
        )
    return "" if run.until_met is not False else _unmet(run, limit, way_out)


def _unmet(run: Run, limit: str, way_out: str) -> str:
    rule = ", ".join(f"{name} {value:g}" for name, value in run.config["sample"]["until"].items())
    return f"the stopping rule ({rule}) was not met within {limit}. {way_out}."


def _enough(run: Run) -> bool:
    """Whether there are chains and samples enough to tell."""
    each, n_samples = min(map(len, groups(run))), len(run.sweep)
    return each >= FEWEST_CHAINS and n_samples >= FEWEST_SAMPLES and each * n_samples >= FEWEST
