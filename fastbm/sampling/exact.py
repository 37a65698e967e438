"""Chains of independent draws from the exact distribution: a sweep is one draw of every chain.

They are drawn by the engines for exact sums that can; which of them a run uses, and what that costs, is told here.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from .._base import rng
from .._base.halting import never
from .._base.options import CHOSEN, Above, options
from .._base.streams import Stream
from .._base.threads import fan_out
from ..exact.choice import BUILT_IN, LARGEST_GIGABYTES, LONGEST_SECONDS, SMALL, candidates, duration
from ..exact.plan import Forecast, Source
from ..kernels.energy import energies_sparse
from ..machine.machine import BoltzmannMachine
from ..machine.magnitude import refuse_beyond_range
from .clamped import Conditioned
from .settings import OPEN, Sampler, SampleSettings

ENGINES = {"blocks": "blocks.draws", "layers": "layers.draws", "elimination": "elimination.draws"}  # in fastbm.exact
USUAL_DRAWS = 64_000  # those of a run of 64 chains and 1000 sweeps; by them engines are compared
DRAWN_BYTES = 1 << 23  # bits, a byte each, that are drawn at a time
ENERGY_LANES = 256  # states whose energies are computed side by side


@dataclass(frozen=True)
class Group:
    """Consecutive chains with one temperature and clamped pattern, and the source of their draws."""

    chains: slice
    source: Source


@cache
def _maker(engine: str) -> Callable[..., Source]:
    """Return the function that makes a source; its module, and kernels, are loaded when it is first needed."""
    made: Callable[..., Source] = importlib.import_module(f"fastbm.exact.{ENGINES[engine]}").source
    return made


def n_groups(settings: SampleSettings, subject: Conditioned) -> int:
    """Return how many equal groups of chains have a source of their own."""
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
        max_bytes=1e9 * _own(settings).max_gigabytes / count,
        speeds=BUILT_IN,
    )
    return Group(slice(k * each, (k + 1) * each), source)


def _machine(subject: Conditioned, chain: int) -> BoltzmannMachine:
    """Return the machine that a chain draws from, without offset, which changes no probability."""
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
    given = _own(settings).engine
    names: list[str] = [given] if given else list(usual)
    found = {name: _first_forecast(name, settings, subject) for name in names}
    able = {name: seconds for name, (seconds, _) in found.items() if math.isfinite(seconds)}
    costs = {name: forecast for name, (_, forecast) in found.items()}
    for name in sorted(able, key=lambda name: able[name]):
        costs[name] = _all(make_groups(name, settings, subject, threads))
        if _fits(costs[name], settings):
            return name
    raise ValueError(_refusal(costs, settings, subject, threads))


def _first_forecast(engine: str, settings: SampleSettings, subject: Conditioned) -> tuple[float, Forecast]:
    """Return the seconds of the first group's tables and usual draws on one thread, and the forecast of its tables."""
    if engine == "layers" and not subject.machine.is_layered:
        return math.inf, Forecast(math.inf, 0.0, "no layers")
    source = _group(engine, settings, subject, 1, 0, n_groups(settings, subject)).source
    return source.forecast.seconds + USUAL_DRAWS * source.draw_seconds, source.forecast


def _all(groups: list[Group]) -> Forecast:
    """Return the forecast for the tables of all groups, which are held together."""
    found = [group.source.forecast for group in groups]
    return Forecast(sum(f.seconds for f in found), sum(f.n_bytes for f in found), found[0].size)


def _fits(cost: Forecast, settings: SampleSettings) -> bool:
    own = _own(settings)
    return cost.seconds <= own.max_forecast_seconds and cost.n_bytes <= 1e9 * own.max_gigabytes


def _refusal(costs: Mapping[str, Forecast], settings: SampleSettings, subject: Conditioned, threads: int) -> str:
    own = _own(settings)
    if own.engine == "layers" and not subject.machine.is_layered:
        return 'engine="layers" needs a layered machine (weights as a list of blocks). Leave engine out.'
    count, n_units = n_groups(settings, subject), subject.machine.n_units
    of = f"{count} machines (betas and clamped patterns) of {n_units} units" if count > 1 else f"{n_units} units"
    on = f"{threads} thread{'s' if threads > 1 else ''}"
    limits = f"max_forecast_seconds={own.max_forecast_seconds:g} and max_gigabytes={own.max_gigabytes:g}"
    text = "; ".join(_described(name, cost) for name, cost in costs.items())
    return (
        f"sampler='exact' cannot make its tables for {of} on {on} within {limits}: {text}. Raise the limits, use "
        'sampler="gibbs" or "tempering", or clamp units.'
    )


def _described(engine: str, cost: Forecast) -> str:
    if not math.isfinite(cost.seconds):
        return f"{engine} cannot ({cost.size})"
    return f"{engine} {duration(cost.seconds)}, {cost.n_bytes / 1e9:.2g} GB ({cost.size})"


class ExactChains:
    """Chains of independent draws from the exact distribution, with the methods of an engine.

    See `fastbm.sampling.engine.engine.Engine`; a sweep leaves every chain in a new state that is independent of the one
    before.

    Parameters
    ----------
    machine : BoltzmannMachine
        The units that are sampled.
    bias : (n_units,) or (n_chains, n_units) array
    groups : list of Group
        Equal numbers of consecutive chains, each with the source that it draws from.
    streams : (n_chains, 4) uint32 array
    engine : str
        The name of what makes the sources.
    threads : int

    Attributes
    ----------
    n_swept : int
        Draws of each chain since the start.
    halt : function
        Asked while tables are made and in long draws: true if a stop is wanted. Then `Halted` is raised.

    Notes
    -----
    Draws that `thin` leaves out are drawn all the same: a sample depends on its chain's stream and on its own sweep,
    not on how sweeps are put together. Energies are summed in float64 from the user's couplings.
    """

    def __init__(
        self,
        machine: BoltzmannMachine,
        bias: np.ndarray,
        groups: list[Group],
        streams: np.ndarray,
        *,
        engine: str,
        threads: int,
    ) -> None:
        self._units, self._graph = machine.convention, machine.couplings.csr()
        self._bias = np.ascontiguousarray(np.atleast_2d(bias), dtype=np.float64)
        self._groups, self.threads = groups, threads
        self.n_chains, self.n_units, self.n_swept = len(streams), machine.n_units, 0
        self.halt: Callable[[], bool] = never
        self._tables_made = False
        self._load(streams)
        self.detail: dict[str, Any] = {"kernel": engine, "tables": groups[0].source.forecast.size}

    def _load(self, streams: np.ndarray) -> None:
        """Load streams (n_chains, 4)."""
        self._streams = [np.array(streams[group.chains].T, np.uint32, order="C") for group in self._groups]

    @property
    def streams(self) -> dict[str, Stream]:
        """Streams that `record` returns beside states and energies: none."""
        return {}

    @property
    def sweep_seconds(self) -> float:
        """About how many seconds the next draw of all chains takes, the first tables included."""
        sources = [group.source for group in self._groups]
        tables = 0.0 if self._tables_made else sum(source.forecast.seconds for source in sources)
        each = self.n_chains / len(sources)
        return tables + sum(source.draw_seconds for source in sources) * each / self.threads

    def _draws(self, k: int, n_draws: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (number of the first, bits) of draws of group `k`, as many at a time as memory allows."""
        source, streams = self._groups[k].source, self._streams[k]
        step = max(1, DRAWN_BYTES // (streams.shape[1] * self.n_units))
        for first in range(0, n_draws, step):
            yield first, source.draw(streams, min(step, n_draws - first), self.threads, self.halt)

    def sweep(self, n_sweeps: int) -> None:
        """Draw `n_sweeps` states of every chain, and keep none."""
        for k in range(len(self._groups)):
            for _ in self._draws(k, n_sweeps):
                pass
        self._count(n_sweeps)

    def record(self, n_samples: int, thin: int) -> dict[str, np.ndarray]:
        """Draw `n_samples` times `thin` states of every chain, and keep the last of every `thin`.

        Returns
        -------
        dict
            ``samples/states`` (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit, and
            ``samples/energy`` (n_samples, n_chains), without offset.
        """
        packed = np.empty((n_samples, self.n_chains, -(-self.n_units // 8)), np.uint8)
        energies = np.empty((n_samples, self.n_chains))
        for k, group in enumerate(self._groups):
            for first, up in self._draws(k, n_samples * thin):
                skipped = -(first + 1) % thin
                kept, start = up[skipped::thin], (first + skipped) // thin
                rows = slice(start, start + len(kept))
                packed[rows, group.chains] = np.packbits(kept, axis=2, bitorder="little")
                energies[rows, group.chains] = self._energies(group, kept)
        self._count(n_samples * thin)
        return {"samples/states": packed, "samples/energy": energies}

    def _count(self, n_sweeps: int) -> None:
        self._tables_made = self._tables_made or n_sweeps > 0
        self.n_swept += n_sweeps

    def _energies(self, group: Group, up: np.ndarray) -> np.ndarray:
        """Return energies without offset of bits (n_samples, n_chains, n_units) of one group."""
        row = self._bias[group.chains.start if len(self._bias) > 1 else 0]
        bias, values = np.ascontiguousarray(row[:, None]), (float(self._units.lo), float(self._units.span))
        states = up.reshape(-1, self.n_units)
        energies = np.empty(len(states))

        def compute(first: int) -> None:
            lanes = slice(first, first + ENERGY_LANES)
            energies_sparse(np.ascontiguousarray(states[lanes].T), self._graph, bias, values, energies[lanes])

        fan_out(compute, range(0, len(states), ENERGY_LANES), self.threads)
        return energies.reshape(up.shape[:2])

    def packed(self) -> np.ndarray:
        """Return states with all units down: there are none before the first draw, and none is kept after it."""
        return np.zeros((self.n_chains, -(-self.n_units // 8)), np.uint8)

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the chains bit for bit."""
        return {"streams": np.concatenate([s.T for s in self._streams]), "n_swept": np.array(self.n_swept)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._load(state["streams"])
        self.n_swept = int(state["n_swept"])


@options
class Exact(Sampler):
    """Independent draws from the exact distribution, for machines that exact sums can take; a sweep is one draw.

    Parameters
    ----------
    engine : {"blocks", "layers", "elimination"}, optional
        What makes the tables that are drawn from: products of three blocks of units for up to some 40, sums over one
        side of layered machines, elimination for graphs of low treewidth. The cheapest by forecast unless given. Each
        gives its own draws.
    max_forecast_seconds, max_gigabytes : float
        Refuse tables that would take longer or more memory; those of several betas and clamped patterns share it.
    """

    name: ClassVar[str] = "exact"
    takes: ClassVar[frozenset[str]] = OPEN - {"initial"}
    many_betas: ClassVar[bool] = True
    relaxes: ClassVar[bool] = False

    engine: Literal["blocks", "layers", "elimination"] = CHOSEN
    max_forecast_seconds: Annotated[float, Above(0.0)] = LONGEST_SECONDS
    max_gigabytes: Annotated[float, Above(0.0)] = LARGEST_GIGABYTES

    def resolve(self, settings: SampleSettings, subject: Conditioned, threads: int) -> SampleSettings:
        """Return the settings with the engine that is named, or the cheapest whose tables are within the limits."""
        return settings.with_own(engine=choose_engine(settings, subject, threads))

    def chains(self, settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> ExactChains:
        """Return chains whose tables are made when they are first needed."""
        s, machine = settings, subject.machine
        return ExactChains(
            machine, machine.flat_bias if subject.bias is None else subject.bias,
            make_groups(self.engine, s, subject, threads), rng.streams(s.seed, s.n_chains, first=s.first_chain),
            engine=self.engine, threads=threads,
        )  # fmt: skip


def draw_exactly(
    model: BoltzmannMachine, beta: float, shape: tuple[int, int], *, seed: int, threads: int, **options: Any
) -> np.ndarray:
    """Return packed states, (draws, chains, bytes), for those who keep no run; `options` are those of the sampler.

    Raises
    ------
    ValueError
        If no engine can make the tables within the limits, or the machine's scale is beyond range.
    """
    refuse_beyond_range(model, beta, odds=math.inf)
    n_draws, n_chains = shape
    subject = Conditioned(model, None, n_chains)
    settings = SampleSettings(
        own=Exact(**options),
        n_chains=n_chains,
        n_sweeps=n_draws,
        burn_in=0,
        thin=1,
        beta=(beta,),
        seed=seed,
        first_chain=0,
    )
    settings = settings.own.resolve(settings, subject, threads)
    packed: np.ndarray = settings.own.chains(settings, subject, "random", threads).record(n_draws, 1)["samples/states"]
    return packed


def _own(settings: SampleSettings) -> Exact:
    assert isinstance(settings.own, Exact)
    return settings.own
