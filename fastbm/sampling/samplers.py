"""The table of samplers: what each takes beside what all take, and how its chains are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._base import rng
from .annealing import AnnealedChains, make_schedule
from .chains import make_chains
from .clamped import Conditioned
from .clusters import ClusterChains
from .engine.engine import start_bits
from .exact import ExactChains, make_groups
from .population import Population
from .settings import SampleSettings
from .tempering import TemperedChains

Make = Callable[[SampleSettings, Conditioned, Any, int], Any]

# arguments that not every sampler takes
SPECIAL = (
    "rule", "order", "kernel", "burn_in", "betas", "n_betas", "lowest_beta", "schedule", "swap_every", "cluster",
    "target_ess", "clamp", "until", "initial", "first_chain", "thin", "engine", "max_forecast_seconds", "max_gigabytes",
)  # fmt: skip
# of what goes on as long as one likes, and of single-unit updates
OPEN = frozenset({"burn_in", "thin", "clamp", "until", "initial", "first_chain"})
SINGLE = frozenset({"order", "kernel"})


@dataclass(frozen=True)
class Row:
    """One sampler: `make(settings, conditioned, initial, threads)` returns its chains.

    Attributes
    ----------
    takes : set of str
        Names out of `SPECIAL`; "many betas": a list of beta, one for each group of chains.
    rule : str
        The update that it is made of; empty where the argument `rule` names it.
    n_sweeps : int
        Unless given.
    ends : bool
        Whether it has an end of its own.
    relaxes : bool
        Whether chains need sweeps to forget where they started.
    searches : bool
        Whether it is for low energies alone, whatever is kept.
    """

    make: Make
    takes: frozenset[str]
    rule: str = ""
    n_sweeps: int = 1_000
    ends: bool = False
    relaxes: bool = True
    searches: bool = False


def names_with(argument: str) -> list[str]:
    """Return the samplers that take an argument."""
    return [name for name, row in SAMPLERS.items() if argument in row.takes]


def _common(settings: SampleSettings, subject: Conditioned, threads: int) -> dict[str, Any]:
    s = settings
    return {
        "rule": s.rule, "order": s.order, "kernel": s.kernel, "seed": s.seed, "threads": threads, "bias": subject.bias,
    }  # fmt: skip


def _chains(settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
    return make_chains(
        subject.machine, settings.n_chains, beta=list(settings.beta), initial=initial,
        first_chain=settings.first_chain, **_common(settings, subject, threads),
    )  # fmt: skip


def _clusters(settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
    s, machine = settings, subject.machine
    up = start_bits(initial, machine.n_units, s.n_chains, s.seed, s.first_chain, machine.convention)
    return ClusterChains(
        machine.couplings, machine.flat_bias if subject.bias is None else subject.bias, machine.convention, up,
        rng.streams(s.seed, s.n_chains, first=s.first_chain), beta=s.by_chain, rule=s.sampler, seed=s.seed,
        threads=threads, burn_in=0 if s.burn_in == "auto" else int(s.burn_in),
    )  # fmt: skip


def _tempered(settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
    return TemperedChains(
        subject.machine, settings.n_chains, settings.betas, initial=initial, first_chain=settings.first_chain,
        swap_every=settings.swap_every or 1, cluster=settings.cluster, offset=subject.offset,
        **_common(settings, subject, threads),
    )  # fmt: skip


def _annealed(settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
    return AnnealedChains(
        subject.machine, settings.n_chains, initial=initial, first_chain=settings.first_chain,
        betas=make_schedule(settings.n_sweeps, settings.schedule, settings.betas), offset=subject.offset,
        **_common(settings, subject, threads),
    )  # fmt: skip


def _population(settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
    return Population(
        subject.machine, settings.n_chains, beta=settings.beta[0], n_sweeps=settings.n_sweeps,
        target_ess=settings.target_ess or 0.0, **_common(settings, subject, threads),
    )  # fmt: skip


def _exact(settings: SampleSettings, subject: Conditioned, initial: Any, threads: int) -> Any:
    s, machine = settings, subject.machine
    return ExactChains(
        machine, machine.flat_bias if subject.bias is None else subject.bias,
        make_groups(s.engine, s, subject, threads), rng.streams(s.seed, s.n_chains, first=s.first_chain),
        engine=s.engine, threads=threads,
    )  # fmt: skip


SAMPLERS = {
    "gibbs": Row(_chains, OPEN | SINGLE | {"many betas"}, rule="gibbs"),
    "metropolis": Row(_chains, OPEN | SINGLE | {"many betas"}, rule="metropolis"),
    "tempering": Row(_tempered, OPEN | SINGLE | {"rule", "betas", "n_betas", "lowest_beta", "swap_every", "cluster"}),
    "annealing": Row(
        _annealed,
        SINGLE | {"rule", "betas", "lowest_beta", "schedule", "clamp", "initial", "first_chain", "thin"},
        ends=True,
        searches=True,
    ),
    "population-annealing": Row(_population, SINGLE | {"rule", "target_ess", "clamp"}, n_sweeps=10, ends=True),
    "wolff": Row(_clusters, OPEN | {"many betas"}, rule="wolff"),
    "swendsen-wang": Row(_clusters, OPEN | {"many betas"}, rule="swendsen-wang"),
    "exact": Row(
        _exact,
        (OPEN - {"initial"}) | {"many betas", "engine", "max_forecast_seconds", "max_gigabytes"},
        rule="exact",
        relaxes=False,
    ),
}
