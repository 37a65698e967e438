"""Chains for a machine, and the checks of what they are asked to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base import checks, rng, threads as threads_module
from ..machine.couplings import Couplings
from ..machine.machine import BoltzmannMachine
from ..machine.units import Units
from .engine.choice import KERNELS, chains_of_state, check_kernel, choose_kernel, make_streams, natural_kernel
from .engine.engine import Engine as Chains
from .engine.lanes import WORTH_A_THREAD
from .engine.orders import ORDERS

NEARLY_FREE = 0.05  # log-odds of a unit below which a Metropolis proposal is nearly always accepted
FEW_MAGNITUDES = 4  # distinct couplings up to which local fields often cancel
LOOKED_AT = 4096  # couplings whose magnitudes are found at once
RULES = ("gibbs", "metropolis")
ATTEMPT, NEIGHBOUR = 5e-10, 5e-11  # seconds an update takes, and more for each neighbour


def resolve_order(order: str | None, rule: str) -> str:
    """Return the order of updates; by default sequential for Gibbs and random for Metropolis.

    Metropolis dynamics accepts every proposal that costs no energy. In an order that visits each unit once a sweep,
    free units then flip at every sweep and the chain is periodic; random order is safe.
    """
    if order is None:
        return "random" if rule == "metropolis" else "sequential"
    return checks.choice("order", order, ORDERS)


def check_beta(beta: Any, n_chains: int) -> np.ndarray:
    """Return the inverse temperature of each chain: of several, equal groups of consecutive chains get one each."""
    values = check_betas(beta, n_chains)
    return values.repeat(n_chains // len(values))


def check_betas(beta: Any, n_chains: int) -> np.ndarray:
    """Check an inverse temperature, or several; nothing is made for each chain, which may be more than memory holds."""
    values = np.atleast_1d(checks.finite_array("beta", beta))
    if values.ndim != 1 or not values.size or n_chains % len(values):
        raise ValueError(
            f"beta must be one number, or a list whose length divides n_chains ({n_chains}); got shape {values.shape}."
        )
    if values.min() < 0:
        raise ValueError(f"beta must be at least 0; got {values.min():g}.")
    return values


def make_chains(
    model: BoltzmannMachine,
    n_chains: int,
    *,
    rule: str = "gibbs",
    order: str | None = None,
    kernel: str | None = None,
    beta: Any = 1.0,
    seed: int = 0,
    initial: Any = "random",
    threads: int | None = None,
    first_chain: int = 0,
    bias: np.ndarray | None = None,
    highest_beta: float | None = None,
    **of_engine: Any,
) -> Chains:
    """Return chains of `model`, checked and ready to sweep.

    `kernel` is the fastest one unless given; `bias`, trusted, replaces that of the model, (n_chains, n_units);
    `highest_beta` is the largest that `set_beta` will be told, of chains that do not stay at one temperature;
    `of_engine` are further settings of `Engine`.
    """
    n_chains = checks.whole("n_chains", n_chains, least=1)
    rule = checks.choice("sampler", rule, RULES)
    chosen = resolve_order(order, rule)
    betas = check_beta(beta, n_chains)
    bias = model.flat_bias if bias is None else bias
    machine = (model.couplings, bias, model.convention)
    if kernel is None:
        kernel = choose_kernel(*machine, beta=betas, order=chosen, first_chain=first_chain)
    else:
        kernel = check_kernel(kernel, *machine, beta=betas, order=chosen, first_chain=first_chain)
    return start_chains(
        model, bias, betas, rule=rule, order=chosen, kernel=kernel, seed=seed, initial=initial,
        threads=threads_module.resolve(threads), first_chain=first_chain, highest_beta=highest_beta, **of_engine,
    )  # fmt: skip


def kernel_of_many(model: BoltzmannMachine, n_chains: int, beta: float, order: str, lookup_from: int | None) -> str:
    """Return the fastest kernel for chains of one temperature; `lookup_from` as for `choose_kernel`."""
    machine = (model.couplings, model.flat_bias, model.convention)
    return choose_kernel(*machine, beta=np.full(n_chains, beta), order=order, lookup_from=lookup_from)


def start_chains(
    model: BoltzmannMachine, bias: np.ndarray, beta: np.ndarray, *, rule: str, order: str, kernel: str, seed: int,
    initial: Any, threads: int, first_chain: int, highest_beta: float | None, **of_engine: Any,
) -> Chains:  # fmt: skip
    """Return chains, one for each of `beta` (n_chains,), of arguments that `make_chains` would have checked.

    Whether they are swept `one_by_one`, one of the engine's settings, changes no bit and depends on how many there are
    unless given.
    """
    return couple_chains(
        model.couplings,
        bias,
        model.convention,
        start_bits(
            initial,
            model.n_units,
            len(beta),
            seed,
            first_chain,
            model.convention,
            n_all=chains_of_state(kernel, len(beta)),
        ),
        make_streams(kernel, seed, len(beta), first_chain),
        kernel=kernel,
        beta=beta,
        rule=rule,
        order=order,
        seed=seed,
        threads=threads,
        highest_beta=highest_beta,
        **of_engine,
    )


def threads_between(
    model: BoltzmannMachine, n_chains: int, n_sweeps: int, threads: int | None, worth: float = WORTH_A_THREAD
) -> int:
    """Return the threads for chains that never sweep more often than this in one call.

    Such sweeps may be over sooner than blocks are handed out, in less than `worth` seconds; then there is one block, as
    one thread is to have.
    """
    couplings = model.couplings
    return threads_for(n_sweeps * n_chains, couplings.n_units, couplings.n_entries, threads, worth)


def threads_for(n_sweeps: int, n_units: int, n_entries: int, threads: int | None, worth: float = WORTH_A_THREAD) -> int:
    """Return the threads for so many sweeps of one chain in one call, as `threads_between`."""
    seconds = n_sweeps * sweep_seconds(n_units, n_entries)
    return 1 if seconds < worth else threads_module.resolve(threads)


def sweep_seconds(n_units: int, n_entries: int) -> float:
    """Estimate how long a sweep of one chain among many takes, by the built-in speeds."""
    return ATTEMPT * n_units + NEIGHBOUR * n_entries


def couple_chains(
    couplings: Couplings,
    bias: np.ndarray,
    units: Units,
    up: np.ndarray,
    streams: np.ndarray,
    *,
    kernel: str | None = None,
    **settings: Any,
) -> Chains:
    """Return chains for trusted couplings and biases (one vector, or one per chain)."""
    kind = KERNELS[natural_kernel(couplings, settings["order"]) if kernel is None else kernel]
    chains = kind(units, up, streams, **settings)
    chains.couple(couplings, bias)
    return chains


def warn_if_periodic(model: BoltzmannMachine, *, rule: str, order: str, beta: float) -> str:
    """Warn of what `why_periodic` returns, and return it."""
    if why := why_periodic(model, rule=rule, order=order, beta=beta):
        checks.warn(f'{why}. Use order="random", or Gibbs updates.', UserWarning)
    return why


def why_periodic(model: BoltzmannMachine, *, rule: str, order: str, beta: float) -> str:
    """Return why chains at one temperature may be periodic or not reach all states; empty where they are safe.

    Metropolis updates accept flips that cost nothing at every visit: a sweep that visits each unit once then leads in
    circles.
    """
    if rule != "metropolis" or order == "random":
        return ""
    strongest = model.couplings.absolute_sums() + np.abs(model.flat_bias)
    free = int((beta * model.convention.span * strongest < NEARLY_FREE).sum())
    if free:
        why = f"{free} of {model.n_units} units are nearly free at beta = {beta:g}"
    elif order in ("sequential", "coloured") and _have_few_magnitudes(model.couplings):
        why = "with these couplings many flips cost nothing"
    else:
        return ""
    return (
        f"{why}: Metropolis updates in {order} order accept them at every sweep, and the chain may be periodic or "
        "never reach some states"
    )


def _have_few_magnitudes(couplings: Couplings) -> bool:
    """Return whether couplings beside 0 have few magnitudes; nothing is looked at past where they have more."""
    found: set[float] = set()
    for array in couplings.arrays:
        values = array.reshape(-1)
        for first in range(0, len(values), LOOKED_AT):
            found.update(np.unique(np.abs(values[first : first + LOOKED_AT])).tolist())
            if len(found - {0.0}) > FEW_MAGNITUDES:
                return False
    return bool(found - {0.0})


def start_bits(
    initial: Any, n_units: int, n_chains: int, seed: int, first_chain: int, units: Units, n_all: int | None = None
) -> np.ndarray:
    """Return the bits that the chains start from: random, all up, or given states, and those of the last ones beyond.

    They are (n_all, n_units), `n_all` being `n_chains` unless given.
    """
    n_all = n_chains if n_all is None else n_all
    if isinstance(initial, str) and initial == "up":
        return np.broadcast_to(np.uint8(1), (n_all, n_units))
    if isinstance(initial, str) and initial == "random":
        packed = rng.random_bytes(seed, rng.INITIAL, n_all, -(-n_units // 8), first=first_chain)
        return np.unpackbits(packed, axis=1, count=n_units, bitorder="little")
    if isinstance(initial, str):
        raise ValueError(f'initial must be "random", "up" or an array of states; got {initial!r}.')
    states = checks.any_array("initial", initial)
    if states.shape not in ((n_units,), (n_chains, n_units)):
        raise ValueError(f"initial must have shape ({n_chains}, {n_units}) or ({n_units},); got {states.shape}.")
    bits = np.broadcast_to(units.bits("initial", states), (n_chains, n_units))
    return bits if n_all == n_chains else np.concatenate([bits, bits[-1:].repeat(n_all - n_chains, axis=0)])
