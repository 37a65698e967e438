"""Single-spin sweeps of few chains on sparse couplings, units side by side: the bits of `fastbm.kernels.sampling.few`.

A unit waits for neighbours that come before it in a sweep: its level is one above the highest of theirs, and units of
one level are drawn in any order, or at once. In coloured order levels are the colours, on a lattice in sequential order
its diagonals. A sweep is cut into pieces, whose limits are made together; a level is cut into groups of `SIDE` units,
and a chain's bits lie in the order of the groups.
"""

import numpy as np

from ..ahead import draw_words
from ..arrays import empty, zeros
from ..bit_vectors import pack_octets
from ..groups import SIDE, SPARE, draw_group
from ..jit import kernel
from .limits import fill_limits

PIECE = 1 << 14  # attempts of a chain whose limits are made together
ALIKE = 6  # units of a group whose neighbours follow one another, from which they are worth a slot
_LIKE = SIDE // 4  # the unit that others are compared with: on a lattice the first and the last ones differ
MOST_ALIKE = 8  # neighbours, up to which such are looked for


@kernel
def rank_units(indptr, indices, visit, in_order, ranks, bounds):
    """Write the rank of every unit in the order of the groups, and the groups before every piece; return their number.

    Mutates `ranks` (n_units,) int32, `bounds` (pieces + 1,) int32. `visit` is a permutation of the units. Where
    `in_order` is true, units of a level follow one another in it.
    Cost: O(n_units + edges).
    """
    n_units = visit.shape[0]
    place, level = empty(n_units, np.int32), empty(n_units, np.int32)
    for p in range(n_units):
        place[visit[p]] = p
    free, n_groups = empty(min(PIECE, n_units) + 1, np.int32), 0
    bounds[0] = 0
    for piece in range(bounds.shape[0] - 1):
        first, last = piece * PIECE, min(n_units, (piece + 1) * PIECE)
        n_levels, least = 0, 0
        for p in range(first, last):
            here = least
            for k in range(indptr[visit[p]], indptr[visit[p] + 1]):
                q = place[indices[k]]
                if first <= q < p and level[q] >= here:
                    here = level[q] + 1
            if in_order:
                least = here
            if here == n_levels:
                free[here] = 0
                n_levels += 1
            level[p] = here
            free[here] += 1
        for here in range(n_levels):
            count = free[here]
            free[here] = SIDE * n_groups
            n_groups += -(-count // SIDE)
        for p in range(first, last):
            ranks[visit[p]] = free[level[p]]
            free[level[p]] += 1
        bounds[piece + 1] = n_groups
    return n_groups


@kernel
def _best_base(near, degree):
    """Return the place from which on most neighbours of a group's units follow, and the number of these units."""
    best, most = 0, 0
    for j in range(degree[_LIKE]):
        base, count = near[_LIKE, j] - _LIKE, 0
        for lane in range(SIDE):
            for k in range(degree[lane]):
                count += near[lane, k] == base + lane
        if count > most:
            best, most = base, count
    return best, most


@kernel
def fill_slots(indptr, indices, values, ranks, units, bounds, bases, neighbours, rises):
    """Write the slots of all groups, as `fastbm.kernels.groups.draw_group` has them; return their number.

    Mutates `bounds` (groups + 1,), `bases` (slots,), `neighbours`, `rises` (slots, `SIDE`), of which there is room for
    twice the most neighbours in every group. `units` (groups, `SIDE`) is -1 where no unit is.
    Cost: O(groups times the most neighbours in them).
    """
    most = 1
    for i in range(indptr.shape[0] - 1):
        most = max(most, indptr[i + 1] - indptr[i])
    near, left = empty((SIDE, most), np.int32), empty((SIDE, most), values.dtype)
    degree, slot = zeros(SIDE, np.int64), 0
    bounds[0] = 0
    for g in range(units.shape[0]):
        highest = 0
        for lane in range(SIDE):
            i = units[g, lane]
            degree[lane] = indptr[i + 1] - indptr[i] if i >= 0 else 0
            highest = max(highest, degree[lane])
            for k in range(degree[lane]):
                near[lane, k] = SPARE + ranks[indices[indptr[i] + k]]
                left[lane, k] = values[indptr[i] + k]
        while highest:
            base, alike = 0, 0
            if highest <= MOST_ALIKE:
                base, alike = _best_base(near, degree)
            follow = alike >= ALIKE
            bases[slot] = base if follow else -1
            highest = 0
            for lane in range(SIDE):
                neighbours[slot, lane], rises[slot, lane] = 0, 0
                for k in range(degree[lane]):
                    if not follow or near[lane, k] == base + lane:
                        neighbours[slot, lane], rises[slot, lane] = near[lane, k], left[lane, k]
                        degree[lane] -= 1
                        near[lane, k], left[lane, k] = near[lane, degree[lane]], left[lane, degree[lane]]
                        break
                highest = max(highest, degree[lane])
            slot += 1
        bounds[g + 1] = slot
    return slot


@kernel
def spread_bits(up, ranks, bits):
    """Write the bits of all chains in the order of the groups. Mutates `bits` (chains, SPARE + units + SPARE) uint8."""
    for i in range(up.shape[0]):
        for c in range(up.shape[1]):
            bits[c, SPARE + ranks[i]] = up[i, c]


@kernel
def collect_bits(bits, ranks, up):
    """Write the bits of all chains in the order of the units. Mutates `up` (n_units, chains) uint8."""
    for c in range(up.shape[1]):
        for i in range(up.shape[0]):
            up[i, c] = bits[c, SPARE + ranks[i]]


@kernel
def sweep_levels(bits, levels, scale, streams, pieces, n_sweeps, hold, samples):
    """Update every unit in the pieces from pieces[0] to pieces[1], `n_sweeps` times, in every chain.

    Mutates `bits`, as `spread_bits` makes them, and `streams`; returns the number of flips. `levels` is (bounds, slots,
    start, first_limit, places, leaps): groups of pieces; slots (bounds, bases, neighbours, rises) and others as
    `draw_group` has them, with `start` (1 or chains, groups, `SIDE`); `fastbm.kernels.ahead.leaps()`. `scale` and
    `hold` as for `fastbm.kernels.sampling.limits`. More sweeps than one are of all pieces. `samples` is (thin,
    squares): the bits after every `thin` sweeps become rows of the chain's squares, (chains, n, rows, words) uint32.
    Cost: O(slots) a group of units, about one nanosecond a unit on a lattice.
    """
    piece_bounds, (bounds, bases, neighbours, rises), start, first_limit, places, leaps, n_units = levels
    (thin, squares), n_bits = samples, SIDE * start.shape[1]
    room = min(n_units, PIECE)
    together = PIECE // room if n_units <= PIECE else 1  # sweeps
    words, limits = empty(together * room, np.uint32), zeros(together * room + SIDE, rises.dtype)
    stream, n_flips = empty(4, np.uint32), 0
    for t in range(0, n_sweeps, together):
        n_rows = min(together, n_sweeps - t)
        for piece in range(pieces[0], pieces[1]):
            m = min(n_units, (piece + 1) * PIECE) - piece * PIECE
            for c in range(bits.shape[0]):
                for j in range(4):
                    stream[j] = streams[j, c]
                draw_words(stream, leaps, words[: n_rows * m])
                fill_limits(words[: n_rows * m], scale[c], hold, limits)
                for j in range(4):
                    streams[j, c] = stream[j]
                own, begin = bits[c], start[min(c, start.shape[0] - 1)]
                for row in range(n_rows):
                    here = limits[row * m :]
                    for g in range(piece_bounds[piece], piece_bounds[piece + 1]):
                        n_flips += draw_group(
                            g, own, bounds, bases, neighbours, rises, begin, here, first_limit, places, hold
                        )
                    n_done = t + row + 1
                    if n_done % thin == 0 and piece + 2 == piece_bounds.shape[0]:
                        sample = squares[c, 0, n_done // thin - 1]
                        pack_octets(own.ctypes.data + SPARE, n_bits, sample.ctypes.data, squares.strides[1])
    return n_flips
