"""Streaming moments of bits: exact integer counts of units, and of pairs of units, that are up together."""

import numpy as np

from .._jit import kernel


@kernel
def count_bits(word):
    """Return the number of set bits of a uint64."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def count_pairs(words, counts):
    """Add, for i <= j, the number of set bits that rows i and j share. Mutates `counts` (n_units, n_units) int64.

    `words` (n_units, n_words) uint64, one bit a chain.
    Invariant: the lower triangle of `counts` is not touched; the diagonal counts the units themselves.
    Cost: n_units^2 n_words / 2 population counts.
    """
    for i in range(words.shape[0]):
        for j in range(i, words.shape[0]):
            total = np.int64(0)
            for k in range(words.shape[1]):
                total += count_bits(words[i, k] & words[j, k])
            counts[i, j] += total
