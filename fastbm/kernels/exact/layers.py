"""Sums over alternate layers: the weight of every state of some units, the others summed in closed form; and draws.

Units of one set are enumerated, and all units that these are coupled to are summed. Given the enumerated state the
log-odds x_j of every other unit j are a part p_j from the high ones of the enumerated units and a part q_j from the low
ones, and its sum is, up to a factor that is linear in the state, exp(p_j) + exp(-q_j): an addition and a multiplication
a state, as both exponentials come from small tables. Products are held as a mantissa and an exponent, so that nothing
overflows. Units of too steep an x_j are summed as max(x_j, 0) + log(1 + exp(-|x_j|)).

Exact draws take a state of the enumerated units by its weight, then the others given it.
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty, zeros
from ..functions import bits_of, exp_float64, number_of
from ..jit import borrowing, inlined, kernel
from ..random import next_word, uniform_of_words

LANES = 64  # low settings of a tile
WIDTH = 8  # units whose factors are multiplied before the product is stored
SUMS = 16  # partial sums over the units
ROWS = 16  # high settings that use a tile's factors while they are in the first-level cache
_LOG2 = 0.6931471805599453
_MANTISSA = np.int64((1 << 52) - 1)
_ONE = np.int64(1023 << 52)


@inlined
def _split(product):
    """Return a positive normal number's mantissa, from 1 to 2, and exponent."""
    bits = bits_of(np.float64(product))
    mantissa = number_of(np.int64((bits & _MANTISSA) | _ONE))
    return mantissa, np.float64(np.int64(bits >> np.int64(52)) - np.int64(1023))


@borrowing
def multiply_factors(mantissas, heights, high, low, groups):
    """Multiply the weight of every state by the factors of all slots. Mutates `mantissas`, `heights` (n_high, n_low).

    `high` (n_high, n_slots) holds exp(p), `low` (n_tiles, n_blocks, WIDTH LANES) exp(-q), slot s in places s % WIDTH
    LANES and on of block s // WIDTH; blocks groups[g] to groups[g + 1] are multiplied without a look at the exponent.
    Invariant: a state's weight is mantissa exp(height), mantissas are from 1 to 2, and no group's product leaves the
    normal numbers.  Cost: one addition and one multiplication a state and slot, in vectors.
    """
    n_high = mantissas.shape[0]
    for tile in range(low.shape[0]):
        start = tile * LANES
        for first in range(0, n_high, ROWS):
            last = min(first + ROWS, n_high)
            for g in range(groups.size - 1):
                for b in range(groups[g], groups[g + 1]):
                    q = low[tile, b]
                    for h in range(first, last):
                        m = mantissas[h, start : start + LANES]
                        p = high[h, b * WIDTH : (b + 1) * WIDTH]
                        p0, p1, p2, p3, p4, p5, p6, p7 = p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]
                        for x in range(LANES):
                            left = ((p0 + q[x]) * (p1 + q[x + 64])) * ((p2 + q[x + 128]) * (p3 + q[x + 192]))
                            right = ((p4 + q[x + 256]) * (p5 + q[x + 320])) * ((p6 + q[x + 384]) * (p7 + q[x + 448]))
                            m[x] *= left * right
                for h in range(first, last):
                    m = mantissas[h, start : start + LANES]
                    t = heights[h, start : start + LANES]
                    for x in range(LANES):
                        m[x], exponent = _split(m[x])
                        t[x] += exponent * _LOG2


@borrowing
def multiply_steep(mantissas, heights, high, low, share):
    """Multiply the weight of every state by exp(share x_j) (1 + exp(x_j)) for all j. Mutates `mantissas`, `heights`.

    x_j = `high` (n_high, n) + `low` (n_tiles, n, LANES).  Invariant: as for `multiply_factors`.  Cost: one exponential
    a state and unit, vectorised.
    """
    for tile in range(low.shape[0]):
        start = tile * LANES
        for h in range(high.shape[0]):
            m = mantissas[h, start : start + LANES]
            t = heights[h, start : start + LANES]
            for j in range(high.shape[1]):
                q, p = low[tile, j], high[h, j]
                for x in range(LANES):
                    odds = p + q[x]
                    m[x] *= 1.0 + exp_float64(-abs(odds))
                    t[x] += max(odds, 0.0) + share * odds
                if j % 512 == 511 or j == high.shape[1] - 1:  # 2^512 is far from overflow
                    for x in range(LANES):
                        m[x], exponent = _split(m[x])
                        t[x] += exponent * _LOG2


@kernel
def fill_conditionals(rows, energies, roots, states, high, low, beta, share):
    """Write probabilities and energies of the units in closed form, for every listed state.

    These are root times the state's bits and P(j up), and mean and variance of the energy. Mutates `rows` (n_states, R
    + n) and `energies` (2, n_states).

    Gaps f_j = `high` (n_high, n) + `low` (n_low, n), row state // n_low and row state % n_low; P(j up) =
    sigmoid(beta f_j), and the unit's energy is -f_j (up + share).  Cost: an exponential and a division a state and
    unit, vectorised.
    """
    n, n_low = high.shape[1], low.shape[0]
    n_bits = rows.shape[1] - n
    terms, sums = zeros((2, (n + SUMS - 1) // SUMS * SUMS), np.float64), empty((2, SUMS), np.float64)
    means, variances, total, spread = terms[0], terms[1], sums[0], sums[1]
    for k in range(states.size):
        state, root = states[k], roots[k]
        p, q, row = high[state // n_low], low[state % n_low], rows[k, n_bits:]
        for i in range(n_bits):
            rows[k, i] = root * np.float64(state >> i & 1)
        for j in range(n):
            gap = p[j] + q[j]
            down = exp_float64(min(-beta * gap, 700.0))
            up = 1.0 / (1.0 + down)
            row[j] = root * up
            means[j] = gap * (up + share)
            variances[j] = (gap * up) * (gap * (down * up))
        # several sums at a time: a single one would be a long chain of additions
        for x in range(SUMS):
            total[x] = 0.0
            spread[x] = 0.0
        for start in range(0, means.size, SUMS):
            for x in range(SUMS):
                total[x] += means[start + x]
                spread[x] += variances[start + x]
        mean, variance = 0.0, 0.0
        for x in range(SUMS):
            mean += total[x]
            variance += spread[x]
        energies[0, k], energies[1, k] = -mean, variance


@kernel
def draw_layers(out, streams, cumulative, low, high, base):
    """Draw states of a layered machine, the enumerated units first.

    Mutates `out` (n_draws, n_chains, R + n) of 0 or 1 and `streams` (4, n_chains).
    `cumulative` (2^R,) sums the weights of the states up to each. Log-odds of the n other units are `base` (n,) + `low`
    (n_low, n), row state % n_low, + row i of `high` for each bit i of state // n_low.  Invariant: a chain's draw takes
    two words of its stream for the state, then two for each other unit.  Cost: R + log2 n_low additions and an
    exponential a unit.
    """
    n, n_low = base.size, low.shape[0]
    n_enumerated = out.shape[2] - n
    total = cumulative[cumulative.size - 1]
    odds, uniforms = empty(n, np.float64), empty(n, np.float64)
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
