"""The equations of Thouless, Anderson and Palmer: coordinate ascent on their log Z, one unit after the other.

log Z = S(m) - beta E(m) + beta^2 / 4 sum_ij W_ij^2 (1 - m_i^2) (1 - m_j^2) is concave in each mean alone, and greatest
where atanh m_i + q_i m_i = beta field_i, q_i = beta^2 sum_j W_ij^2 (1 - m_j^2). To solve for m_i on both sides at once
is what keeps the iteration from swinging.
Thouless, Anderson and Palmer, Phil. Mag. 35, 593 (1977), doi:10.1080/14786437708235992.
"""

import numpy as np

from ..arrays import empty, zeros
from ..functions import tanh_float64
from ..jit import inlined, kernel

_MOST_STEPS = 60


@inlined
def solve_unit(field, onsager):
    """Return the u with u + q tanh(u) = field, q = `onsager` >= 0.

    The left side is concave for u > 0: Newton steps from below the root, where field / (1 + q) and field - q are, rise
    to it and never pass it.
    """
    size = abs(field)
    u = max(size / (1.0 + onsager), size - onsager)
    for _ in range(_MOST_STEPS):
        t = tanh_float64(u)
        step = (size - u - onsager * t) / (1.0 + onsager * (1.0 - t * t))
        u += step
        if step <= 4e-16 * u:
            break
    return -u if field < 0.0 else u


@kernel
def solve_units(arguments, fields, onsager):
    """Solve for every unit given its field (times beta) and its Onsager term.

    Mutates `arguments` (lanes, n_units), of the shape of the others. Cost: a few Newton steps a unit.
    """
    for c in range(arguments.shape[0]):
        for i in range(arguments.shape[1]):
            arguments[c, i] = solve_unit(fields[c, i], onsager[c, i])


@kernel
def sweep_tap_dense(means, fields, onsager, weights, beta, damping, least, units):
    """Solve for the means of `units`, in turn.

    Mutates `means`, `fields`, `onsager` (lanes, n_units); returns the largest change per lane, made or left.
    Invariant on entry and exit, up to rounding: fields[c] = weights @ means[c] + bias, onsager[c] = weights**2 @ (1 -
    means[c]**2). `damping` and `least` as for `fastbm.kernels.inference.mean_field.sweep_mean_field_dense`.
    Cost: twice that of mean field.
    """
    lanes, n = means.shape
    change = zeros(lanes, np.float64)
    for i in units:
        row = weights[i]
        for c in range(lanes):
            old = means[c, i]
            x, q = beta * fields[c, i], beta * beta * max(onsager[c, i], 0.0)
            step = (1.0 - damping) * (tanh_float64(solve_unit(x, q)) - old)
            change[c] = max(change[c], abs(step))
            if abs(step) > least[c]:
                means[c, i] = old + step
                narrower = -step * (old + means[c, i])  # change of 1 - m^2
                target, other = fields[c], onsager[c]
                for j in range(n):
                    w = row[j]
                    target[j] += step * w
                    other[j] += narrower * (w * w)
    return change


@kernel
def add_onsager_dense(onsager, spread, weights):
    """Add weights**2 @ spread of every lane, without an array of the squares. Mutates `onsager` (lanes, n_units).

    Cost: n_units^2 multiplications and additions a lane.
    """
    for i in range(weights.shape[0]):
        row = weights[i]
        for c in range(spread.shape[0]):
            target, s = onsager[c], spread[c, i]
            for j in range(row.shape[0]):
                target[j] += s * (row[j] * row[j])


@kernel
def sweep_tap_sparse(means, graph, bias, beta, damping):
    """Solve for every mean, in turn. Mutates `means` (n_units, lanes); returns the largest change per lane.

    `graph` is (indptr, indices, values), `bias` is (n_units, lanes). Cost: O(n_edges) a lane.
    """
    indptr, indices, values = graph
    n, lanes = means.shape
    field, spread, change = empty(lanes, np.float64), empty(lanes, np.float64), zeros(lanes, np.float64)
    for i in range(n):
        field[:], spread[:] = bias[i], 0.0
        for k in range(indptr[i], indptr[i + 1]):
            w, other = values[k], means[indices[k]]
            for c in range(lanes):
                field[c] += w * other[c]
                spread[c] += w * w * (1.0 - other[c] * other[c])
        for c in range(lanes):
            old = means[i, c]
            u = solve_unit(beta * field[c], beta * beta * spread[c])
            step = (1.0 - damping) * (tanh_float64(u) - old)
            change[c] = max(change[c], abs(step))
            means[i, c] = old + step
    return change
