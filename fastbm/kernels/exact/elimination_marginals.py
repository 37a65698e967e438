"""The way back through an elimination: marginals of every clique, from the last step to the first.

P(v, S) = P(S) P(v | S): the table of P(S) comes from the parent, the chances P(v up | S) from the elimination, and sums
of P(v, S) over what a child does not share are the table of that child. No logarithm and no division: nothing can be
infinite. Programs are those of `fastbm.kernels.exact.elimination`; a step's table of P(S) stands where its message
stood.

Lauritzen and Spiegelhalter, J. R. Stat. Soc. B 50, 157 (1988), doi:10.1111/j.2517-6161.1988.tb01721.x.
"""

import numpy as np

from ..arrays import empty
from ..jit import kernel
from .elimination import CHANCE, CHILD, LOW, MESSAGE, SIBLING, START, WIDTH


@kernel
def fold_up(sums, marginals, chances, step, first, stop):
    """Add P(v up) to sums[0] and P(v and unit b of its scope up) to sums[1 + b].

    They come from entries `first` to `stop` of the step's table. Mutates `sums` (1 + width,).

    `step` is the step's row of the program; `first` and `stop` are multiples of 2^LOW, or 0 and the whole table.
    Cost: three additions an entry, vectorised.
    """
    width = step[WIDTH]
    low = min(width, LOW)
    size = 1 << low
    weights = empty(size, np.float64)
    for block in range(first >> low, stop >> low):
        at, chance = step[MESSAGE] + (block << low), step[CHANCE] + (block << low)
        for x in range(size):
            weights[x] = marginals[at + x] * chances[chance + x]
        for bit in range(low - 1, -1, -1):
            half = 1 << bit
            upper = weights[half : 2 * half]
            for x in range(half):
                weights[x] += upper[x]
            while half > 1:
                half >>= 1
                for x in range(half):
                    upper[x] += upper[half + x]
            sums[1 + bit] += upper[0]
        sums[0] += weights[0]
        for bit in range(low, width):
            if (block >> (bit - low)) & 1:
                sums[1 + bit] += weights[0]


@kernel
def pass_down(marginals, chances, steps, places, part):
    """Sum the table of step part[0] over all units that are not in the scope of its child part[1].

    It does blocks part[2] to part[3] of the child's table. Mutates `marginals`.

    The parent's own unit is bit 0 of the child's table. Of the parent's scope, units of the child's above bit LOW
    number the blocks, as many as there are; part[3] may be more than that.
    Cost: two reads and two additions for every entry of the parent's table, vectorised; and for a block two additions
    an entry that is folded.
    """
    k, child = part[0], part[1]
    first, width = steps[child, START] + 2, steps[child, WIDTH] - 1  # of the scope but for the parent's own unit
    low = min(steps[k, WIDTH], LOW)
    size, n_low = 1 << low, 0
    present, missing = 0, (1 << steps[k, WIDTH]) - size
    for bit in range(width):
        own = places[first + bit] - 1
        if own < low:
            n_low += 1
            present |= 1 << own
        else:
            missing ^= 1 << own
    down, up = empty(size, np.float64), empty(size, np.float64)
    for block in range(part[2], min(part[3], 1 << (width - n_low))):
        base = 0
        for bit in range(n_low, width):
            base |= ((block >> (bit - n_low)) & 1) << (places[first + bit] - 1)
        down[:] = 0.0
        up[:] = 0.0
        other = 0
        while True:  # all settings of the bits of `missing`
            at, chance = steps[k, MESSAGE] + base + other, steps[k, CHANCE] + base + other
            _add_marginals(down, up, marginals[at : at + size], chances[chance : chance + size])
            other = (other - missing) & missing
            if other == 0:
                break
        _fold_missing(down, present, low)
        _fold_missing(up, present, low)
        to = steps[child, MESSAGE] + (block << (n_low + 1))
        for x in range(1 << n_low):
            marginals[to + 2 * x] = down[x]
            marginals[to + 2 * x + 1] = up[x]


@kernel
def _add_marginals(down, up, marginals, chances):
    """Add P(v down, S) and P(v up, S). Mutates `down`, `up`."""
    for x in range(down.size):
        part = marginals[x] * chances[x]
        down[x] += marginals[x] - part
        up[x] += part


@kernel
def _fold_missing(table, present, low):
    """Sum a table over the bits below `low` that `present` lacks; the others close up. Mutates `table`."""
    size = table.size
    for bit in range(low - 1, -1, -1):
        if (present >> bit) & 1:
            continue
        half = 1 << bit
        size >>= 1
        for to in range(0, size, half):
            for x in range(half):
                table[to + x] = table[2 * to + x] + table[2 * to + half + x]


@kernel
def marginalise(sums, marginals, chances, steps, places, first, stop):
    """Do all of steps `stop` - 1 down to `first`. Mutates `sums` (laid out as the cliques, from 0), `marginals`.

    Invariant: the tables of all these steps whose parents come later stand in `marginals` on entry, those of all
    earlier steps whose parents do not on exit.
    Cost: that of `fold_up`, and of `pass_down` for every child.
    """
    first_entry = np.int64(0)  # a literal would compile the kernels it is given to once more
    for k in range(stop - 1, first - 1, -1):
        start, width = steps[k, START], steps[k, WIDTH]
        if width == 0:  # no parent
            marginals[steps[k, MESSAGE]] = 1.0
        fold_up(sums[start : start + 1 + width], marginals, chances, steps[k], first_entry, 1 << width)
        child = steps[k, CHILD]
        while child >= 0:
            pass_down(marginals, chances, steps, places, (k, child, first_entry, 1 << steps[child, WIDTH]))
            child = steps[child, SIBLING]
