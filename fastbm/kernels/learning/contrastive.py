"""Pieces of contrastive divergence on restricted machines, chains in lanes and bits in words of 32 units.

For the noise of the chains s_i s_j of some pairs is summed over the chains of even and of odd number apart.
"""

from __future__ import annotations

import numpy as np

from ..bits import add_plainly, add_with_rows, count_bits
from ..jit import kernel
from ..random import draw_bits, logit_of_bits
from ..vectors import has_look_up

WORD = 32


@kernel
def draw_words(words, fields, streams, n):
    """Draw the first `n` units of a layer from their log-odds `fields` (at least n, lanes) float32.

    Mutates `words` (ceil(n / 32), lanes) uint32 and `streams` (4, lanes).
    Invariant: bits beyond the first `n` are 0.  Cost: one draw a unit, vectorised over lanes.
    """
    bits = np.empty(fields.shape[1], np.uint32)
    words[:] = 0
    for i in range(n):
        draw_bits(streams, bits)
        field, row, place = fields[i], words[i // WORD], np.uint32(i % WORD)
        for lane in range(fields.shape[1]):
            up = np.uint32(field[lane] > logit_of_bits(bits[lane]))
            row[lane] |= np.uint32(up << place)


@kernel
def unpack_words(bits, words):
    """Write 1 where a bit is set and 0 elsewhere.

    Mutates `bits` (32 n_words, lanes) float32; `words` is (n_words, lanes).
    Cost: one pass over `bits`.
    """
    for i in range(bits.shape[0]):
        row, place, target = words[i // WORD], np.uint32(i % WORD), bits[i]
        for lane in range(bits.shape[1]):
            target[lane] = np.float32(np.int32(np.uint32(row[lane] >> place) & np.uint32(1)))


if has_look_up():

    @kernel
    def add_hidden(fields, weights, words, masks):
        """Add rows of `weights` (n, m) whose bits are set in `words` (n / 32, lanes). Mutates `fields` (m, lanes).

        Lanes come in sixteens, m in fours; `masks` is `fastbm.kernels.bits.MASKS`.
        """
        add_with_rows(fields, weights, words, masks)

else:

    @kernel
    def add_hidden(fields, weights, words, masks):
        """Do the same, with the same bits, by products."""
        bits = np.empty((WORD * len(words), words.shape[1]), np.float32)
        unpack_words(bits, words)
        add_plainly(fields, weights, bits, 0)


EVEN = np.uint64(0x5555555555555555)
ODD = np.uint64(0xAAAAAAAAAAAAAAAA)


@kernel
def count_halves(counts, words, pairs, differ):
    """Count the chains whose two units are both up, or with `differ` unlike.

    Mutates `counts` (2, n_pairs) int64: row 0 chains of even number, row 1 odd ones.
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
    """Add products of values (n_chains, n_units) float32.

    Mutates `sums` (2, n_pairs) float64: row 0 chains of even number, row 1 odd ones.
    `pairs` is (2, n_pairs) int64.
    Cost: n_chains n_pairs products.
    """
    for c in range(values.shape[0]):
        row, half = values[c], sums[c % 2]
        for p in range(pairs.shape[1]):
            half[p] += np.float64(row[pairs[0, p]]) * np.float64(row[pairs[1, p]])
