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
from ..._base.steps import SOON, tell
from ...machine.machine import BoltzmannMachine
from ...sampling.chains import couple_chains, make_chains, start_bits
from ...sampling.engine.choice import make_streams, why_not
from ...sampling.engine.engine import Engine
from ...sampling.engine.multispin import MultispinChains

LADDERS = 64  # which fill the words of a temperature
WALKERS = 512  # chains of a block
MOST_UNITS = 1 << 16  # of more, a call for one round would not soon be over
MOST_KEPT = 125  # rounds, evenly, whose states are kept
ATTEMPT_SECONDS, STEP_SECONDS = 2.5e-10, 1.2e-4  # of populations, about, and what a step is granted beside them
CHAIN_SECONDS = 6e-8  # that a chain of a ladder takes at most to be copied and swapped


def goes_as_bits(model: BoltzmannMachine) -> bool:
    """Return whether chains of a machine can be bits, and sweeps of a block of them are soon done."""
    beta = np.zeros(LADDERS)
    fits = model.n_units <= MOST_UNITS
    return fits and not why_not("multispin", model.couplings, model.flat_bias, model.convention, beta, 0)


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
    n_levels, last = len(betas), burn_in + n_rounds
    engine = _chains(model, np.repeat(betas, LADDERS), seed, threads)
    assert isinstance(engine, MultispinChains)
    generator = rng.keyed(seed, rng.SWAPS)
    kept = np.linspace(burn_in, last - 1, min(n_rounds, MOST_KEPT)).astype(np.int64)
    slots = np.full(last, -1)
    slots[kept] = np.arange(len(kept))
    ends, counts = np.zeros((n_levels, LADDERS), np.uint8), np.zeros(3, np.int64)
    n_words = engine.row_words
    rows, totals = np.empty((len(kept), LADDERS, n_words), np.uint32), np.empty((len(kept), LADDERS), np.int64)
    each = n_levels * LADDERS * (model.n_units * ATTEMPT_SECONDS + CHAIN_SECONDS)
    piece = max(1, int(SOON / each))

    def climb() -> None:
        for first in range(0, last, piece):
            tell("round of a look around", first, last)
            n = min(piece, last - first)
            n_pairs = sum((n_levels - t % 2) // 2 for t in range(first, first + n))
            counts[1] = 0
            steps = np.diff(betas) * engine.energy_step, generator.random(n_pairs * LADDERS)
            engine.climb((*steps, ends, counts, slots, rows, totals), n)

    engine.together(climb, 1)
    packed = rows.swapaxes(0, 1).astype("<u4").view(np.uint8)
    up = np.unpackbits(packed, axis=2, count=model.n_units, bitorder="little")
    return Visited(up, engine.energies_of(totals.T), int(counts[2]))


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
