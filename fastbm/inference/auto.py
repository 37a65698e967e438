"""The choice of `infer(model, "auto")`: an exact sum if it fits the budget, else the method that estimates best.

How much of a method fits into a budget of seconds is found by doing a little of it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, NoReturn

import numpy as np

from .._base.options import Above, Options, options, pick
from ..exact.choice import LONGEST_SECONDS, duration
from ..exact.plan import Speeds
from ..kernels.stopwatch import Stopwatch
from ..machine.clamping import Clamped
from ..machine.couplings import DENSE_LIMIT
from ..machine.machine import BoltzmannMachine
from ..machine.magnitude import refuse_beyond_range
from .estimator import BETAS, SWEEPS
from .exact.method import Exact
from .exact.settings import ExactSettings
from .exact.sums import ExactSums
from .importance_sampling import N_SWEEPS
from .methods import METHODS, run_method
from .scout.bases import check_start
from .scout.marginal import Marginal, has_marginal
from .scout.marginal_tempering import temper_seconds
from .scout.scout import BURN_IN, FEWEST_ROUNDS, LADDERS, LEVELS, attempt_seconds, n_levels
from .witness import MOST_KEPT

BUDGET = 60.0  # seconds
TRIES = 4  # times the rounds of a tempering that importance sampling may take in all
TEMPERED, ANNEALED = 16, 128  # ladders of a tempering, and walks of AIS, unless given
AROUND_AIS = 10  # times a walk's own cost: trials, witnesses and what it brings along
LOOKS = 6  # times a look around, which no size makes shorter: two trials and a bracket begin with one
PAIR_SECONDS = 4e-10  # that the energy of one state takes for one entry of the couplings
WORTH = (
    "log Z is a lower bound, without an error bar, short by about detail['left_out'] nats if couplings are weak, and "
    "by more if there are valleys"
)
PILOT = 0.06  # part of the budget that the largest trial should take, about
AFFORDED = 0.3  # part of the budget that trials should not exceed
KEPT_BACK = 0.1  # part of the budget that is left for what the trials do not tell
SLOWEST_GROWTH, FASTEST_GROWTH = 4, 32  # of one trial over the one before
LEAST_SLOPE = 0.1  # of the time that a trial took per size: what is not larger than noise


@options
class Auto(Options):
    """Choose a method by what fits a budget: an exact sum if it does, else what estimates best.

    Parameters
    ----------
    budget : float
        Seconds.
    exact : bool
        Whether an exact sum may be taken.
    start : {"uniform", "biases", "data", "mean-field", "tempering"} or array, optional
        The product model that AIS or tempering begins at; refused where neither is taken.
    """

    name: ClassVar[str] = "auto"
    kind: ClassVar[str] = "method of inference"

    budget: Annotated[float, Above(0.0)] = BUDGET
    exact: bool = True
    start: Any = None


BY_NAME: dict[str, type[Options]] = {**METHODS, Auto.name: Auto}


def named(method: Any, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of a method, from either names or an object."""
    found: Any = pick("method", method, BY_NAME, given)
    return (found.name, found.given()) if isinstance(found, Options) else (method, dict(given))


@dataclass(frozen=True)
class Settled:
    """The method that was chosen, its options, and `note`, what was known and why."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    note: dict[str, Any] = field(default_factory=dict)


def settle(
    model: BoltzmannMachine, *, beta: float, clamp: Any, moments: bool, seed: int, threads: int, budget: float,
    exact: bool = True, start: Any = None, executor: Executor | None = None,
    measured: Callable[[], Speeds] | None = None,
) -> Settled:  # fmt: skip
    """Choose a method for a machine, clamped or not, by forecasts alone and a look by mean field.

    Exact sums are taken if "exact" itself would do them within the budget, unless `exact` is False; `executor` and
    `measured` are as for `ExactSums`. Otherwise layered machines with one small side get "importance-sampling" around
    the states of a tempering of that side, other layered machines "ais", from both ends where the look around that this
    begins with is short beside the budget, and all others "tempering", whose moments can be trusted too, or "ais" where
    the shortest tempering takes longer than the budget. How long the last two run is left to the budget, but for "ais"
    from one end, which is forecast; what is too short for either gets "mean-field". `start` goes to the method that is
    chosen; one that begins at no product model refuses it.
    """
    machine, n_sums = _sums(model, clamp)
    if start is not None:
        check_start(machine, start)
    about: dict[str, Any] = {"beta": beta, "clamp": clamp, "moments": moments, "threads": threads}
    about |= {"executor": executor, "measured": measured}
    forecast = _exact_seconds(model, budget, **about) if exact or not n_sums else math.inf
    if math.isfinite(forecast):
        why = f"an exact sum, {duration(forecast)} on one thread, is done within the budget of {duration(budget)}"
        if start is not None:
            _refuse_start("exact", f"{why}; or pass exact=False")
        limit: dict[str, Any] = {"max_forecast_seconds": budget}
        return Settled("exact", limit, {"why": why, "options": limit})
    refuse_beyond_range(model, beta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is a look, and says itself whether it converged
        mean_field = run_method(model, "mean-field", beta=beta, clamp=clamp, moments=False, seed=seed, threads=threads)
    first = "no exact sum is wanted"
    if exact:
        forecast = _exact_seconds(model, max(budget, LONGEST_SECONDS), **about)
        facts = f"{duration(forecast)} on one thread" if math.isfinite(forecast) else "out of reach"
        first = f"an exact sum ({facts}) does not fit the budget of {duration(budget)}"
    method, options, why = _estimate(machine, beta, n_sums, moments, threads * budget)
    if start is not None:
        if "start" not in METHODS[method].names():
            _refuse_start(method, why)
        options = options | {"start": start}
    note: dict[str, Any] = {
        "why": f"{first}; {why}",
        "mean-field log Z": np.asarray(mean_field.log_z).tolist(),  # of each clamped pattern
        "mean-field converged": mean_field.converged,
    }
    note["options"] = options
    return Settled(method, options, note)


def _exact_seconds(model: BoltzmannMachine, longest: float, **about: Any) -> float:
    """Return the forecast of exact sums on one thread; inf where "exact" refuses them, as they take too long or much.

    It is of this machine's own couplings: zeros among them, and energies far apart, change what a sum takes.
    """
    settings = ExactSettings.of(model, **Exact(max_forecast_seconds=longest).as_dict())
    try:
        return ExactSums(model, settings, **about).seconds
    except ValueError:
        return math.inf


def _refuse_start(method: str, why: str) -> NoReturn:
    raise ValueError(f"auto takes {method!r} here, which begins at no product model. Leave start out ({why}).")


def _estimate(
    machine: BoltzmannMachine, beta: float, n_sums: int, moments: bool, seconds: float
) -> tuple[str, dict[str, Any], str]:
    """Find what estimates best within seconds of one thread: the method, its options, and why."""
    if moments and machine.n_units > DENSE_LIMIT:
        return (
            "mean-field",
            {},
            f"no method that samples gives moments of {machine.n_units} units (moments=False has an estimate): {WORTH}",
        )
    if machine.is_layered:
        return _estimate_layers(machine, beta, n_sums, seconds)
    if n_sums * tempering_seconds(machine, beta) <= seconds:
        return "tempering", {}, "no layers: tempering gives log Z and moments from the same samples"
    if n_sums * ais_seconds(machine) <= seconds:
        return "ais", {}, "too short for a tempering: AIS"
    return "mean-field", {}, f"too short for any estimate: {WORTH}"


def _estimate_layers(
    machine: BoltzmannMachine, beta: float, n_sums: int, seconds: float
) -> tuple[str, dict[str, Any], str]:
    if n_sums * ais_seconds(machine) > seconds:
        return "mean-field", {}, f"too short for any estimate: {WORTH}"
    if not has_marginal(machine):
        return "ais", {"bracket": True}, "layers: AIS sums every second one in closed form"
    side = Marginal.of(machine, beta)
    each = n_sums * temper_seconds(side, LADDERS, LEVELS, 1)
    if len(side.kept) <= MOST_KEPT:
        fits = int(seconds / (TRIES * each))
        if fits >= FEWEST_ROUNDS:
            why = f"{len(side.kept)} units in the smaller side: importance-sampling around the states of a tempering"
            return "importance-sampling", {"n_sweeps": min(fits, N_SWEEPS)}, why
    if LOOKS * (1.0 + BURN_IN) * FEWEST_ROUNDS * each <= seconds:
        return "ais", {"bracket": True}, "layers: AIS from both ends"
    # beyond some size looks around come in, of which smaller trials do not tell. Built-in speeds leave room for them
    fits = int(AROUND_AIS * seconds / (n_sums * ais_seconds(machine)))
    return "ais", {"n_betas": fits * BETAS.least}, "layers: AIS, from one end as a bracket takes longer"


def tempering_seconds(model: BoltzmannMachine, beta: float) -> float:
    """Estimate what the shortest tempering takes on one thread.

    It is as many sweeps of burn-in as are used, and the energies of all replicas after each.
    """
    replicas = TEMPERED * n_levels(model, beta)
    energies = PAIR_SECONDS * sum(array.size for array in model.couplings.arrays)
    return 2 * SWEEPS.least * replicas * (model.n_units * attempt_seconds(model) + energies)


def ais_seconds(model: BoltzmannMachine) -> float:
    """Estimate what the shortest AIS takes on one thread, its trials and its witnesses counted."""
    return AROUND_AIS * BETAS.least * ANNEALED * model.n_units * attempt_seconds(model)


def _sums(model: BoltzmannMachine, clamp: Any) -> tuple[BoltzmannMachine, int]:
    """Return a machine that is to be summed, and how many alike there are; 0 where nothing is free."""
    if clamp is None:
        return model, 1
    clamped = Clamped.of(model, *clamp)
    return (clamped.machine(0), clamped.n_patterns) if clamped.free.size else (model, 0)


class BudgetTooSmall(ValueError):
    """Raised where not even the least that a method can do fits into the budget."""


def fit_into(
    seconds: float, run: Callable[[int], Any], knob: str, least: int, most: int, *, on_top: bool = True
) -> int:
    """Return the size, a multiple of `least` up to `most`, at which `run` takes about `seconds`.

    Parameters
    ----------
    run : function
        Its time must grow about evenly with the size.
    knob : str
        What the size is called, for the error.
    on_top : bool
        Whether the trials, some part of as much, come on top, or out of the same seconds.

    Raises
    ------
    BudgetTooSmall
        If the least size takes longer. Trials are timed, so that the answer differs from one call to the next.
    """
    taken = spent = _timed(run, least)
    if taken <= PILOT * seconds:  # a first trial, which is slower, can be repeated
        taken = _timed(run, least)
        spent += taken
    if taken > seconds:
        raise BudgetTooSmall(
            f"{knob} = {least}, the least that is of any use, takes {taken:.2g} s, and the budget is {seconds:g} s."
        )
    size, slope = least, taken / least

    while size < most and (size == least or taken < PILOT * seconds):
        growth = min(max(int(PILOT * seconds / taken), SLOWEST_GROWTH), FASTEST_GROWTH)
        if spent + growth * taken > AFFORDED * seconds:
            growth = 2
            if size > least or spent + growth * taken > seconds:
                break
        before = size, taken
        size = min(most, growth * size)
        taken = _timed(run, size)
        spent += taken
        slope = max((taken - before[1]) / (size - before[0]), LEAST_SLOPE * taken / size)  # part of the time is fixed
    left = (1.0 - KEPT_BACK) * seconds - taken - (0.0 if on_top else spent)
    found = min(most, int(size + left / slope))
    return max(least, found - found % least)


def _timed(run: Callable[[int], Any], size: int) -> float:
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run need not converge
        run(size)
    return max(watch.seconds, 1e-9)
