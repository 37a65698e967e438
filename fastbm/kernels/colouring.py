"""Colours for the units of a graph, so that units of one colour are not neighbours.

Greedy, in the order of a breadth-first search: each unit takes the smallest colour that no neighbour has. Graphs of two
colours (lattices with even sides, trees, layers) get two.
"""

import numpy as np

from .._jit import kernel


@kernel
def colour_units(indptr, indices, colours):
    """Colour all units of a graph. Mutates `colours` (n_units,) int32.

    Invariant on exit: neighbours have different colours, 0, 1, ...  Cost: O(n_edges).
    """
    n_units = colours.shape[0]
    colours[:] = -1
    queue = np.empty(n_units, np.int32)
    met = np.zeros(n_units, np.bool_)
    taken_by = np.full(n_units + 1, -1, np.int32)  # the last unit for which a colour was taken
    for seed in range(n_units):
        if met[seed]:
            continue
        head, tail = 0, 1
        queue[0] = seed
        met[seed] = True
        while head < tail:
            i = queue[head]
            head += 1
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if colours[j] >= 0:
                    taken_by[colours[j]] = i
                if not met[j]:
                    met[j] = True
                    queue[tail] = j
                    tail += 1
            colour = 0
            while taken_by[colour] == i:
                colour += 1
            colours[i] = colour
