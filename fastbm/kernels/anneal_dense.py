"""Annealed importance sampling on dense couplings: chains that follow a path of temperatures, and their weights.

Couplings and fields are integers, as in `fastbm.kernels.dense`. So are the gains, which rise or fall by the field with
every flip: the weights are exact for the machine in integers, at no cost but an addition a flip.
"""

import numpy as np

from .._jit import kernel
from .anneal_limits import tilted_limits
from .limits import ROWS


@kernel
def anneal_dense(up, fields, sums, rises, base, path, streams, sites):
    """Weigh and sweep at every step of `path`. Mutates `up`, `fields`, `sums`, `streams`.

    `up` (n_units, lanes) uint8 holds the bits, `fields` and `rises` are those of `fastbm.kernels.dense`, one row of
    `fields` for each chain. `base` (n_units,) are the log-odds of the product model. A row of `path` is (step, t,
    unit): log w rises by step (unit gain - tilt), then every unit in the order of `sites` is drawn with log-odds
    (1 - t) base + t unit field.
    Invariant: `sums` is (gains (lanes,) int64, tilts, log w), with gains = x A x / 2 + a x in integers and
    tilts = base x.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    gains, tilts, log_w = sums
    limits = np.empty((ROWS, up.shape[1]), fields.dtype)
    pulls = np.empty(ROWS, np.float32)
    flips = np.empty(up.shape[1], np.int64)
    for s in range(path.shape[0]):
        step, t, unit = path[s, 0], path[s, 1], path[s, 2]
        for c in range(fields.shape[0]):
            log_w[c] += step * (unit * np.float64(gains[c]) - tilts[c])
        scale = scale_of(t * unit)
        for first in range(0, sites.shape[0], ROWS):
            m = min(ROWS, sites.shape[0] - first)
            for p in range(m):
                pulls[p] = (1.0 - t) * base[sites[first + p]]
            tilted_limits(streams, pulls, scale, limits[:m])
            for p in range(m):
                i, limit = sites[first + p], limits[p]
                # the list of chains that flip grows without a branch
                n = 0
                for c in range(fields.shape[0]):
                    flips[n] = c
                    n += (fields[c, i] > limit[c]) != up[i, c]
                row = rises[i]
                for k in range(n):
                    c = flips[k]
                    sign = -1 if up[i, c] else 1
                    up[i, c] ^= np.uint8(1)
                    gains[c] += sign * np.int64(fields[c, i])
                    tilts[c] += sign * base[i]
                    field = fields[c]
                    for block in range(field.shape[0] // 64):
                        for j in range(64):
                            field[64 * block + j] += sign * row[64 * block + j]


@kernel
def scale_of(unit):
    """What turns log-odds into fields whose `unit` in log-odds this is; never so small that signs of limits are lost,
    nor more than float32 holds.
    """
    scale = 1.0 / unit if unit > 0.0 else np.inf
    return np.float32(min(max(scale, 1e-30), 3.4e38))
