"""Random words of one chain alone, for updates that draw as many of them as the state asks for."""

import numpy as np

from .._jit import inlined, kernel
from .random import next_word


@kernel
def draw_word(stream):
    """Advance one stream by one step and return its 32 bits, those that `draw_bits` gives. Mutates `stream`.

    Invariant: `stream` (4,) uint32 is never all zero.
    Cost: 12 integer operations.
    """
    word, stream[0], stream[1], stream[2], stream[3] = next_word(stream[0], stream[1], stream[2], stream[3])
    return word


@inlined
def next_below(cut, a, b, c, d):
    """Whether a random 64-bit number is below `cut` (uint64), true with probability cut / 2^64; and the stream's state
    after it.

    Invariant: the lower half is drawn only where the upper one ties, once in 2^32 times.
    Cost: one word.
    """
    upper = np.uint32(cut >> np.uint64(32))
    word, a, b, c, d = next_word(a, b, c, d)
    below = word < upper
    if word == upper:
        word, a, b, c, d = next_word(a, b, c, d)
        below = word < np.uint32(cut & np.uint64(0xFFFFFFFF))
    return below, a, b, c, d


@kernel
def draw_index(stream, n):
    """A random number from 0 to n - 1, uniform to n / 2^32, and the word that it came from. Mutates `stream`.

    Invariant: n is from 1 to 2^32.
    Cost: one word.
    """
    word = draw_word(stream)
    return np.int64((np.uint64(word) * np.uint64(n)) >> np.uint64(32)), word
