"""Variable elimination in the log domain: units are summed out one after the other, and drawn in the reverse order.

Step k sums out unit v. Its clique is v and the scope S of units that are eliminated later; the message is

    m(y) = log sum_x exp(x (f_v + sum_{j in S} r_vj y_j) + sum over children c of m_c(x, y)),   x, y_j in {0, 1},

where the children are the steps whose first unit to be eliminated next is v. Scopes are sorted by the order of
elimination: bit b of an index of a message is unit b of its scope, so that v is bit 0 of all its children's messages.
Every message is referred to its entry 0, so that messages do not grow with the number of units; log Z is the sum of
those entries. The chances P(v up | S) that are left behind give independent states: each unit is drawn given its scope.

A program is (steps, places, values). Row k of `steps` (n_steps, 6) int64 holds START, WIDTH, CHILD, SIBLING, MESSAGE
and CHANCE: where its clique stands in the flat arrays, the size of its scope, its first child and the next child of its
parent (-1: none), and where its message and its chances stand in theirs. At START of `values` stands the bias of v, at
START + 1 + b its coupling to unit b of the scope; at START + 1 + b of `places` how often unit b of the scope was found
in the parent's clique: 0 for the parent's own unit, 1 + its bit for one of the parent's scope.

Dechter, Artif. Intell. 113, 41 (1999), doi:10.1016/S0004-3702(99)00059-4; Lauritzen and Spiegelhalter, J. R. Stat. Soc.
B 50, 157 (1988), doi:10.1111/j.2517-6161.1988.tb01721.x.
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty
from ..functions import exp_float64, log1p_float64
from ..jit import kernel
from ..random import next_word, uniform_of_words

START, WIDTH, CHILD, SIBLING, MESSAGE, CHANCE = range(6)
LOW = 10  # bits of an index that vary within a block: what is computed of a block stays in the L1 cache


@kernel
def tabulate_linear(linear, values, first, low):
    """Write the sums of values[first + b] over the bits b of the index, for `low` bits. Mutates `linear`."""
    linear[0] = 0.0
    for bit in range(low):
        half = 1 << bit
        for x in range(half):
            linear[half + x] = linear[x] + values[first + bit]


@kernel
def tabulate_index(index, places, first, width, block, low):
    """Find a child's entries of one block of its parent's scope, with the parent's own unit down.

    Return whether they are every second one of a run that starts at index[0]. Mutates `index`.
    `places` [first + 1, first + width) holds the places of all but the first unit of the child's scope.
    Cost: O(width), and an addition an entry where they are no run.
    """
    bit, base = 1, 0
    while bit < width and places[first + bit] <= low:
        bit += 1
    run = bit == low + 1
    for above in range(bit, width):
        base += ((block >> (places[first + above] - 1 - low)) & 1) << above
    index[0] = base
    if run:
        return True
    bit = 1
    for own in range(low):
        step = 0
        if bit < width and places[first + bit] == own + 1:
            step = 1 << bit
            bit += 1
        half = 1 << own
        for x in range(half):
            index[half + x] = index[x] + step
    return False


@kernel
def add_entries(down, up, table, shift, index, run, size):
    """Add a child's entries, with the parent's unit down and up, to those of a block. Mutates `down`, `up`."""
    if run:
        first = index[0]
        for x in range(size):
            down[x] += table[first + 2 * x] - shift
            up[x] += table[first + 2 * x + 1] - shift
    else:
        for x in range(size):
            down[x] += table[index[x]] - shift
            up[x] += table[index[x] + 1] - shift


@kernel
def _begin(down, up, linear, values, start, width, block, low):
    """Set a block to what the step's own bias and couplings give. Mutates `down`, `up`."""
    pull = values[start]
    for bit in range(low, width):
        if (block >> (bit - low)) & 1:
            pull += values[start + 1 + bit]
    for x in range(1 << low):
        down[x] = 0.0
        up[x] = linear[x] + pull


@kernel
def eliminate(tables, chances, shifts, steps, places, values, beta, part):
    """Compute the messages of steps part[0] to part[1], their entries part[2] to part[3].

    Mutates `tables` (1 or 3, n_entries), `chances` (n_chances or 0,) and `shifts` (3, n_steps).
    Row 0 of `tables` holds messages; rows 1 and 2, if there, mean and variance of the energy of all that is summed
    out, given the scope (the mean without what `shifts` holds). `chances`, if there is room, get P(v up | scope).
    `values` are energies: minus those of v up, beta times them log-odds. part[2] and part[3] are multiples of 2^LOW,
    or 0 and more than any message has.
    Invariant: the messages of all children stand in `tables`; shifts[:, k] become the entries 0 of step k's tables.
    Cost: an exponential, a logarithm and two reads a child for every entry, vectorised but for scattered reads.
    """
    size = 1 << LOW
    keep, energies = chances.size > 0, tables.shape[0] > 1
    linear, less, index = empty(size, np.float64), empty(size, np.float64), empty(size, np.int64)
    down, up = empty((3, size), np.float64), empty((3, size), np.float64)
    for k in range(part[0], part[1]):
        start, width = steps[k, START], steps[k, WIDTH]
        low = min(width, LOW)
        size = 1 << low
        tabulate_linear(linear, values, start + 1, low)
        for block in range(part[2] >> low, min(part[3], 1 << width) >> low):
            _begin(down[0], up[0], linear, values, start, width, block, low)
            if energies:
                for x in range(size):
                    up[1, x] = -up[0, x]
                down[1:] = 0.0
                up[2] = 0.0
            for x in range(size):
                up[0, x] *= beta
            child = steps[k, CHILD]
            while child >= 0:
                at, stop = steps[child, MESSAGE], steps[child, MESSAGE] + (1 << steps[child, WIDTH])
                run = tabulate_index(index, places, steps[child, START] + 1, steps[child, WIDTH], block, low)
                add_entries(down[0], up[0], tables[0, at:stop], shifts[0, child], index, run, size)
                if energies:
                    add_entries(down[1], up[1], tables[1, at:stop], shifts[1, child], index, run, size)
                    add_entries(down[2], up[2], tables[2, at:stop], 0.0, index, run, size)
                child = steps[child, SIBLING]
            at = steps[k, MESSAGE] + (block << low)
            for x in range(size):
                less[x] = exp_float64(-abs(up[0, x] - down[0, x]))
            _sum_out(tables[0, at : at + size], less, down[0], up[0])
            if keep:
                first = steps[k, CHANCE] + (block << low)
                _find_chances(chances[first : first + size], less, down[0], up[0])
            if energies:
                _mix_energies(tables[1, at : at + size], tables[2, at : at + size], less, down, up)
            if block == 0:
                shifts[0, k] = tables[0, at]
                if energies:
                    shifts[1, k], shifts[2, k] = tables[1, at], tables[2, at]


@kernel
def _sum_out(message, less, down, up):
    """Write log(exp(down) + exp(up)), less = exp(-|up - down|). Mutates `message`."""
    for x in range(message.size):
        message[x] = max(down[x], up[x]) + log1p_float64(less[x])


@kernel
def _find_chances(chances, less, down, up):
    """Write exp(up) / (exp(down) + exp(up)). Mutates `chances`."""
    for x in range(chances.size):
        chances[x] = (1.0 if up[x] > down[x] else less[x]) / (1.0 + less[x])


@kernel
def _mix_energies(means, variances, less, down, up):
    """Write mean and variance of the energy over both values of the unit, each with mean and variance of its own.

    Mutates `means`, `variances`.
    """
    for x in range(means.size):
        often = 1.0 / (1.0 + less[x])
        rare = less[x] * often
        chance = often if up[0, x] > down[0, x] else rare
        rest = rare if up[0, x] > down[0, x] else often
        rise = up[1, x] - down[1, x]
        means[x] = down[1, x] + chance * rise
        variances[x] = rest * down[2, x] + chance * up[2, x] + rare * often * rise * rise


@kernel
def draw_uniforms(uniforms, streams, n_draws):
    """Draw a uniform number in [0, 1) of 53 bits for every unit of `n_draws` states of every chain.

    Mutates `uniforms` (n_units, n_draws * n_chains), `streams` (4, n_chains).
    Column t * n_chains + c is draw t of chain c. Every chain's stream gives, draw by draw and row by row, two words:
    the upper 32 bits and the lower 21.
    Cost: two words a number, vectorised over chains.
    """
    s0, s1, s2, s3 = streams[0], streams[1], streams[2], streams[3]
    n_chains = streams.shape[1]
    for t in range(n_draws):
        for k in range(uniforms.shape[0]):
            row = uniforms[k, t * n_chains : (t + 1) * n_chains]
            for c in range(n_chains):
                upper, a, b, e, d = next_word(s0[c], s1[c], s2[c], s3[c])
                lower, s0[c], s1[c], s2[c], s3[c] = next_word(a, b, e, d)
                row[c] = uniform_of_words(upper, lower)


@kernel
def draw_states(up, uniforms, chances, steps, cliques, first, stop):
    """Draw the units of steps `stop` - 1 down to `first` in every column. Mutates `up` (n_units, n_columns) uint8.

    `uniforms` (n_steps, n_columns): row 0 is for the last step of all. `cliques` holds the units of every step's
    clique from its START on, its own first.
    Invariant: the units of all later steps are drawn.
    Cost: O(width) and a scattered read a number.
    """
    n_steps, n_columns = steps.shape[0], up.shape[1]
    index = empty(n_columns, np.int64)
    for k in range(stop - 1, first - 1, -1):
        start = steps[k, START]
        index[:] = steps[k, CHANCE]
        for bit in range(steps[k, WIDTH]):
            row = up[cliques[start + 1 + bit]]
            for x in range(n_columns):
                index[x] += np.int64(row[x]) << bit
        row, numbers = up[cliques[start]], uniforms[n_steps - 1 - k]
        for x in range(n_columns):
            row[x] = numbers[x] < chances[index[x]]
