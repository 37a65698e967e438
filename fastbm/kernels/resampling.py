"""Weights of a population that is cooled, and its resampling to constant size.

A step from beta to beta + step gives replica r the weight w_r = exp(-step (E_r - least)).

Systematic resampling: Kitagawa, J. Comput. Graph. Stat. 5, 1 (1996), doi:10.1080/10618600.1996.10474692.
"""

from .._jit import kernel
from .functions import exp_float64


@kernel
def sum_weights(energies, least, step):
    """Return sum w and sum w^2.  Cost: one exponential a replica, summed in their order."""
    total, squares = 0.0, 0.0
    for r in range(energies.shape[0]):
        w = exp_float64(-step * (energies[r] - least))
        total += w
        squares += w * w
    return total, squares


@kernel
def resample_systematic(index, energies, least, step, uniform):
    """Write the parent of every replica, in increasing order. Mutates `index` (n,) int64; returns how many replicas
    have no offspring.

    With u = `uniform` in [0, 1), the parent of replica c is the first r with w_0 + ... + w_r > (c + u) sum(w) / n, so
    that replica r has n w_r / sum(w) offspring, rounded up or down.  Cost: two exponentials a replica.
    """
    n = energies.shape[0]
    share = sum_weights(energies, least, step)[0] / n
    r, n_parents = -1, 0
    reached = 0.0
    for c in range(n):
        aim = (c + uniform) * share
        new = False
        while (reached <= aim or r < 0) and r < n - 1:
            r += 1
            reached += exp_float64(-step * (energies[r] - least))
            new = True
        if new:
            n_parents += 1
        index[c] = r
    return n - n_parents
