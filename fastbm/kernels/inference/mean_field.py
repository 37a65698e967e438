"""Naive mean field: coordinate ascent on the lower bound S(m) - beta E(m), one unit after the other.

Without damping each step maximises the bound in one mean, so that it never falls; nor does it with damping.

For drafts of the solution dense couplings are rounded to whole numbers of 16 bits: a quarter of the memory, whose speed
binds products of a few columns.

Peterson and Anderson, Complex Systems 1, 995 (1987); the bound: Saul, Jaakkola and Jordan, J. Artif. Intell. Res. 4, 61
(1996), doi:10.1613/jair.251.
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty, zeros
from ..functions import tanh_float64
from ..jit import kernel

STEP = 256  # of eight bits, in units of sixteen


@kernel
def sweep_mean_field_dense(means, fields, weights, beta, damping, least, units):
    """Set the means of `units` to tanh(beta field), in turn.

    Mutates `means`, `fields` (lanes, n_units); returns the largest change per lane, made or left.
    Invariant on entry and exit, up to rounding: fields[c] = weights @ means[c] + bias. Part `damping` of the old mean
    is kept. Changes of up to `least[c]` are left for a later sweep. A unit that moves adds its row to all fields, which
    is vector code in any order; the sum over its row would be one long chain of additions.
    Cost: n_units multiplications and additions for a unit that moves; its row serves all lanes from the cache.
    """
    lanes, n = means.shape
    kind = fields.dtype.type
    fresh, change = empty(lanes, np.float64), zeros(lanes, np.float64)
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
    """Set every mean to tanh(beta field), in turn.

    Mutates `means` (n_units, lanes); returns the largest change per lane.
    `graph` is (indptr, indices, values), `bias` is (n_units, lanes). Cost: O(n_edges) a lane, vectorised over lanes.
    """
    indptr, indices, values = graph
    n, lanes = means.shape
    field, change = empty(lanes, np.float64), zeros(lanes, np.float64)
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


@kernel
def round_rows(rounded, weights, scale):
    """Write weights / scale, rounded. Mutates `rounded` (n, m) int16.

    `scale` is at least the largest |weight| / 32767.  Cost: one pass.
    """
    factor = 1.0 / scale
    for i in range(weights.shape[0]):
        row, target = weights[i], rounded[i]
        for j in range(row.shape[0]):
            target[j] = np.int16(np.int32(np.rint(row[j] * factor)))


@kernel
def coarsen_rows(coarse, rounded):
    """Write the upper eight bits, rounded: rounded / 256. Mutates `coarse` (n, m) int8; `rounded` is (n, m) int16.

    Cost: one pass.
    """
    for i in range(rounded.shape[0]):
        row, target = rounded[i], coarse[i]
        for j in range(row.shape[0]):
            target[j] = np.int8(min(np.int32(np.int32(row[j]) + np.int32(STEP // 2)) >> np.int32(8), np.int32(127)))


@kernel
def add_rounded(product, rounded, right):
    """Multiply rows with numbers and add them up, in float32.

    Mutates `product` (m,); `rounded` (n, m) int16 or int8, `right` (n,) float32.
    Rows are added, eight at a time, so that all of it is vector code.  Cost: a multiplication and an addition an entry.
    """
    n = rounded.shape[0]
    product[:] = np.float32(0.0)
    whole = n // 8 * 8
    for i in range(0, whole, 8):
        a, b, c, d = rounded[i], rounded[i + 1], rounded[i + 2], rounded[i + 3]
        e, f, g, h = rounded[i + 4], rounded[i + 5], rounded[i + 6], rounded[i + 7]
        p, q, r, s = right[i], right[i + 1], right[i + 2], right[i + 3]
        t, u, v, w = right[i + 4], right[i + 5], right[i + 6], right[i + 7]
        for j in range(product.shape[0]):
            low = (np.float32(a[j]) * p + np.float32(b[j]) * q) + (np.float32(c[j]) * r + np.float32(d[j]) * s)
            high = (np.float32(e[j]) * t + np.float32(f[j]) * u) + (np.float32(g[j]) * v + np.float32(h[j]) * w)
            product[j] += low + high
    for i in range(whole, n):
        row = rounded[i]
        for j in range(product.shape[0]):
            product[j] += np.float32(row[j]) * right[i]
