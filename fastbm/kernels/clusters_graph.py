"""What cluster updates need of a graph beside its clusters: the gauge that makes it a ferromagnet.

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
