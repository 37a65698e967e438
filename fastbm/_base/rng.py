"""Where random numbers come from: one stream per chain, and generators keyed by what they are for.

A chain's stream is a function of the seed and the chain's index alone. Generators of site orders and mini-batches are
made anew from (seed, purpose, index), so there is nothing of theirs to store and nothing to lose.
"""

from __future__ import annotations

import secrets

import numpy as np

from . import checks, seeds

(
    CHAINS, INITIAL, ORDERS, BATCHES, SPLIT, STARTS, MODEL, CLAMPED, MONITOR, WORDS, SWAPS, RESAMPLING, PILOT,
    BOOTSTRAP, PAIRS,
) = range(15)  # fmt: skip

FEW = 3  # keys, which take longer side by side than one by one


def resolve(seed: int | None) -> int:
    """Check a seed; None draws one."""
    checked = checks.seed(seed)
    return secrets.randbits(32) if checked is None else checked


def streams(seed: int, n_chains: int, *, first: int = 0, purpose: int = CHAINS) -> np.ndarray:
    """Return one xoshiro128++ state per chain, a (n_chains, 4) uint32 array.

    Row c is ``SeedSequence(seed).spawn(...)[purpose].spawn(...)[first + c]``, so that chains can be run together or
    apart.
    """
    if n_chains > FEW:
        return seeds.states(seed, purpose, np.arange(first, first + n_chains), 4)
    rows = np.empty((n_chains, 4), np.uint32)
    for c in range(n_chains):
        rows[c] = np.random.SeedSequence(seed, spawn_key=(purpose, first + c)).generate_state(4)
    return rows


def random_bytes(seed: int, purpose: int, n_rows: int, n_bytes: int, *, first: int = 0) -> np.ndarray:
    """Return ``keyed(seed, purpose, first + r).bytes(n_bytes)`` for every row r, (n_rows, n_bytes) uint8."""
    if n_rows <= max(FEW, n_bytes // 32):
        words = np.empty((n_rows, -(-n_bytes // 8)), "<u8")
        for r in range(n_rows):
            words[r] = _bits(seed, purpose, first + r).random_raw(words.shape[1])
        return words.view(np.uint8)[:, :n_bytes]
    return seeds.random_bytes(seed, purpose, np.arange(first, first + n_rows), n_bytes)


def uniforms(seed: int, purpose: int, n_rows: int, n: int, *, first: int = 0) -> np.ndarray:
    """Return ``keyed(seed, purpose, first + r).random(n)`` for every row r, (n_rows, n)."""
    words = random_bytes(seed, purpose, n_rows, 8 * n, first=first).view("<u8")
    return (words >> np.uint64(11)) * 2.0**-53


def keyed(seed: int, purpose: int, *index: int) -> np.random.Generator:
    """Return a generator that depends on nothing but its key."""
    return np.random.Generator(_bits(seed, purpose, *index))


def _bits(seed: int, purpose: int, *index: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(purpose, *index)))


def derive(seed: int, *index: int) -> int:
    """Return a seed for a part of a run, independent of the others."""
    return int(np.random.SeedSequence(seed, spawn_key=index).generate_state(1, np.uint64)[0])
