"""Convergence of a sampling run: one verdict for each quantity, and one for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from ... import diagnostics
from ..._base import checks, threads as threads_module
from ...diagnostics.bits import r_hat_limit
from ...diagnostics.drift import drifts
from ...sampling.observables import OF_PAIRS
from .samples import Samples
from .units import agreements, spaced
from .valleys import is_even, is_long, why_unseen

MOST_NUMBERS = 1 << 19  # of a series that are looked at, evenly spaced: ranks of more take seconds
MOST_COMPARED = 1 << 16  # of these for a verdict, which is to take a small part of the time of a run
# of these for R-hat, as long as chains have so many samples: that of slow chains is the same, that of others is 1
MOST_RANKED, FEWEST_RANKED = 1 << 12, 64
FEWEST_CHAINS, FEWEST_SAMPLES, FEWEST = 4, 32, 256  # for a warning that is wrong about twice in 1000 runs
SMALL_POPULATION = 100.0  # independent families
RELAXES = "samples at logarithmic times are a relaxation, no even series"
SEARCHED = "it searched, and nothing tells whether a lower state exists"
ODD = ("magnetisation", "overlap")  # named observables that change sign with all units of a chain
FEW = 8  # samples, among which a quantity that changes at all has most often changed
FEWEST_TO_DRIFT = 8  # chains, whose differences then tell the error themselves
MANY_NUMBERS, FEW_UNITS = 1 << 17, 512  # with so many numbers, ranks of series take about as long as counting bits

T = TypeVar("T")


class Quantity(NamedTuple):
    """Diagnostics of one quantity at one temperature (and clamped pattern): R-hat, effective sample size, drift.

    `limit` is the largest R-hat that passes, `chance` what so few samples may have by chance; `drifts` says that
    the first part of the run has another mean than the rest. Where it never changed, R-hat and effective samples are
    NaN: nothing tells whether it would have.
    """

    name: str
    beta: float
    r_hat: float
    ess_bulk: float = float("nan")
    ess_tail: float = float("nan")
    limit: float = diagnostics.R_HAT_LIMIT
    drifts: bool = False
    chance: float = 0.0

    @property
    def label(self) -> str:
        """Name of the quantity with its inverse temperature."""
        return f"{self.name} at beta = {self.beta:g}"

    @property
    def agrees(self) -> bool:
        """Whether chains have the same mean, and so have the first parts of the run and the rest."""
        return not (self.r_hat > self.limit or self.drifts)

    @property
    def contradicts(self) -> bool:
        """Whether chains, or parts of the run, are further apart than chance may bring them."""
        return self.drifts or self.r_hat > max(self.limit, self.chance)

    @property
    def varies(self) -> bool:
        """Whether the quantity ever changed, without which R-hat has no meaning."""
        return not np.isnan(self.r_hat)


class Judgement(NamedTuple):
    """Whether a run has converged, and why not or why nothing decides it (None); `quantities` holds the diagnostics."""

    converged: bool | None
    reason: str = ""
    quantities: tuple[Quantity, ...] = ()


def groups(run: Samples) -> list[np.ndarray]:
    """Return the chains, (k,) indices, of each temperature and clamped pattern."""
    settings = run.config["sample"]
    n_chains, n_patterns = settings["n_chains"], settings.get("n_patterns") or 1
    if len(settings["beta"]) == n_patterns == 1:
        return [np.arange(n_chains)]
    beta = np.unique(settings["beta"], return_inverse=True)[1]
    pattern = np.arange(n_chains) // (n_chains // n_patterns)
    which = np.repeat(beta, n_chains // len(beta)) * n_patterns + pattern
    return [np.flatnonzero(which == g) for g in np.unique(which)]


def quantities(run: Samples, *, ess: bool = False) -> list[Quantity]:
    """Return R-hat of the energy and of the observables that are numbers of chains, and on demand their ess."""
    return quantities_of(run, _series(run, MOST_NUMBERS if ess else MOST_COMPARED), groups(run), ess=ess)


def quantities_of(
    run: Samples, series: Mapping[str, np.ndarray], together: Sequence[np.ndarray], *, ess: bool
) -> list[Quantity]:
    """Return the diagnostics of series by name, (n, n_chains) or (n, pairs), for each group of chains."""
    found, n_series, betas = [], len(series) * len(together), run.beta
    for name, chains, columns in by_group(run, series, together):
        varies = not run.at_log_times and _varies(columns)
        ranked = _ranked(columns)
        r_hat = float(diagnostics.r_hat(ranked)) if varies else np.nan
        chance = r_hat_limit(max(len(ranked) // 2, 1), ranked.shape[1], n_series) if varies else 0.0
        bulk = tail = np.nan
        if ess and varies:
            bulk, tail = diagnostics.ess_bulk(columns), diagnostics.ess_tail(columns)
        moves = varies and columns.shape[1] >= FEWEST_TO_DRIFT and len(columns) >= FEWEST_SAMPLES
        drift = moves and drifts(columns, n_quantities=n_series)
        beta = float(betas[chains[0]])
        found.append(Quantity(name, beta, r_hat, float(bulk), float(tail), drifts=drift, chance=chance))
    return found


def _varies(columns: np.ndarray) -> bool:
    """Return whether a series, which may be empty, ever changed."""
    return len(columns) > 0 and bool((columns[:FEW] != columns[0, 0]).any() or np.ptp(columns) > 0.0)


def by_group(
    run: Samples, series: Mapping[str, np.ndarray], together: Sequence[np.ndarray]
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, chains and values of each series and group of chains, or pairs of these."""
    n_chains = run.config["sample"]["n_chains"]
    for name, values in series.items():
        for chains in together:
            own = chains[::2] // 2 if values.shape[1] < n_chains else chains
            yield name, chains, values if len(own) == values.shape[1] else values[:, own]


def least_ess(run: Samples) -> float | None:
    """Return the least effective sample size (bulk) of the energy and of the observables; None where none varied."""
    columns = [one for _, _, one in by_group(run, _series(run, MOST_NUMBERS), groups(run)) if _varies(one)]
    return min((float(diagnostics.ess_bulk(one)) for one in columns), default=None)


def _series(run: Samples, most: int) -> dict[str, np.ndarray]:
    """Return the energy and the observables of chains or pairs of chains by name, thinned to `most` numbers or so.

    For a machine that is even under a flip of all units, observables that are odd are replaced by their modulus.
    """
    step, named, even = spacing(run, most), run.config["sample"].get("observables") or {}, is_even(run)
    found = {}
    for name, stream in watched_names(run).items():
        values = run._peek(stream, step)
        if np.isfinite(values).all():
            odd = even and named.get(name) in ODD
            found[f"|{name}|" if odd else name] = np.abs(values) if odd else values
    return found


def spacing(run: Samples, most: int = 0) -> int:
    """Return how many records apart those are of which `most` numbers, else those that ess is told from, are taken."""
    return max(1, -(-run._n_samples * run.config["sample"]["n_chains"] // (most or MOST_NUMBERS)))


def _ranked(columns: np.ndarray) -> np.ndarray:
    """Return the samples that R-hat of chains, and how few they count for, is told from: ranks take longest of all."""
    n_samples = len(columns)
    return columns[:: max(1, min(n_samples // FEWEST_RANKED, -(-columns.size // MOST_RANKED)))]


def watched_names(run: Samples) -> dict[str, str]:
    """Return the streams of the energy and of the observables that are numbers of chains or pairs."""
    settings, names = run.config["sample"], {"energy": "samples/energy"}
    for name, what in (settings.get("observables") or {}).items():
        stream = f"observables/{name}"
        if what in OF_PAIRS or run.streams[stream].shape == (settings["n_chains"],):
            names[name] = stream
    return names


def judge(run: Samples) -> Judgement:
    """Judge whether a sampling run has converged; None where nothing decides it.

    It has where the chains agree in all quantities, the burn-in was found where it was asked for, and the stopping rule
    was met. The judgement of the same records is computed once.
    """
    return _once(run, "judgement", partial(_judge, run))


def _once(run: Samples, name: str, find: Callable[[], T]) -> T:
    """Return what was found in the same records before, else find it."""
    if not run.has_chains:
        return find()
    about = run._n_samples, run.finished
    if run.found.get("about") != about:
        run.found = {"about": about}
    if name not in run.found:
        run.found[name] = find()
    known: T = run.found[name]
    return known


def _look(run: Samples) -> tuple[list[Quantity], list[Quantity]]:
    """Return the diagnostics of the energy and the observables, and those of units, side by side where it pays."""
    series, states, threads = _series(run, MOST_COMPARED), spaced(run), _n_threads(run)
    ways = [lambda: quantities_of(run, series, groups(run), ess=False), lambda: _of_states(run, states)]
    first, second = threads_module.fan_out(lambda way: way(), ways, threads)
    return _once(run, "series", lambda: first), _once(run, "units", lambda: second)


def _n_threads(run: Samples) -> int:
    """Return the threads for the diagnostics of series and of units."""
    many = run._n_samples * run.config["sample"]["n_chains"] >= MANY_NUMBERS and run._start.n_units <= FEW_UNITS
    return threads_module.resolve(run.n_threads) if many else 1


def _of_series(run: Samples) -> list[Quantity]:
    """Return the diagnostics of the energy and the observables, and find those of units beside these where it pays."""
    return _once(run, "series", lambda: _look(run)[0] if _n_threads(run) > 1 else quantities(run))


def _judge(run: Samples) -> Judgement:
    if run._sampler == "population-annealing":
        return _of_population(run)
    if reason := _why_not_asked(run):
        return Judgement(None, reason)
    if run.burn_in_found is False:
        return Judgement(False, "chains still drift after the limit of the burn-in")
    if run.until_met is False:
        return Judgement(False, "the stopping rule was not met")
    series, units = _of_series(run), _of_units(run)
    watched = tuple(series + units)
    if bad := [q for q in watched if q.contradicts]:
        return Judgement(False, _disagreement(max(bad, key=lambda q: q.r_hat)), watched)
    if few := [q for q in watched if not q.agrees]:
        worst = max(few, key=lambda q: q.r_hat)
        return Judgement(None, f"{_disagreement(worst)}, which chance may bring to so few samples", watched)
    if len({q.name for q in series}) < len(watched_names(run)):
        return Judgement(None, "an observable is not always finite", watched)
    if _frozen(run):
        return Judgement(None, "chains that stand still cannot be compared", watched)
    if reason := why_unseen(run, min(map(len, groups(run)))):
        return Judgement(None, reason, watched)
    reason = _missed(run)
    return Judgement(not reason, reason, watched)


def _of_population(run: Samples) -> Judgement:
    families = independent_families(run)
    if families is None:
        return Judgement(None, "no replicas have come to the last temperature yet")
    if families < SMALL_POPULATION:
        few = f"replicas come from {families:.3g} independent families, fewer than {SMALL_POPULATION:g}"
        return Judgement(False, few)
    reason = _missed(run)
    return Judgement(not reason, reason)


def _missed(run: Samples) -> str:
    """Return what bounds say that chains, or a population, have missed."""
    from .missed import why_missed, why_population_missed  # which not every run is asked

    families = None if run.has_chains else independent_families(run)
    find = partial(why_missed, run, groups(run)) if families is None else partial(why_population_missed, run, families)
    return _once(run, "missed", find)


def _why_not_asked(run: Samples) -> str:
    """Return why the samples are no series whose convergence could be asked for; empty where they are."""
    if not run.has_chains or run.config["sample"].get("keep") == "best":
        return SEARCHED
    if run.at_log_times:
        return RELAXES
    return "fewer than 4 samples tell nothing" if run._n_samples < 4 else ""


def evidence_of(run: Samples) -> str:
    """Return what speaks for a run that has converged: its worst R-hat, or its families."""
    if run.config["sample"]["sampler"] == "population-annealing":
        return f"replicas come from {independent_families(run):.4g} independent families"
    varied = [q for q in judge(run).quantities if q.varies]
    if not varied:
        return ""
    worst = max(q.r_hat for q in varied)
    return (
        f"r_hat is at most {worst:.4g} in {len(varied)} quantit{'y' if len(varied) == 1 else 'ies'} that were watched"
    )


def _of_units(run: Samples) -> list[Quantity]:
    return _once(run, "units", lambda: _of_states(run, spaced(run)))


def _of_states(run: Samples, states: np.ndarray) -> list[Quantity]:
    betas = run.beta
    found = agreements(run._start, states, groups(run), even=is_even(run), threads=run.n_threads)
    return [Quantity(a.name, float(betas[a.chains[0]]), a.r_hat, limit=a.limit, drifts=a.drifts) for a in found]


def _disagreement(q: Quantity) -> str:
    label = q.label if q.name.startswith("|") else f"the {q.label}"
    if q.drifts:
        return f"the first part of the run differs from the rest in {label}"
    return f"r_hat of {label} is {q.r_hat:.3g}, above {q.limit:.3g}"


def has_converged(run: Samples) -> bool | None:
    """Return whether a run has converged, by the verdict of `judge`."""
    return judge(run).converged


def verdicts(run: Samples) -> dict[str, bool | None]:
    """Return the verdict of each quantity by its label: False where chains disagree, None where nothing decides it."""
    found = judge(run)
    return {
        q.label: not q.contradicts and ((q.agrees and found.converged) or None) if q.varies else None
        for q in found.quantities
    }


def _frozen(run: Samples) -> bool:
    """Return whether no unit ever flipped, or a chain that is the only one of its kind has a constant energy."""
    if run.acceptance == 0.0:
        return True
    energy = run.energy
    return any(len(chains) == 1 and np.ptp(energy[:, chains[0]]) == 0.0 for chains in groups(run))


def independent_families(run: Samples) -> float | None:
    """Return how many families a population counts for at its last temperature, exp of the family entropy."""
    entropy = run.read("population/family_entropy")
    return float(np.exp(entropy[-1])) if len(entropy) else None


def warn_of(run: Samples) -> None:
    """Warn once, at the end of a run, of what has not converged, with the way out."""
    text = _complaint(run)
    if text:
        checks.warn(text)


def _complaint(run: Samples) -> str:
    settings = run.config["sample"]
    if settings["sampler"] == "population-annealing":
        families = independent_families(run)
        if families is not None and families < SMALL_POPULATION:
            return (
                f"the population descends from about {families:.3g} independent replicas, too few for log Z or means "
                f"to be trusted. Raise n_chains (now {settings['n_chains']}) or n_sweeps."
            )
        return "" if families is None else _of_missed(run)
    if not run.has_chains or settings.get("keep") == "best" or run.at_log_times:
        return ""
    limit = f"n_sweeps = {settings['n_sweeps']}"
    single = settings["sampler"] in ("gibbs", "metropolis")  # clusters have no use for a ladder
    way_out = "Sample longer" + (', or with sampler="tempering"' if single else "")
    if run.burn_in_found is False:
        return f"chains still drift after the limit of the burn-in, {limit}: what was sampled is biased. {way_out}."
    if _enough(run) and (text := _of_disagreement(run, way_out)):
        return text
    return "" if run.until_met is not False else _unmet(run, limit, way_out)


def _of_disagreement(run: Samples, way_out: str) -> str:
    """Return what chains disagree in: the series of largest R-hat, else a unit or a drift; empty if they agree."""
    series = _of_series(run)
    apart = [q for q in series if q.r_hat > q.limit]
    if apart:
        worst = max(apart, key=lambda q: q.r_hat)
        place = next(k for k, q in enumerate(series) if q is worst)
        columns = [one for _, _, one in by_group(run, _series(run, MOST_COMPARED), groups(run))][place]
        ess = diagnostics.ess_bulk(_ranked(columns))  # where chains are far from each other, it is that of all samples
        more = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
        return (
            f"chains disagree: r_hat of the {worst.label} is {worst.r_hat:.3g}{more}, above "
            f"{worst.limit:g}; ess {ess:.3g}. {way_out}."
        )
    if bad := next((q for q in (*_of_units(run), *series) if not q.agrees), None):
        if bad.drifts:
            return f"chains drift together: {_disagreement(bad)}. Raise burn_in, or {way_out[0].lower()}{way_out[1:]}."
        return f"chains disagree: {_disagreement(bad)}. {way_out}."
    return _of_missed(run)


def _of_missed(run: Samples) -> str:
    """Return what a run has missed, if it took so long that this is looked for unasked."""
    if not is_long(run) or not (reason := _missed(run)):
        return ""
    return f"{reason[0].upper()}{reason[1:]}. Compare runs that begin elsewhere (initial), or other samplers."


def _unmet(run: Samples, limit: str, way_out: str) -> str:
    rule = ", ".join(f"{name} {value:g}" for name, value in run.config["sample"]["until"].items())
    return f"the stopping rule ({rule}) was not met within {limit}. {way_out}."


def _enough(run: Samples) -> bool:
    """Return whether there are chains and samples enough for a verdict."""
    if run.config["sample"]["n_chains"] < FEWEST_CHAINS or (n_samples := run._n_samples) < FEWEST_SAMPLES:
        return False
    each = min(map(len, groups(run)))
    return each >= FEWEST_CHAINS and each * n_samples >= FEWEST
