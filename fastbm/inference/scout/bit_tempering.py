"""Parallel tempering and annealing of chains as bits, by the steps that populations of them take.

Every temperature has words of its own, and a step gives all chains the states of others: of the neighbouring
temperature, where ladders swap.

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604; Neal, Stat. Comput. 11, 125 (2001),
doi:10.1023/A:1008923215028.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._base import rng
from ..._base.steps import tell
from ...machine.machine import BoltzmannMachine
from ...sampling.chains import make_chains
from ...sampling.engine.choice import why_not
from ...sampling.engine.engine import Engine

LADDERS = 64  # which fill the words of a temperature
WALKERS = 512  # chains of a block
MOST_KEPT = 125  # rounds, evenly, whose states are kept
AT_TARGET, AND_BACK = 1, 2  # replicas that were at the target, and have been at the hottest level since
ATTEMPT_SECONDS, STEP_SECONDS = 2.5e-10, 1.2e-4  # of populations, about, and what Python takes for a step


def goes_as_bits(model: BoltzmannMachine) -> bool:
    """Return whether chains of a machine can be bits."""
    beta = np.zeros(LADDERS)
    return not why_not("multispin", model.couplings, model.flat_bias, model.convention, beta, 0)


class Visited(NamedTuple):
    """The states that ladders visited at the target, (LADDERS, n_kept, n_units) uint8, and their energies.

    Energies (LADDERS, n_kept) are without offset; `round_trips` are those of all ladders together.
    """

    up: np.ndarray
    energies: np.ndarray
    round_trips: int


def temper_bits(
    model: BoltzmannMachine, betas: np.ndarray, *, n_rounds: int, burn_in: int, seed: int, threads: int
) -> Visited:
    """Run ladders from random states; a round is a sweep and one attempt to swap, `burn_in` rounds go unseen."""
    n_levels = len(betas)
    engine = _chains(model, np.repeat(betas, LADDERS), seed, threads)
    target = np.arange((n_levels - 1) * LADDERS, n_levels * LADDERS)
    generator = rng.keyed(seed, rng.SWAPS)
    kept = set(np.linspace(burn_in, burn_in + n_rounds - 1, min(n_rounds, MOST_KEPT)).astype(np.int64).tolist())

    def climb() -> Visited:
        packed, energies, end, n_trips = [], [], np.zeros((n_levels, LADDERS), np.uint8), 0
        parents: np.ndarray | None = None
        for t in range(burn_in + n_rounds):
            tell("round of a look around", t, burn_in + n_rounds)
            found = engine.resample(parents, 1).reshape(n_levels, LADDERS)
            if t in kept:
                packed.append(engine.packed(target))
                energies.append(found[-1])
            places = swapped(found, betas, t % 2, generator)
            end, parents = end.ravel()[places], places.ravel()
            end[0][end[0] == AT_TARGET] = AND_BACK
            n_trips += int((end[-1] == AND_BACK).sum())
            end[-1] = AT_TARGET
        up = np.unpackbits(np.stack(packed, axis=1), axis=2, count=model.n_units, bitorder="little")
        return Visited(up, np.stack(energies, axis=1), n_trips)

    return engine.together(climb, 1)


def swapped(energies: np.ndarray, betas: np.ndarray, first: int, generator: np.random.Generator) -> np.ndarray:
    """Return where states at every level and ladder come from, (n_levels, n_ladders), after an attempt to swap.

    `energies` have the same shape; levels first and first + 1, first + 2 and first + 3, ... swap with probability
    min(1, exp((beta' - beta) (E' - E))).
    """
    places = np.arange(energies.size).reshape(energies.shape)
    low = np.arange(first, len(betas) - 1, 2)
    gain = (betas[low + 1] - betas[low])[:, None] * (energies[low + 1] - energies[low])
    swaps = generator.random(gain.shape) < np.exp(np.minimum(gain, 0.0))
    ones, others = places[low], places[low + 1]
    places[low], places[low + 1] = np.where(swaps, others, ones), np.where(swaps, ones, others)
    return places


def walk_up(model: BoltzmannMachine, betas: np.ndarray, seed: int, threads: int) -> np.ndarray:
    """Anneal `WALKERS` chains from random states at beta = 0; return log weights, whose mean estimates Z."""
    log_w = _walk(_chains(model, np.zeros(WALKERS), seed, threads), betas)
    found: np.ndarray = log_w + model.n_units * math.log(2.0) - betas[-1] * model.offset
    return found


def walk_down(model: BoltzmannMachine, betas: np.ndarray, up: np.ndarray, seed: int, threads: int) -> np.ndarray:
    """Anneal states (n, n_units) of the machine back to beta = 0; return log weights, whose mean estimates 1 / Z."""
    chains = _chains(model, np.full(WALKERS, betas[-1]), seed, threads)
    chains.load_bits(up[np.arange(WALKERS) * len(up) // WALKERS])
    found: np.ndarray = _walk(chains, betas[::-1]) - model.n_units * math.log(2.0) + betas[-1] * model.offset
    return found


def _chains(model: BoltzmannMachine, beta: np.ndarray, seed: int, threads: int) -> Engine:
    return make_chains(model, len(beta), beta=beta, order="sequential", kernel="multispin", seed=seed, threads=threads)


def _walk(chains: Engine, betas: np.ndarray) -> np.ndarray:
    """Weigh at every step of `betas` and sweep there; return log weights (n_chains,)."""

    def go() -> np.ndarray:
        log_w, energies = np.zeros(chains.n_chains), chains.resample(None, 0)
        for k in range(1, len(betas)):
            tell("step", k - 1, len(betas) - 1)
            log_w -= (betas[k] - betas[k - 1]) * energies
            if k < len(betas) - 1:
                chains.set_beta(np.full(chains.n_chains, betas[k]))
                energies = chains.resample(None, 1)
        return log_w

    return chains.together(go, 1)
