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
    Cost: n_chains n_pairs additions.
    """
    for p in range(pairs.shape[1]):
        i, row = pairs[0, p], means[pairs[1, p]]
        even, odd = 0.0, 0.0
        for c in range(0, n_chains, 2):
            word = turned[c // WORD, i] >> np.uint32(c % WORD)
            even += np.float64(row[first + c]) * np.float64(word & np.uint32(1))
            if c + 1 < n_chains:
                odd += np.float64(row[first + c + 1]) * np.float64((word >> np.uint32(1)) & np.uint32(1))
        sums[0, p] += scale * even
        sums[1, p] += scale * odd
