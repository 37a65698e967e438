"""Sums of s_i s_j of some pairs over the chains of even and of odd number apart."""

import numpy as np

from .._jit import kernel
from .moments import count_bits

EVEN = np.uint64(0x5555555555555555)
ODD = np.uint64(0xAAAAAAAAAAAAAAAA)
WORD = 32


@kernel
def count_halves(counts, words, pairs, differ):
    """Count the chains whose two units are both up, or with `differ` unlike. Mutates `counts` (2, n_pairs) int64: row 0
    chains of even number, row 1 odd ones.

    `words` (n_units, n_words) uint64 hold 64 chains each, chain 0 in the lowest bit, and zeros beyond the last;
    `pairs` is (2, n_pairs) int64.
    Cost: 2 n_pairs n_words population counts.
    """
    for p in range(pairs.shape[1]):
        first, second = words[pairs[0, p]], words[pairs[1, p]]
        for w in range(words.shape[1]):
            word = first[w] ^ second[w] if differ else first[w] & second[w]
            counts[0, p] += count_bits(word & EVEN)
            counts[1, p] += count_bits(word & ODD)


@kernel
def add_halves(sums, values, pairs):
    """Add products of values (n_chains, n_units) float32. Mutates `sums` (2, n_pairs) float64: row 0 chains of even
    number, row 1 odd ones.

    `pairs` is (2, n_pairs) int64.
    Cost: n_chains n_pairs products.
    """
    for c in range(values.shape[0]):
        row, half = values[c], sums[c % 2]
        for p in range(pairs.shape[1]):
            half[p] += np.float64(row[pairs[0, p]]) * np.float64(row[pairs[1, p]])


@kernel
def add_mean_halves(sums, turned, means, pairs, scale, first, n_chains):
    """Add `scale` times the means of second units over the chains whose first unit is up. Mutates `sums` (2, n_pairs)
    float64: row 0 chains of even number, row 1 odd ones.

    `turned` (n_words, at least n_first) uint32 hold 32 chains each; `means` (n_second, at least first + n_chains)
    float32 those of chain c in column first + c; `pairs` (2, n_pairs) int64 rows of both.
    Cost: n_chains n_pairs additions, in vectors.
    """
    part = np.empty(WORD)
    for p in range(pairs.shape[1]):
        row = means[pairs[1, p]][first : first + n_chains]
        part[:] = 0.0
        for w in range(0, n_chains, WORD):
            word, some = turned[w // WORD, pairs[0, p]], row[w : w + WORD]
            for k in range(some.size):
                bit = np.int32(np.uint32(word >> np.uint32(k)) & np.uint32(1))
                part[k] += np.float64(some[k]) * np.float64(bit)
        even, odd = 0.0, 0.0
        for k in range(0, WORD, 2):
            even += part[k]
            odd += part[k + 1]
        sums[0, p] += scale * even
        sums[1, p] += scale * odd
