"""Independent draws from tables of three blocks: a and c from their joint weights, then b given both.

Each is an inversion of cumulative weights (Devroye, Non-Uniform Random Variate Generation, 1986, ch. III.2).
"""

import numpy as np

from .._jit import kernel
from .random import next_word, uniform_of_words


@kernel
def draw_uniforms(streams, uniforms):
    """Fill `uniforms` (n_draws, n_chains, m) with numbers of [0, 1). Mutates `streams` (4, n_chains) too.

    Each takes two words of its chain's stream, the higher first; a chain's draws come one after the other.
    """
    for chain in range(uniforms.shape[1]):
        a, b, c, d = streams[0, chain], streams[1, chain], streams[2, chain], streams[3, chain]
        for draw in range(uniforms.shape[0]):
            for k in range(uniforms.shape[2]):
                high, a, b, c, d = next_word(a, b, c, d)
                low, a, b, c, d = next_word(a, b, c, d)
                uniforms[draw, chain, k] = uniform_of_words(high, low)
        streams[0, chain], streams[1, chain], streams[2, chain], streams[3, chain] = a, b, c, d


@kernel
def find(cumulative, level):
    """Return the first index whose cumulative weight is above `level`, among those of some weight."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > level:
            high = middle
        else:
            low = middle + 1
    while low > 0 and cumulative[low] == cumulative[low - 1]:  # beyond the last weight, by rounding
        low -= 1
    return low


@kernel
def draw_blocks(uniforms, by_a, by_ac, left, right, settings):
    """Write the settings (m, 3) of a, b and c that `uniforms` (m, 3) stand for. Mutates `settings` int64.

    `by_a` (A,) are cumulative weights over a, `by_ac` (A, C) over c in every row, `left` (A, B) is F and `right` (C, B)
    the transpose of G: b has the weights left[a] * right[c].  Cost: two passes over B a draw.
    """
    size = left.shape[1]
    weights = np.empty(size)
    for draw in range(settings.shape[0]):
        a = find(by_a, uniforms[draw, 0] * by_a[-1])
        c = find(by_ac[a], uniforms[draw, 1] * by_ac[a, -1])
        first, second = left[a], right[c]
        for b in range(size):
            weights[b] = first[b] * second[b]
        total = 0.0
        for b in range(size):
            total += weights[b]
            weights[b] = total
        settings[draw, 0], settings[draw, 2] = a, c
        settings[draw, 1] = find(weights, uniforms[draw, 2] * total)
