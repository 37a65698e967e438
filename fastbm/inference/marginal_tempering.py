"""Parallel tempering of one side of a layered machine, from a product model to the machine.

Hukushima and Nemoto, J. Phys. Soc. Jpn. 65, 1604 (1996), doi:10.1143/JPSJ.65.1604. Levels t_k of the path
f_t = f_0^(1 - t) f^t, the other side summed out; neighbours swap with min(1, f_t(x') f_t'(x) / (f_t(x) f_t'(x'))).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from .. import rng
from .marginal import Marginal, MarginalChains


@dataclass(frozen=True)
class Tempered:
    """What a tempering visited at the target.

    Attributes
    ----------
    up : (n_rounds, n_ladders, n_kept) uint8 array
        States of the kept units after every round of the second part.
    round_trips : (n_ladders,) array
    """

    up: np.ndarray
    round_trips: np.ndarray
    swap_rate: float


def temper(
    machine: Marginal,
    base: np.ndarray,
    steps: np.ndarray,
    *,
    n_ladders: int,
    n_rounds: int,
    burn_in: int,
    seed: int,
    threads: int,
) -> Tempered:
    """Run independent ladders from states of the product model; one sweep and one attempt to swap a round."""
    n_levels = len(steps)
    generator = rng.keyed(seed, rng.SWAPS)
    chains = MarginalChains(machine, base, rng.streams(seed, n_ladders * n_levels), threads)
    first = generator.random((chains.n_chains, len(machine.kept))) < expit(base[machine.kept])
    chains.load(first.astype(np.uint8))
    level = np.tile(np.arange(n_levels), (n_ladders, 1))  # of replica r of ladder c
    chains.set_steps(steps[level].ravel())
    end, trips = np.zeros(level.shape, np.int8), np.zeros(n_ladders, np.int64)
    visited, accepted, tried = [], 0, 0
    for t in range(burn_in + n_rounds):
        chains.sweep()
        made, asked = _swap(chains, level, steps, t % 2, generator)
        accepted, tried = accepted + made, tried + asked
        trips += ((level == n_levels - 1) & (end == 1)).sum(axis=1)
        end[level == n_levels - 1], end[level == 0] = 2, np.where(end[level == 0] == 2, 1, end[level == 0])
        if t >= burn_in:
            lanes = np.argmax(level, axis=1) + n_levels * np.arange(n_ladders)
            visited.append(chains.bits()[lanes])
    return Tempered(np.array(visited), trips, accepted / max(tried, 1))


def _swap(
    chains: MarginalChains, level: np.ndarray, steps: np.ndarray, parity: int, generator: np.random.Generator
) -> tuple[int, int]:
    """Try to swap levels `parity` and `parity` + 1, and so on; how many were swapped, of how many. Mutates `level`."""
    n_ladders, n_levels = level.shape
    other = level + np.where((level - parity) % 2 == 0, 1, -1)
    other = np.where((other < 0) | (other >= n_levels), level, other)
    gain = (chains.log_f(steps[other].ravel()) - chains.log_f()).reshape(level.shape)
    replica = np.argsort(level, axis=1)  # at every level
    gain = np.take_along_axis(gain, replica, axis=1)
    pairs = np.arange(parity, n_levels - 1, 2)
    total = gain[:, pairs] + gain[:, pairs + 1]
    swap = np.log(generator.random(total.shape)) < total
    ladders, which = np.nonzero(swap)
    low, high = replica[ladders, pairs[which]], replica[ladders, pairs[which] + 1]
    level[ladders, low], level[ladders, high] = pairs[which] + 1, pairs[which]
    if len(ladders):
        chains.set_steps(steps[level].ravel())
    return len(ladders), swap.size
