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
from ...sampling.chains import couple_chains, make_chains, start_bits
from ...sampling.engine.choice import make_streams, why_not
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
    low, high = slice(first, len(betas) - 1, 2), slice(first + 1, None, 2)
    gain = (betas[high] - betas[low])[:, None] * (energies[high] - energies[low])
    swaps = generator.random(gain.shape) < np.exp(np.minimum(gain, 0.0))
    ones, others = places[low], places[high]
    places[low], places[high] = np.where(swaps, others, ones), np.where(swaps, ones, others)
    return places


def walk_both_ways(
    model: BoltzmannMachine, betas: np.ndarray, up: np.ndarray, seeds: tuple[int, int], threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """Anneal `WALKERS` chains from random states at beta = 0, and as many from states (n, n_units) back to beta = 0.

    Return log weights of both, whose means estimate Z and 1 / Z. Each has a seed, and the steps are taken together.
    """
    units, n_units = model.convention, model.n_units
    bits = start_bits("random", n_units, WALKERS, seeds[0], 0, units), up[np.arange(WALKERS) * len(up) // WALKERS]
    streams = [make_streams("multispin", seed, WALKERS, 0) for seed in seeds]
    ways = np.stack([betas, betas[::-1]])
    chains = couple_chains(
        model.couplings, model.flat_bias, units, np.concatenate(bits), np.concatenate(streams), kernel="multispin",
        beta=np.repeat(ways[:, 0], WALKERS), rule="gibbs", order="sequential", seed=seeds[0], threads=threads,
    )  # fmt: skip
    forth, back = _walk(chains, ways)
    free = n_units * math.log(2.0)
    return forth + free - betas[-1] * model.offset, back - free + betas[-1] * model.offset


def _chains(model: BoltzmannMachine, beta: np.ndarray, seed: int, threads: int) -> Engine:
    return make_chains(model, len(beta), beta=beta, order="sequential", kernel="multispin", seed=seed, threads=threads)


def _walk(chains: Engine, ways: np.ndarray) -> np.ndarray:
    """Weigh at every step of `ways` (n_ways, n) and sweep there; return log weights (n_ways, chains of each)."""

    def go() -> np.ndarray:
        n_ways, n = ways.shape
        log_w, energies = np.zeros((n_ways, chains.n_chains // n_ways)), chains.resample(None, 0)
        for k in range(1, n):
            tell("step", k - 1, n - 1)
            log_w -= (ways[:, k] - ways[:, k - 1])[:, None] * energies.reshape(log_w.shape)
            if k < n - 1:
                chains.set_beta(np.repeat(ways[:, k], log_w.shape[1]))
                energies = chains.resample(None, 1)
        return log_w

    return chains.together(go, 1)
