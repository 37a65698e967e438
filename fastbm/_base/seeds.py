"""Seeds of many chains at once: what NumPy's `SeedSequence` and `PCG64` give one key at a time, for arrays of keys.

O'Neill, HMC-CS-2014-0905 (2014); the hash of seeds: O'Neill, "Developing a seed_seq alternative" (2015), as
`numpy.random.SeedSequence` has it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

POOL = 4  # words
INIT_A, MULT_A, INIT_B, MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
MIX_LEFT, MIX_RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
LOW = np.uint64(0xFFFFFFFF)
MULTIPLIER = 2549297995355413924 << 64 | 4865540595714422341  # of PCG64
TOGETHER = 1 << 14  # states that are made in one pass, and stay in the cache

Words = tuple[np.ndarray, np.ndarray]


@lru_cache(maxsize=64)
def _constants(initial: int, factor: int, start: int, count: int) -> np.ndarray:
    """Return constants of calls `start` to `start + count` of a hash, (2, count, 1) uint32.

    They are what a word is mixed with, and multiplied by.
    """
    powers = [initial * pow(factor, start + k, 1 << 32) % (1 << 32) for k in range(count + 1)]
    return np.array([powers[:-1], powers[1:]], np.uint32)[:, :, None]


def _hashed(words: np.ndarray, constants: np.ndarray) -> np.ndarray:
    found = (words ^ constants[0]) * constants[1]
    return np.asarray(found ^ (found >> np.uint32(16)))


def states(seed: int, purpose: int, index: np.ndarray, n_words: int) -> np.ndarray:
    """Return ``SeedSequence(seed, spawn_key=(purpose, i)).generate_state(n_words)`` for every i of `index`.

    Parameters
    ----------
    index : (n,) array of int
        At least 0 and below 2^32.
    n_words : int
        A multiple of 4.

    Returns
    -------
    (n, n_words) uint32 array
    """
    pool = np.random.SeedSequence(seed, spawn_key=(purpose,)).pool
    n_before = max(POOL, -(-seed.bit_length() // 32)) + 1  # words that are in the pool
    start = POOL + POOL * (POOL - 1) + POOL * (n_before - POOL)
    hashed = _hashed(np.asarray(index, np.uint32), _constants(INIT_A, MULT_A, start, POOL))
    mixed: np.ndarray = MIX_LEFT * pool[:, None] - MIX_RIGHT * hashed
    mixed = np.bitwise_xor(mixed, mixed >> np.uint32(16))
    words = _hashed(mixed, _constants(INIT_B, MULT_B, 0, n_words).reshape(2, -1, POOL, 1))
    return np.ascontiguousarray(words.reshape(n_words, -1).T)


def _times(a: np.ndarray, b: np.ndarray | np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Multiply words of 64 bits; return the high and the low word."""
    shift = np.uint64(32)
    a0, a1, b0, b1 = a & LOW, a >> shift, b & LOW, b >> shift
    middle = a1 * b0 + (a0 * b0 >> shift)
    other = a0 * b1 + (middle & LOW)
    return a1 * b1 + (middle >> shift) + (other >> shift), a * b


def _scaled(words: Words, factor: int) -> Words:
    """Multiply numbers of 128 bits, of a high and a low word, by one below 2^128."""
    high, low = words
    factor_high, factor_low = np.uint64(factor >> 64), np.uint64(factor & (2**64 - 1))
    product_high, product_low = _times(low, factor_low)
    return product_high + high * factor_low + low * factor_high, product_low


def _added(one: Words, other: Words) -> Words:
    """Add numbers of 128 bits."""
    low = one[1] + other[1]
    return one[0] + other[0] + (low < one[1]).astype(np.uint64), low


def random_bytes(seed: int, purpose: int, index: np.ndarray, n_bytes: int) -> np.ndarray:
    """Return ``Generator(PCG64(SeedSequence(seed, spawn_key=(purpose, i)))).bytes(n_bytes)`` for every i of `index`.

    Returns
    -------
    (n, n_bytes) uint8 array

    Notes
    -----
    A step takes a state s to a s + c, c being its increment; n steps to a^n s + (1 + a + ... + a^(n - 1)) c. So one
    half of the steps of a block is made of the other in one pass, and a block of the one before.
    """
    words = states(seed, purpose, index, 8).view(np.uint64)
    start_high, start_low, inc_high, inc_low = words.T
    one = np.uint64(1)
    inc = (inc_high << one) | (inc_low >> np.uint64(63)), (inc_low << one) | one
    state = _added(inc, (start_high, start_low))  # a step from 0 leads to the increment
    for _ in range(2):
        state = _added(_scaled(state, MULTIPLIER), inc)
    found, n_steps, factor, total = [part[None] for part in state], 1, MULTIPLIER, 1
    drawn = np.empty((len(words), -(-n_bytes // 8)), "<u8")
    while n_steps < drawn.shape[1] and n_steps * len(words) < TOGETHER:
        later = _added(_scaled((found[0], found[1]), factor), _scaled(inc, total))
        found = [np.concatenate(halves) for halves in zip(found, later, strict=True)]
        n_steps, factor, total = 2 * n_steps, factor**2 % 2**128, total * (1 + factor) % 2**128
    high, low = found
    for first in range(0, drawn.shape[1], n_steps):
        if first:
            high, low = _added(_scaled((high, low), factor), _scaled(inc, total))
        turn, value = high >> np.uint64(58), high ^ low
        value = (value >> turn) | (value << ((np.uint64(64) - turn) & np.uint64(63)))
        drawn[:, first : first + n_steps] = value[: drawn.shape[1] - first].T
    return drawn.view(np.uint8)[:, :n_bytes]
