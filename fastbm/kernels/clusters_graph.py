"""What cluster updates need of a graph beside its clusters: the gauge that makes it a ferromagnet, and energies.

Mattis, Phys. Lett. A 56, 421 (1976), doi:10.1016/0375-9601(76)90396-0; Toulouse, Commun. Phys. 2, 115 (1977).
"""

import numpy as np

from .._jit import kernel


@kernel
def fix_gauge(signs, queue, indptr, indices, values):
    """Fix signs such that signs[i] signs[j] values[k] > 0 along every tree of a breadth-first search. Mutates `signs`
    (n_units,) int8, `queue` (n_units,) int32; returns the first edge (i, j) found to break the rule, or (-1, -1).

    Invariant: on entry signs are 0. If an edge is returned, it closes a frustrated loop; each connected part's first
    unit has sign 1.
    Cost: O(n_units + edges).
    """
    for root in range(signs.shape[0]):
        if signs[root]:
            continue
        signs[root] = 1
        queue[0] = root
        done, stop = 0, 1
        while done < stop:
            i = queue[done]
            done += 1
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                wanted = signs[i] if values[k] > 0 else -signs[i]
                if signs[j] == 0:
                    signs[j] = wanted
                    queue[stop] = j
                    stop += 1
                elif signs[j] != wanted:
                    return np.int64(i), np.int64(j)
    return np.int64(-1), np.int64(-1)


@kernel
def energies_graph(energies, up, indptr, indices, values, bias, lo, span):
    """Compute the energy (without offset) of every row of `up`. Mutates `energies` (n_chains,).

    `up` (n_chains, n_units) uint8 holds the bits, a unit's value is lo + span bit, `bias` is (1, n_units) or one row
    per chain.
    Invariant: each pair counts once, from its later unit, in the same order on every processor.
    Cost: O(n_units + edges) a chain.
    """
    step = 1 if bias.shape[0] > 1 else 0
    for c in range(up.shape[0]):
        total = 0.0
        for i in range(up.shape[1]):
            field = bias[c * step, i]
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if j < i:
                    field += values[k] * (lo + span * up[c, j])
            total -= (lo + span * up[c, i]) * field
        energies[c] = total
