"""Which engine does a sum: the one whose forecast is the shortest, of those that can and whose memory is there.

Engines are compared on one thread, so that the choice does not depend on how many there are; the limits are held on
those that there are.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ..machine.couplings import Dense
from ..machine.machine import BoltzmannMachine
from ..machine.magnitude import refuse_beyond_range
from .plan import Forecast, Speeds, Sum, Wanted

ENGINES = ("gray", "blocks", "layers", "elimination")
LONGEST_SECONDS, LARGEST_GIGABYTES = 600.0, 4.0
MOST_UNITS = 62  # of sums over all states: their numbers are 64 bits long
DIRECT, SMALL = 16, 24  # units up to which no other engine is worth a look, and up to which elimination is not
MANY_PAIRS = 0.3  # part of all pairs that is coupled, above which no order of elimination is cheap
BUILT_IN = Speeds()
MANY_CORE_SECONDS = 7200.0
FARTHEST = 100.0  # times faster or slower than the built-in speeds no machine is: a measurement went wrong


@dataclass(frozen=True)
class Limits:
    """What a sum may take."""

    seconds: float = LONGEST_SECONDS
    n_bytes: float = 1e9 * LARGEST_GIGABYTES


@dataclass(frozen=True)
class Request:
    """A sum that is asked for: `wanted` by engine, and what only one of them is told.

    `workers` of an executor do its pieces, each on one thread; 0 where it is done here.
    """

    model: BoltzmannMachine
    beta: float
    wanted: Callable[[str], Wanted]
    limits: Limits
    threads: int
    only: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workers: int = 0

    def plan(self, engine: str, *, threads: int | None = None, speeds: Speeds = BUILT_IN) -> Sum:
        """Plan the sum for one engine."""
        return planner(engine)(
            self.model,
            self.beta,
            self.wanted(engine),
            threads=self.threads if threads is None else threads,
            max_bytes=self.limits.n_bytes,
            speeds=speeds,
            **self.only.get(engine, {}),
        )

    def forecast(self, engine: str, *, threads: int | None = None, speeds: Speeds = BUILT_IN) -> Forecast:
        """Forecast what one engine would take."""
        if engine in ("gray", "blocks") and self.model.n_units > MOST_UNITS:
            return Forecast(math.inf, 0.0, f"2^{self.model.n_units} states")
        if engine == "layers" and not self.model.is_layered:
            return Forecast(math.inf, 0.0, "no layers")
        return self.plan(engine, threads=threads, speeds=speeds).forecast


@dataclass(frozen=True)
class Choice:
    """An engine, why it was taken, and how long the sum takes with it on one thread; one sum by the built-in speeds."""

    engine: str
    why: str
    seconds: float
    usual_seconds: float


@cache
def planner(engine: str) -> Callable[..., Sum]:
    """Load the planner of an engine when it is first needed, and its kernels with it."""
    planner: Callable[..., Sum] = importlib.import_module(f".{engine}.sum", __package__).plan
    return planner


def is_few(model: BoltzmannMachine) -> bool:
    """Tell whether there are so few states that blocks are taken without a look at the others."""
    return model.n_units <= DIRECT or (model.n_units <= SMALL and not model.is_layered)


def candidates(model: BoltzmannMachine) -> list[str]:
    """Return the engines that are worth a forecast."""
    n = model.n_units
    found = ["blocks"]
    if n > DIRECT and model.is_layered:
        found.append("layers")
    if n > SMALL:
        found.append("gray")
        if not isinstance(model.couplings, Dense) or _density(model) < MANY_PAIRS:
            found.append("elimination")
    return found


def _density(model: BoltzmannMachine) -> float:
    """Which part of all pairs is coupled, in a dense matrix."""
    n = model.n_units
    return np.count_nonzero(model.couplings.arrays[0]) / (n * (n - 1.0))


def choose(
    request: Request, engine: str | None, n_sums: int = 1, *, measured: Callable[[], Speeds] | None = None
) -> Choice:
    """Return the engine for a sum, or for `n_sums` alike.

    Parameters
    ----------
    engine : str or None
        The one that was asked for; None takes the cheapest.
    measured : function, optional
        Measures the speeds of this machine; called where the sum is so long that it pays.

    Raises
    ------
    ValueError
        If no engine can do the sum within the limits; the text gives their forecasts and the alternatives. If log Z may
        be beyond the largest number.
    """
    refuse_beyond_range(request.model, request.beta, energies=math.inf, odds=math.inf)
    names = [engine] if engine else candidates(request.model)
    found = _forecasts(request, names, BUILT_IN)
    best = _cheapest(found, request.limits)
    if best is None and not engine and "gray" not in found:
        found |= _forecasts(request, ["gray"], BUILT_IN)
        best = _cheapest(found, request.limits)
    speeds, usual = BUILT_IN, found
    # a second pays a measurement; what is far above the limit is so at any speed
    if measured is not None and best and 1.0 < n_sums * found[best].seconds < FARTHEST * request.limits.seconds:
        speeds = measured()
        found = _forecasts(request, list(found), speeds)
        best = _cheapest(found, request.limits)
    if best is None:
        raise ValueError(_refusal(request, found, engine, n_sums))
    there = _there(request, best, found[best], speeds, n_sums)
    if n_sums * there.seconds > request.limits.seconds or there.n_bytes > request.limits.n_bytes:
        raise ValueError(_refusal(request, found | {best: there}, engine, n_sums, n_sums * found[best].seconds))
    return Choice(best, why(best, found, engine), n_sums * found[best].seconds, usual[best].seconds)


def _there(request: Request, engine: str, alone: Forecast, speeds: Speeds, n_sums: int) -> Forecast:
    """Return the forecast on the workers or threads that there are, from that on one thread.

    That stands where it is within the limits: threads take no longer, and at most as many times the memory.
    """
    if request.workers:
        n_pieces = max(request.plan(engine, threads=1).n_pieces, 1)
        return replace(alone, seconds=alone.seconds / min(request.workers, n_pieces))
    limits, n_bytes = request.limits, request.threads * alone.n_bytes
    if request.threads == 1 or (n_sums * alone.seconds <= limits.seconds and n_bytes <= limits.n_bytes):
        return alone
    return request.forecast(engine, speeds=speeds)


def _forecasts(request: Request, names: list[str], speeds: Speeds) -> dict[str, Forecast]:
    return {name: request.forecast(name, threads=1, speeds=speeds) for name in names}


def _cheapest(found: Mapping[str, Forecast], limits: Limits) -> str | None:
    """Return the engine with the shortest forecast, if any can do the sum in the memory that there is."""
    able = {name: f.seconds for name, f in found.items() if math.isfinite(f.seconds) and f.n_bytes <= limits.n_bytes}
    return min(able, key=lambda name: able[name]) if able else None


def why(best: str, found: Mapping[str, Forecast], engine: str | None = None) -> str:
    """Say why the engine `best` was taken, in a sentence."""
    if engine:
        return f"asked for; {_described(best, found[best])} on one thread"
    others = [_described(name, found[name]) for name in sorted(found, key=lambda k: found[k].seconds) if name != best]
    if not others:
        return f"the usual engine for so few units; {_described(best, found[best])} on one thread"
    return f"cheapest on one thread: {_described(best, found[best])}; {', '.join(others)}"


@lru_cache(maxsize=64)
def _described(name: str, forecast: Forecast, n_sums: int = 1) -> str:
    if not math.isfinite(forecast.seconds):
        return f"{name} cannot ({forecast.size})"
    memory = f", {forecast.n_bytes / 1e9:.2g} GB" if forecast.n_bytes > 1e8 else ""
    return f"{name} {duration(n_sums * forecast.seconds)}{memory} ({forecast.size})"


def _core_hours(seconds: float) -> str:
    """Say how long a sum takes on one thread, where that is long and is not how long it takes."""
    return f"about {seconds / 3600:.2g} core hours; " if MANY_CORE_SECONDS < seconds < math.inf else ""


ALTERNATIVES = '"ais", "sampled-states" or "mean-field" for log Z, "gibbs" for moments, or clamp units.'
# to what goes through states one by one
LISTS = {
    "n_lowest": (
        'sample(model, "tempering", keep="best"), or where couplings are few sample(model, "exact", beta=...) at a '
        "large beta."
    ),
    "distribution": '"gibbs" or "tempering" samples, or clamp units.',
}


def _refusal(
    request: Request, found: Mapping[str, Forecast], engine: str | None, n_sums: int, alone: float = 0.0
) -> str:
    if engine == "layers" and not request.model.is_layered:
        return (
            'engine="layers" needs a layered machine (weights as a list of blocks). Leave engine out for the cheapest '
            "that can."
        )
    limits, threads, alternatives = request.limits, request.threads, ALTERNATIVES
    gigabytes, seconds = f"max_gigabytes={limits.n_bytes / 1e9:g}", f"max_forecast_seconds={limits.seconds:g}"
    text = "; ".join(_described(name, f, n_sums) for name, f in found.items())
    one = f"engine={engine!r}" if engine else "exact"
    sums = f"{n_sums} sums" if n_sums > 1 else "a sum"
    other = "Leave engine out, or use" if engine else "Use"
    if listed := [name for name, value in request.only.get("gray", {}).items() if value and name in LISTS]:
        one, other, alternatives = f"{' and '.join(listed)}, of all states one by one,", "Use", LISTS[listed[0]]
    able = [f for f in found.values() if math.isfinite(f.seconds)]
    if not able:
        return (
            f"{one} cannot do {sums} over 2^{request.model.n_units} states within {gigabytes}: {text}. "
            f"{other} {alternatives}"
        )
    limit = seconds if any(f.n_bytes <= limits.n_bytes for f in able) else gigabytes
    where = f"{threads} thread{'s' * (threads > 1)}"
    if request.workers:
        where = f"{request.workers} worker{'s' * (request.workers > 1)}"
    return (
        f"{one} would do {sums} over 2^{request.model.n_units} states on {where}: {_core_hours(alone)}{text}; "
        f"the limit is {limit}. Raise it, or use {alternatives}"
    )


def duration(seconds: float) -> str:
    """Return a time as text."""
    if seconds > 1e9 * 365.25 * 86400:
        return "more than 1e9 years"
    for size, name in ((365.25 * 86400, "year"), (86400, "day"), (3600, "hour"), (60, "minute"), (0, "second")):
        if seconds >= size:
            number = f"{seconds / (size or 1):.3g}"
            return f"{number} {name}" + ("" if number == "1" else "s")
    raise ValueError(f"seconds must be at least 0; got {seconds!r}.")
