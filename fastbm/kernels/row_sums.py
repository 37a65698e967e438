"""Products with a matrix of zeros and ones as sums of rows: where few units are on, faster than a matrix product.

Weights lie in tiles of `TILE` columns, so that a tile stays in the cache while all chains take their rows from it. Rows
are added four at a time in a fixed order: bits depend on neither processor nor BLAS.
"""

import numpy as np

from .._jit import kernel

TILE = 128


@kernel
def fill_tiles(tiles, weights):
    """Copy `weights` (n, m) into columns of tiles. Mutates `tiles` (ceil(m / TILE), n, TILE), whose rest stays 0.

    Cost: one pass over `weights`.
    """
    for t in range(tiles.shape[0]):
        first = TILE * t
        for i in range(weights.shape[0]):
            for k in range(min(TILE, weights.shape[1] - first)):
                tiles[t, i, k] = weights[i, first + k]


@kernel
def list_units(rows, counts, turned, up):
    """List the units that are on in every lane, or, where these are more than half, those that are off. Mutates `rows`
    (lanes, n + 1) int32, `counts` (lanes,) and `turned` (lanes,) uint8, 1 where units that are off are listed.

    Cost: two passes over `up` (n, lanes) of 0 and 1.
    """
    n, lanes = up.shape
    counts[:] = 0
    for i in range(n):
        for lane in range(lanes):
            counts[lane] += np.int64(up[i, lane])
    for lane in range(lanes):
        turned[lane] = np.uint8(2 * counts[lane] > n)
        counts[lane] = 0
    for i in range(n):
        for lane in range(lanes):
            rows[lane, counts[lane]] = i
            counts[lane] += np.int64(np.uint8(up[i, lane]) ^ turned[lane])


@kernel
def add_rows(fields, sums, tiles, whole, rows, counts, turned):
    """Add to every lane's fields the rows of the units that are on. Mutates `fields` (m, lanes), `sums` (lanes, TILE).

    `whole` (m,) is the sum of all rows, from which those of units that are off are taken where a lane is `turned`.
    Invariant: `rows`, `counts`, `turned` as `list_units` gives them; a lane's result depends on nothing but itself.
    Cost: one addition for each unit listed and each column, in vectors.
    """
    kind = fields.dtype.type
    for t in range(tiles.shape[0]):
        tile = tiles[t]
        for lane in range(fields.shape[1]):
            total, listed, n = sums[lane], rows[lane], counts[lane]
            for k in range(TILE):
                total[k] = 0
            j = 0
            while j + 4 <= n:
                a, b, c, d = tile[listed[j]], tile[listed[j + 1]], tile[listed[j + 2]], tile[listed[j + 3]]
                for k in range(TILE):
                    total[k] += (a[k] + b[k]) + (c[k] + d[k])
                j += 4
            while j < n:
                a = tile[listed[j]]
                for k in range(TILE):
                    total[k] += a[k]
                j += 1
        first = TILE * t
        for k in range(min(TILE, fields.shape[0] - first)):
            all_on = whole[first + k]
            for lane in range(fields.shape[1]):
                total = sums[lane, k]
                fields[first + k, lane] += all_on - total if turned[lane] else total + kind(0)
