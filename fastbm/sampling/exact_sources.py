"""What exact samples are drawn from: the engines that can, which of them a run uses, and what that costs."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from ..exact.choosing import (
    BUILT_IN,
    LARGEST_GIGABYTES,
    LONGEST_SECONDS,
    SMALL,
    candidates,
    duration,
)
from ..exact.plan import Forecast, Source
from ..model import BoltzmannMachine
from .conditioned import Conditioned

if TYPE_CHECKING:
    from .settings import SampleSettings

ENGINES = {"blocks": "blocks_source", "layers": "layers_source", "elimination": "elimination_source"}  # in fastbm.exact
USUAL_DRAWS = 64_000  # those of a run of 64 chains and 1000 sweeps; by them engines are compared


@dataclass(frozen=True)
class Group:
    """Consecutive chains with one temperature and clamped pattern, and what they draw from."""

    chains: slice
    source: Source


@cache
def _maker(engine: str) -> Callable[..., Source]:
    """An engine is loaded when it is first needed, and its kernels with it."""
    made: Callable[..., Source] = importlib.import_module(f"fastbm.exact.{ENGINES[engine]}").source
    return made


def n_groups(settings: SampleSettings, subject: Conditioned) -> int:
    """How many equal groups of chains have a source of their own."""
    return math.lcm(len(settings.beta), subject.n_patterns)


def make_groups(engine: str, settings: SampleSettings, subject: Conditioned, threads: int) -> list[Group]:
    """Return the groups of a run's chains, each with its own share of the memory; no tables are made yet."""
    count = n_groups(settings, subject)
    return [_group(engine, settings, subject, threads, k, count) for k in range(count)]


def _group(engine: str, settings: SampleSettings, subject: Conditioned, threads: int, k: int, count: int) -> Group:
    each = settings.n_chains // count
    source = _maker(engine)(
        _machine(subject, k * each),
        float(settings.by_chain[k * each]),
        threads=threads,
        max_bytes=1e9 * (settings.max_gigabytes or LARGEST_GIGABYTES) / count,
        speeds=BUILT_IN,
    )
    return Group(slice(k * each, (k + 1) * each), source)


def _machine(subject: Conditioned, chain: int) -> BoltzmannMachine:
    """The machine that a chain draws from; its offset has no say."""
    whole = subject.machine
    if subject.bias is None:
        return whole
    return whole.trusted(whole.couplings, subject.bias[chain], whole.convention, whole.n_hidden, 0.0)


def choose_engine(settings: SampleSettings, subject: Conditioned, threads: int) -> str:
    """Return the engine that is named, or the cheapest whose tables are within the limits.

    Raises
    ------
    ValueError
        If there is none; the text gives the costs and the alternatives.

    Notes
    -----
    Engines are compared by constants, for one thread and a usual number of draws: the choice depends on the machine
    alone, so that runs alike draw the same states wherever, and with however many chains, they are made.
    """
    machine = subject.machine
    usual = ENGINES if machine.n_units <= SMALL else [name for name in candidates(machine) if name in ENGINES]
    names = [settings.engine] if settings.engine else usual
    found = {name: _first_forecast(name, settings, subject) for name in names}
    able = {name: seconds for name, (seconds, _) in found.items() if math.isfinite(seconds)}
    costs = {name: forecast for name, (_, forecast) in found.items()}
    for name in sorted(able, key=lambda name: able[name]):
        costs[name] = _all(make_groups(name, settings, subject, threads))
        if _fits(costs[name], settings):
            return name
    raise ValueError(_refusal(costs, settings, subject, threads))


def _first_forecast(engine: str, settings: SampleSettings, subject: Conditioned) -> tuple[float, Forecast]:
    """Seconds of the first group's tables and usual draws on one thread, and the forecast of its tables."""
    if engine == "layers" and not subject.machine.is_layered:
        return math.inf, Forecast(math.inf, 0.0, "no layers")
    source = _group(engine, settings, subject, 1, 0, n_groups(settings, subject)).source
    return source.forecast.seconds + USUAL_DRAWS * source.draw_seconds, source.forecast


def _all(groups: list[Group]) -> Forecast:
    """Of the tables of all groups, which are held together."""
    found = [group.source.forecast for group in groups]
    return Forecast(sum(f.seconds for f in found), sum(f.n_bytes for f in found), found[0].size)


def _fits(cost: Forecast, settings: SampleSettings) -> bool:
    seconds, size = settings.max_forecast_seconds or LONGEST_SECONDS, settings.max_gigabytes or LARGEST_GIGABYTES
    return cost.seconds <= seconds and cost.n_bytes <= 1e9 * size


def _refusal(costs: Mapping[str, Forecast], settings: SampleSettings, subject: Conditioned, threads: int) -> str:
    if settings.engine == "layers" and not subject.machine.is_layered:
        return 'engine="layers" needs a layered machine (weights as a list of blocks). Leave engine out.'
    count, n_units = n_groups(settings, subject), subject.machine.n_units
    of = f"{count} machines (betas and clamped patterns) of {n_units} units" if count > 1 else f"{n_units} units"
    on = f"{threads} thread{'s' if threads > 1 else ''}"
    limits = f"max_forecast_seconds={settings.max_forecast_seconds:g} and max_gigabytes={settings.max_gigabytes:g}"
    told = "; ".join(_told(name, cost) for name, cost in costs.items())
    return (
        f"sampler='exact' cannot make its tables for {of} on {on} within {limits}: {told}. Raise the limits, use "
        'sampler="gibbs" or "tempering", or clamp units.'
    )


def _told(engine: str, cost: Forecast) -> str:
    if not math.isfinite(cost.seconds):
        return f"{engine} cannot ({cost.size})"
    return f"{engine} {duration(cost.seconds)}, {cost.n_bytes / 1e9:.2g} GB ({cost.size})"
