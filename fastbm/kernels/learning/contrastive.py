"""The passes of contrastive divergence on restricted machines, chains in lanes and bits in words of 32.

Between them stand the products of `fastbm.kernels.bits`: fields of one layer from the bits of the other, and <v h> as
the product of visible bits, turned so that a word holds 32 chains, with the means of hidden units.

For the noise of the chains s_i s_j of some pairs is summed over the chains of even and of odd number apart.
"""

from __future__ import annotations

import numpy as np

from ..bits import count_bits
from ..functions import exp_float32
from ..jit import kernel
from ..random import draw_bits, logit_of_bits

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
def write_means(means, fields, first, n_chains, part):
    """Write part * sigmoid(fields) for the first `n_chains` lanes.

    Mutates the columns of `means` (n, all lanes) float32 from `first` on; `fields` is (at least n, lanes) float32.
    Cost: one exponential a unit, vectorised over lanes.
    """
    for i in range(means.shape[0]):
        field, mean = fields[i], means[i][first : first + n_chains]
        for lane in range(n_chains):
            size = exp_float32(-abs(field[lane]))
            up = np.float32(1.0) if field[lane] > 0 else size
            mean[lane] = np.float32(part * np.float32(up / np.float32(np.float32(1.0) + size)))


@kernel
def turn_words(turned, words, n_chains):
    """Turn words of 32 units into words of 32 chains.

    Mutates `turned` (ceil(n_chains / 32), 32 n_words) uint32; `words` is (n_words, at least n_chains).
    Cost: one operation a bit, in vectors.
    """
    turned[:] = 0
    for lane in range(n_chains):
        row, place = turned[lane // WORD], np.uint32(lane % WORD)
        for w in range(words.shape[0]):
            word, target = words[w, lane], row[WORD * w : WORD * (w + 1)]
            for k in range(WORD):
                bit = np.uint32(np.uint32(word >> np.uint32(k)) & np.uint32(1))
                target[k] |= np.uint32(bit << place)


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


@kernel
def sum_words(counts, turned):
    """Count the bits of every unit. Mutates `counts` (n,) int64; `turned` is (n_words, at least n).

    Cost: one operation a bit.
    """
    counts[:] = 0
    for w in range(turned.shape[0]):
        row = turned[w]
        for k in range(WORD):
            for i in range(counts.shape[0]):
                counts[i] += np.int64(np.uint32(row[i] >> np.uint32(k)) & np.uint32(1))


@kernel
def sum_lanes(sums, means, split):
    """Sum every row up to lane `split`, and from there on.

    Mutates `sums` (2, n); `means` is (at least n, lanes) float32, `split` and the lanes multiples of 16.
    Cost: one addition a number, in vectors.
    """
    part = np.empty(16)
    for j in range(sums.shape[1]):
        row = means[j]
        for side in range(2):
            part[:] = 0.0
            for first in range(split if side else 0, row.size if side else split, 16):
                for k in range(16):
                    part[k] += np.float64(row[first + k])
            sums[side, j] = part.sum()


@kernel
def step_couplings(weights, velocity, single, gap, slope, centres, numbers):
    """Take a step of gradient ascent with momentum.

    Mutates `weights` and `velocity` (n_hidden, n_visible) float64, `single` (at least as large) float32, in which beta
    weights are kept, and `gap` float32, to which <v h>_clamped - <v h>_free is added; returns what centring takes from
    the slopes of the visible biases (n_visible,).
    `slope` (at least as large) float32 holds that difference. `centres` are the offsets of hidden and visible units
    and the differences of their means; `numbers` are beta, the learning rate, momentum, l2 and whether to centre.
    Cost: one pass.
    """
    hidden_centre, visible_centre, hidden_gap, visible_gap, hidden_taken = centres
    beta, rate, momentum, l2, centred = numbers
    taken = np.zeros(weights.shape[1])
    for j in range(weights.shape[0]):
        w, v, s, g, d = weights[j], velocity[j], single[j], gap[j], slope[j]
        mine, shift, total = hidden_gap[j], hidden_centre[j], 0.0
        if centred:
            for i in range(weights.shape[1]):
                g[i] += d[i]
                d[i] -= np.float32(mine * visible_centre[i] + shift * visible_gap[i])
                taken[i] += shift * np.float64(d[i])
            for i in range(weights.shape[1]):
                total += np.float64(d[i]) * visible_centre[i]
        else:
            for i in range(weights.shape[1]):
                g[i] += d[i]
        hidden_taken[j] = total
        if momentum:
            for i in range(weights.shape[1]):
                v[i] = momentum * v[i] + rate * (beta * np.float64(d[i]) - l2 * w[i])
                w[i] += v[i]
                s[i] = np.float32(beta * w[i])
        else:  # the memory of velocities, which takes as long to walk as that of weights, is left alone
            for i in range(weights.shape[1]):
                w[i] += rate * (beta * np.float64(d[i]) - l2 * w[i])
                s[i] = np.float32(beta * w[i])
    return taken


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


@kernel
def add_mean_halves(sums, turned, means, pairs, scale, first, n_chains):
    """Add `scale` times the means of second units over the chains whose first unit is up.

    Mutates `sums` (2, n_pairs) float64: row 0 chains of even number, row 1 odd ones.
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
