"""Where random numbers come from: one stream per chain, and generators keyed by what they are for.

A chain's stream is a function of the seed and the chain's index alone. Generators of site orders and mini-batches are
made anew from (seed, purpose, index), so there is nothing of theirs to store and nothing to lose.
"""

from __future__ import annotations

import secrets

import numpy as np

from . import checks

CHAINS, INITIAL, ORDERS, BATCHES, SPLIT, STARTS, MODEL, CLAMPED, MONITOR, WORDS, SWAPS, RESAMPLING, PILOT, BOOTSTRAP = (
    range(14)
)


def resolve(seed: int | None) -> int:
    """Check a seed; None draws one."""
    checked = checks.seed(seed)
    return secrets.randbits(32) if checked is None else checked


def streams(seed: int, n_chains: int, *, first: int = 0, purpose: int = CHAINS) -> np.ndarray:
    """Return one xoshiro128++ state per chain, a (n_chains, 4) uint32 array.

    Row c is ``SeedSequence(seed).spawn(...)[purpose].spawn(...)[first + c]``, so that chains can be run together or
    apart.
    """
    rows = np.empty((n_chains, 4), np.uint32)
    for c in range(n_chains):
        rows[c] = np.random.SeedSequence(seed, spawn_key=(purpose, first + c)).generate_state(4)
    return rows


def keyed(seed: int, purpose: int, *index: int) -> np.random.Generator:
    """Return a generator that depends on nothing but its key."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose, *index))))


def derive(seed: int, *index: int) -> int:
    """Return a seed for a part of a run, independent of the others."""
    return int(np.random.SeedSequence(seed, spawn_key=index).generate_state(1, np.uint64)[0])
