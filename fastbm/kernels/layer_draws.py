"""Exact draws from a layered machine: a state of the enumerated units by its weight, then the others given it."""

import numpy as np

from .._jit import kernel
from .functions import exp_float64
from .random import next_word, uniform_of_words


@kernel
def draw_layers(out, streams, cumulative, low, high, base):
    """Draw states. Mutates `out` (n_draws, n_chains, R + n) of 0 or 1, enumerated units first, and `streams`
    (4, n_chains).

    `cumulative` (2^R,) sums the weights of the states up to each. Log-odds of the n other units are `base` (n,) + `low`
    (n_low, n), row state % n_low, + row i of `high` for each bit i of state // n_low.  Invariant: a chain's draw takes
    two words of its stream for the state, then two for each other unit.  Cost: R + log2 n_low additions and an
    exponential a unit.
    """
    n, n_low = base.size, low.shape[0]
    n_enumerated = out.shape[2] - n
    total = cumulative[cumulative.size - 1]
    odds, uniforms = np.empty(n), np.empty(n)
    for c in range(out.shape[1]):
        s0, s1, s2, s3 = streams[0, c], streams[1, c], streams[2, c], streams[3, c]
        for t in range(out.shape[0]):
            first, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
            second, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
            target = uniform_of_words(first, second) * total
            below, above = 0, cumulative.size - 1  # the first state whose sum exceeds the target, the last at most
            while below < above:
                middle = (below + above) // 2
                if cumulative[middle] > target:
                    above = middle
                else:
                    below = middle + 1
            row = out[t, c]
            for i in range(n_enumerated):
                row[i] = below >> i & 1
            part = low[below % n_low]
            for j in range(n):
                odds[j] = base[j] + part[j]
            for i in range(high.shape[0]):
                if (below // n_low) >> i & 1:
                    part = high[i]
                    for j in range(n):
                        odds[j] += part[j]
            for j in range(n):
                first, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
                second, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
                uniforms[j] = uniform_of_words(first, second)
            for j in range(n):
                up = 1.0 / (1.0 + exp_float64(min(-odds[j], 700.0)))
                row[n_enumerated + j] = 1 if uniforms[j] < up else 0
        streams[0, c], streams[1, c], streams[2, c], streams[3, c] = s0, s1, s2, s3
