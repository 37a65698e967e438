"""Dense couplings as whole numbers of 16 bits: a quarter of the memory, whose speed binds products of a few columns."""

import numpy as np

from .._jit import kernel

STEP = 256  # of eight bits, in units of sixteen


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
    """Multiply rows with numbers and add them up, in float32. Mutates `product` (m,); `rounded` (n, m) int16 or int8,
    `right` (n,) float32.

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
