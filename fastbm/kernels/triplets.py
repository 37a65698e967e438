"""How often three units are up together: exact integer counts from bits packed into words."""

import numpy as np

from .._jit import kernel
from .moments import count_bits


@kernel
def count_triples(words, triples, counts):
    """Add the number of set bits that the rows of each triple share. Mutates `counts` (n_triples,) int64.

    `words` (n_units, n_words) uint64, one bit a state; `triples` (n_triples, 3) int64, any units in any order.
    Invariant: what is added for a triple does not depend on the others; triples with the same first two units in a row
    share the intersection of these.
    Cost: n_triples n_words population counts.
    """
    n_words = words.shape[1]
    both = np.empty(n_words, np.uint64)
    first, second = np.int64(-1), np.int64(-1)
    for t in range(triples.shape[0]):
        i, j, k = triples[t, 0], triples[t, 1], triples[t, 2]
        if i != first or j != second:
            first, second = i, j
            for w in range(n_words):
                both[w] = words[i, w] & words[j, w]
        total = np.int64(0)
        third = words[k]
        for w in range(n_words):
            total += count_bits(both[w] & third[w])
        counts[t] += total
