"""Energies from the cached fields of dense couplings, and from what rounding to fixed point has left of these.

Fields are sums of couplings that are rounded to multiples of 2^-e. The remainders, in steps of 1/4094 of that, have
fields of their own that only energies need: from one sample to the next, units that differ add their rows to them, a
tile of columns at a time, which stays in the cache while the flips of all chains go by.
"""

import numpy as np

from ..jit import kernel
from ..rows import copy_row

STEPS = 4094.0  # of what rounding leaves: at most half a unit, sixteen of which fit into 16 bits
TILE = 64  # columns
TOGETHER = 16  # rows whose sums fit into 16 bits
GROUP = 16  # chains whose bits are turned together


@kernel
def energies_of_fields(up, fields, start, energies):
    """Compute each chain's energy above that of all units down, in the units of the fields.

    Mutates `energies` (n_chains,).
    Invariant on entry: `fields` as `fastbm.kernels.sampling.dense.init_fields_dense` gives them; -sum_i x_i (fields_i +
    start_i) / 2 then counts each pair once, exactly where fields are int32. `start` has a row for all or for each.
    Cost: O(n_units) a chain.
    """
    bits = np.empty((GROUP, up.shape[0]), np.uint8)
    for c in range(energies.shape[0]):
        if c % GROUP == 0:
            _turn(up, c, bits)
        energies[c] = _sum_of_up(bits[c % GROUP], fields[c], start[min(c, start.shape[0] - 1)])


@kernel
def refined_energies(up, fields, start, seen, fine, fine_start, rest, moved, energies):
    """Compute energies as `energies_of_fields` does, with what rounding has left. Mutates `energies`, `seen`, `fine`.

    `rest` (n_tiles, n_units, 64) int16 is what rounding has left of each unit's row, in `STEPS` of a unit of the
    fields; where that is nothing there are no tiles.
    Invariant: fine[c, t, k] = fine_start[c, 64 t + k] + sum_j rest[t, j, k] seen[c, j], int32, with `seen` (n_chains,
    n_units) uint8 of 0 and 1. `moved` (n_chains, n_units + 1) int32 is room for lists.
    Cost: O(n_units) a chain, and for each unit that differs from `seen`.
    """
    n_chains, n_units = energies.shape[0], up.shape[0]
    bits = np.empty((GROUP, n_units), np.uint8)
    n_risen, n_fallen = np.empty(n_chains, np.int64), np.empty(n_chains, np.int64)
    for c in range(n_chains):
        if c % GROUP == 0:
            _turn(up, c, bits)
        if rest.shape[0]:
            n_risen[c], n_fallen[c] = _list_moved(bits[c % GROUP], seen[c], moved[c])
        copy_row(seen[c], bits[c % GROUP])
    part = np.empty(TILE, np.int16)
    for t in range(rest.shape[0]):
        for c in range(n_chains):
            _add_rows(fine[c, t], rest[t], moved[c], 0, n_risen[c], part, 1)
            _add_rows(fine[c, t], rest[t], moved[c], n_units + 1 - n_fallen[c], n_units + 1, part, -1)
    for c in range(n_chains):
        row = min(c, start.shape[0] - 1)
        left = _sum_of_up(seen[c], fine[c].ravel(), fine_start[row])
        energies[c] = _sum_of_up(seen[c], fields[c], start[row]) + left / STEPS


@kernel
def _list_moved(now, before, moved):
    """List units that rose from the front of `moved` on, those that fell from its end on, without a branch."""
    n_risen, last = 0, now.shape[0]
    for i in range(now.shape[0]):
        differs = now[i] ^ before[i]
        moved[n_risen], moved[last] = i, i
        n_risen += differs & now[i]
        last -= differs & before[i]
    return n_risen, now.shape[0] - last


@kernel
def _turn(up, first, bits):
    """Write the units of some chains side by side. Mutates `bits` (`GROUP`, n_units)."""
    m = min(GROUP, up.shape[1] - first)
    for i in range(up.shape[0]):
        for c in range(m):
            bits[c, i] = up[i, first + c]


@kernel
def _sum_of_up(bits, field, start):
    """-1/2 sum_i x_i (field_i + start_i)."""
    total = 0.0
    if field.itemsize == 4:
        exact = np.int64(0)
        for i in range(min(bits.shape[0], field.shape[0])):
            exact += (np.int64(field[i]) + np.int64(start[i])) & -np.int64(bits[i])
        total = np.float64(exact)
    else:  # sums of int64 may overflow
        for i in range(min(bits.shape[0], field.shape[0])):
            total += np.float64(bits[i]) * (np.float64(field[i]) + np.float64(start[i]))
    return -0.5 * total


@kernel
def _add_rows(field, rest, index, start, stop, part, sign):
    """Add rows index[start:stop] of a tile to a field, or subtract them; in 16 bits, `TOGETHER` rows at a time.

    Mutates `field` (`TILE`,), `part`.
    """
    for begin in range(start, stop, TOGETHER):
        k, end = begin, min(begin + TOGETHER, stop)
        part[:] = 0
        while k + 4 <= end:
            r0, r1, r2, r3 = rest[index[k]], rest[index[k + 1]], rest[index[k + 2]], rest[index[k + 3]]
            for j in range(TILE):
                low, high = np.int16(r0[j] + r1[j]), np.int16(r2[j] + r3[j])
                part[j] = np.int16(part[j] + np.int16(low + high))
            k += 4
        while k < end:
            row = rest[index[k]]
            for j in range(TILE):
                part[j] = np.int16(part[j] + row[j])
            k += 1
        for j in range(TILE):
            field[j] += np.int32(sign * np.int32(part[j]))
