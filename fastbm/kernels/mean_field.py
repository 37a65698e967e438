"""Naive mean field: coordinate ascent on the lower bound S(m) - beta E(m), one unit after the other.

Without damping each step maximises the bound in one mean, so that it never falls; nor does it with damping.
Peterson and Anderson, Complex Systems 1, 995 (1987); the bound: Saul, Jaakkola and Jordan, J. Artif. Intell. Res. 4, 61
(1996), doi:10.1613/jair.251.
"""

import numpy as np

from .._jit import kernel
from .hyperbolic import tanh_float64


@kernel
def sweep_mean_field_dense(means, fields, weights, beta, damping, least, units):
    """Set the means of `units` to tanh(beta field), in turn. Mutates `means`, `fields` (lanes, n_units); returns the
    largest change per lane, made or left.

    Invariant on entry and exit, up to rounding: fields[c] = weights @ means[c] + bias. Part `damping` of the old mean
    is kept. Changes of up to `least[c]` are left for a later sweep. A unit that moves adds its row to all fields, which
    is vector code in any order; the sum over its row would be one long chain of additions.
    Cost: n_units multiplications and additions for a unit that moves; its row serves all lanes from the cache.
    """
    lanes, n = means.shape
    kind = fields.dtype.type
    fresh, change = np.empty(lanes), np.zeros(lanes)
    for i in units:
        row = weights[i]
        for c in range(lanes):
            fresh[c] = beta * fields[c, i]
        for c in range(lanes):
            fresh[c] = tanh_float64(fresh[c])
        for c in range(lanes):
            step = (1.0 - damping) * (fresh[c] - means[c, i])
            change[c] = max(change[c], abs(step))
            if abs(step) > least[c]:
                means[c, i] += step
                target, part = fields[c], kind(step)
                for j in range(n):
                    target[j] += part * kind(row[j])
    return change


@kernel
def sweep_mean_field_sparse(means, graph, bias, beta, damping):
    """Set every mean to tanh(beta field), in turn. Mutates `means` (n_units, lanes); returns the largest change per
    lane.

    `graph` is (indptr, indices, values), `bias` is (n_units, lanes). Cost: O(n_edges) a lane, vectorised over lanes.
    """
    indptr, indices, values = graph
    n, lanes = means.shape
    field, change = np.empty(lanes), np.zeros(lanes)
    for i in range(n):
        own, pull = means[i], bias[i]
        for c in range(lanes):
            field[c] = pull[c]
        for k in range(indptr[i], indptr[i + 1]):
            w, other = values[k], means[indices[k]]
            for c in range(lanes):
                field[c] += w * other[c]
        for c in range(lanes):
            step = (1.0 - damping) * (tanh_float64(beta * field[c]) - own[c])
            change[c] = max(change[c], abs(step))
            own[c] += step
    return change
