"""Independent states from the chances that an elimination leaves: units in the reverse order, each given its scope.

Programs are those of `kernels/elimination.py`.
"""

import numpy as np

from .._jit import kernel
from .elimination import CHANCE, START, WIDTH
from .random import next_word, uniform_of_words


@kernel
def draw_uniforms(uniforms, streams, n_draws):
    """Draw a uniform number in [0, 1) of 53 bits for every unit of `n_draws` states of every chain. Mutates `uniforms`
    (n_units, n_draws * n_chains), `streams` (4, n_chains).

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
    index = np.empty(n_columns, np.int64)
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
