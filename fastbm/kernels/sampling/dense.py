"""Single-spin Gibbs and Metropolis sweeps on dense couplings, with cached local fields.

Glauber, J. Math. Phys. 4, 294 (1963), doi:10.1063/1.1703954; Metropolis et al., J. Chem. Phys. 21, 1087 (1953),
doi:10.1063/1.1699114.

The site loop runs outside and the chain loop inside, so that one row of couplings serves every chain while it is in the
cache. Couplings and fields are integers (fixed point): sums of integers do not drift and do not depend on the order of
the updates, so a cached field equals the recomputed one exactly. Rows are padded to a multiple of 64 and walked 64
columns at a time: the update of a row is then full-width vector code without a scalar tail.

A flip adds a row of couplings to the field of its chain. The fields of many chains lie beyond the first cache, so that
most of its time goes by in loading and storing them. A block of up to 64 attempts therefore keeps only the fields of
its own units exact as it goes, in a window where chains lie side by side, and writes down which chains flip. At its end
part after part of each field is loaded into registers, the rows of all flips are added there, and it is stored, while
these parts of the rows serve all chains from the first cache. Of couplings that the second cache does not hold, the
part to come is fetched meanwhile. As sums of integers do not depend on their order, every bit is what it is where each
flip moves the whole field at once. That is done where it is faster: where fields are short, chains few or flips rare.
"""

from typing import Any

import numpy as np

from ..arrays import copy_row
from ..bit_vectors import (
    GROUP,
    NARROW,
    UNROLLED,
    WIDE,
    attempt_gibbs,
    attempt_metropolis,
    fetch_narrow,
    fetch_wide,
    move_narrow,
    move_wide,
)
from ..functions import count_bits
from ..jit import apart_borrowing, borrowing, inlined
from ..vectors import TILED, has_look_up, transpose_square
from .limits import ROWS, gibbs_limits, metropolis_limits

COLUMNS = 64  # and attempts in a block: rows and fields are padded to multiples
LEAST_FIELD = 64  # columns up to which a window is not worth its while
LONG_ROW = 512 if has_look_up() else COLUMNS  # columns up to which a branch costs more than to turn all numbers
# of all fields: from which on blocks are faster where each attempt is a flip, and above which they save no more
FLIP_BYTES, MOST_BYTES = 1 << 12 if has_look_up() else 1 << 13, 1 << 18

FAR_BYTES = 1 << 21  # of couplings, above which they are not in the second cache
SOON = 8  # attempts from now, whose couplings are fetched then


def room_of_fields(fields: Any) -> tuple[np.ndarray, ...]:
    """Return the room that `init_fields_dense` needs. It is not compiled."""
    return np.empty(COLUMNS, np.int32), np.empty((2, len(fields)), np.uint64), np.empty(COLUMNS, np.int64)


@borrowing
def init_fields_dense(fields, up, rises, start, room):
    """Compute the fields of all chains from their states. Mutates `fields` (n_chains, width), and `room`.

    Invariant on exit: fields[c, i] = start[c, i] + sum_j rises[j, i] up[j, c], where `rises` (n_units, width) is what a
    unit that goes up adds and `start` (1 or n_chains, width) is the field with all units down. Cost: n_units^2 n_chains
    integer additions at most.
    """
    n_units, n_chains = rises.shape[0], fields.shape[0]
    for c in range(n_chains):
        copy_row(fields[c], start[min(c, start.shape[0] - 1)])
    if TILED:
        units, moves, distances = room
        for first in range(0, n_units, COLUMNS):
            m = min(COLUMNS, n_units - first)
            for c in range(n_chains):
                moves[0, c] = moves[1, c] = np.uint64(0)
            for k in range(m):
                units[k] = first + k
                for c in range(n_chains):
                    moves[0, c] |= np.uint64(up[first + k, c]) << np.uint64(k)
            leave_block((fields, rises), units[:m], moves, distances)
        return
    for j in range(n_units):
        for c in range(n_chains):
            if up[j, c]:
                for i in range(fields.shape[1]):
                    fields[c, i] += rises[j, i]


@borrowing
def columns_of(rises):
    """Return the columns of rows of couplings that there are, padded: more are there to keep rows apart."""
    return -(-rises.shape[0] // COLUMNS) * COLUMNS


@borrowing
def are_blocks_faster(n_flips, n_attempts, fields, rises):
    """Return whether to keep a window, after so many flips in so many attempts."""
    n_bytes = fields.itemsize * fields.shape[0] * columns_of(rises)
    return TILED and rises.shape[0] > LEAST_FIELD and n_flips * min(n_bytes, MOST_BYTES) >= FLIP_BYTES * n_attempts


@apart_borrowing
def enter_block(fields, sites, room):
    """Make the window of a block with attempts at `sites`, at most `COLUMNS`. Mutates `room`.

    Returns what `visit_units` is to know of the units: whether they follow one another, and there are `COLUMNS` columns
    from the first one on.
    """
    _, moves, window, _, _ = room
    n_chains, is_run = fields.shape[0], sites[0] + COLUMNS <= fields.shape[1]
    for k in range(sites.shape[0]):
        is_run &= sites[k] == sites[0] + k
    for group in range(window.shape[0]):
        for lane in range(GROUP):
            window[group, COLUMNS, lane] = 0
            moves[0, GROUP * group + lane] = moves[1, GROUP * group + lane] = np.uint64(0)
        if is_run and GROUP * (group + 1) <= n_chains:
            to = window.ctypes.data + group * window.strides[0]
            first = fields.ctypes.data + GROUP * group * fields.strides[0] + sites[0] * fields.itemsize
            for k in range(0, COLUMNS, GROUP):
                to_square, of_square = to + k * window.strides[1], first + k * fields.itemsize
                transpose_square(fields, to_square, window.strides[1], of_square, fields.strides[0])
            continue
        for c in range(GROUP * group, min(GROUP * (group + 1), n_chains)):
            for k in range(sites.shape[0]):
                window[group, k, c % GROUP] = fields[c, sites[k]]
    return is_run


@inlined
def move_row(field, row, turned, n_columns):
    """Add the first columns of a row to a field, or subtract them where `turned` is -1 and not 0. Mutates `field`.

    To turn all numbers costs less than a branch that is taken at random.
    """
    for block in range(n_columns // COLUMNS):
        for k in range(COLUMNS):
            field[COLUMNS * block + k] += (row[COLUMNS * block + k] ^ turned) - turned


@apart_borrowing
def _move_long_row(field, row, was_up, n_columns):
    """Do what `move_row` does by that branch, which costs less than to turn many numbers. Mutates `field`."""
    if was_up:
        for block in range(n_columns // COLUMNS):
            for k in range(COLUMNS):
                field[COLUMNS * block + k] -= row[COLUMNS * block + k]
    else:
        for block in range(n_columns // COLUMNS):
            for k in range(COLUMNS):
                field[COLUMNS * block + k] += row[COLUMNS * block + k]


@apart_borrowing
def _visit_window(up, chains, block, limits, hold, room):
    """Do what `visit_units` does in a block."""
    (fields, rises), (sites, first, _, is_run), (_, moves, window, picked, _) = chains, block, room
    n_flips, n_chains, size, is_far = 0, fields.shape[0], fields.itemsize, rises.shape[0] * rises.strides[0] > FAR_BYTES
    for p in range(limits.shape[0]):
        k = first + p
        # fields of units before it, up to the first of `UNROLLED`, are looked at no more
        next_ = k // UNROLLED * UNROLLED
        i, mark, n_next = sites[k], np.uint64(1) << np.uint64(k), -(-(sites.shape[0] - next_) // UNROLLED)
        row = rises.ctypes.data + i * rises.strides[0]
        numbers = row + size * (sites[0] + next_)
        if is_far:
            fetch_wide(row)  # with which `leave_block` begins
            soon = sites[min(k + SOON, sites.shape[0] - 1)]
            fetch_narrow(rises.ctypes.data + soon * rises.strides[0] + size * sites[0])
        if not is_run:
            for q in range(next_, sites.shape[0]):
                picked[q] = rises[i, sites[q]]
            numbers = picked.ctypes.data + size * next_
        for group in range(window.shape[0]):
            lane = GROUP * group
            fields_of = window.ctypes.data + group * window.strides[0]
            here, there = fields_of + k * window.strides[1], fields_of + next_ * window.strides[1]
            lacks = fields_of + COLUMNS * window.strides[1]
            limit = limits.ctypes.data + p * limits.strides[0] + size * lane
            bits = up.ctypes.data + i * up.strides[0] + lane
            those = (np.uint64(1) << np.uint64(min(GROUP, n_chains - lane))) - np.uint64(1)
            to, behind = moves.ctypes.data + moves.itemsize * lane, moves.strides[0]
            if hold is None:
                flips = attempt_gibbs(fields, here, there, n_next, numbers, lacks, limit, bits, to, behind, mark, those)
            else:
                flips = attempt_metropolis(
                    fields, here, there, n_next, numbers, lacks, limit, bits, to, behind, mark, those
                )
            n_flips += np.int64(count_bits(flips))
    return n_flips


@apart_borrowing
def visit_units(up, chains, block, limits, hold, room):
    """Make an attempt at a unit for each of `limits`; return the number of flips.

    Mutates `up`, the room, in a block its window and else the fields. `chains` is (fields, rises), `block` is (sites,
    first, by_blocks, is_run): the units of a block, and the place of the first attempt among them.
    """
    (fields, rises), (sites, first, by_blocks, _), flips = chains, block, room[0]
    if by_blocks:
        return _visit_window(up, chains, block, limits, hold, room)
    kind, n_flips, n_chains, n_columns = fields.dtype.type, 0, fields.shape[0], columns_of(rises)
    is_long = n_columns > LONG_ROW
    for p in range(limits.shape[0]):
        i, limit = sites[first + p], limits[p]
        bits, row = up[i], rises[i]
        # the list of chains that flip grows without a branch
        n = 0
        if hold is None:
            for c in range(n_chains):
                flips[n] = c
                n += (fields[c, i] > limit[c]) != bits[c]
        else:
            for c in range(n_chains):
                flips[n] = c
                rise = -fields[c, i] if bits[c] else fields[c, i]
                n += rise >= limit[c]
        for k in range(n):
            c = flips[k]
            was = bits[c]
            if is_long:
                _move_long_row(fields[c], row, was, n_columns)
            else:
                move_row(fields[c], row, kind(-kind(was)), n_columns)
            bits[c] = was ^ np.uint8(1)
        n_flips += n
    return n_flips


@apart_borrowing
def leave_block(chains, sites, moves, distances):
    """Move the fields by what has flipped at `sites`. Mutates the fields, `distances`; `chains` is (fields, rises).

    `moves` (2, n_chains or more) are words whose bits say which units have gone up, and which down. What registers hold
    of a field is loaded and stored once a block.
    """
    fields, rises = chains
    for k in range(sites.shape[0]):
        distances[k] = sites[k] * rises.strides[0]
    to, rows, places = fields.ctypes.data, rises.ctypes.data, distances.ctypes.data
    n_chains, is_far = fields.shape[0], rises.shape[0] * rises.strides[0] > FAR_BYTES
    first, end = 0, fields.itemsize * columns_of(rises)
    while first < end:
        is_wide = first + WIDE <= end
        for c in range(n_chains):
            field = to + c * fields.strides[0] + first
            if is_far and first + WIDE < end:
                for k in range(c, sites.shape[0], n_chains):
                    fetch_wide(rows + distances[k] + first + WIDE)
            if is_wide:
                move_wide(fields, field, rows + first, places, moves[0, c], moves[1, c])
            else:
                move_narrow(fields, field, rows + first, places, moves[0, c], moves[1, c])
        first += WIDE if is_wide else NARROW


@apart_borrowing
def advance_dense(up, chains, sites, n_sweeps, hold, room):
    """Update the unit at every entry of `sites` (rows, n), row after row, `n_sweeps` rows.

    `chains` is (fields, rises, scale, streams). Mutates `up`, fields, streams, and `room` of `dense_room`;
    returns the number of flips. Where `hold` is None, units are drawn from their conditional distribution; else flips
    are proposed, and accepted with (1 - hold / 2^32) min(1, exp(-beta dE)), `hold` as for `metropolis_limits`.

    `up` (n_units, lanes) uint8 holds the bits, one lane per chain; lanes beyond the chains draw and never flip, and
    lanes come in multiples of `GROUP` where there are more than `LEAST_FIELD` units. The scale (lanes,) float32 turns
    log-odds into the units of the fields.
    Invariant: fields[c] is what `init_fields_dense` gives for column c of `up`.
    Cost: O(lanes) an attempt, plus O(n_units) a flip.
    """
    fields, rises, scale, streams = chains
    limits, room_of_block = room
    _, moves, _, _, distances = room_of_block
    n_flips, is_run = np.int64(0), False
    by_blocks = are_blocks_faster(np.int64(1), np.int64(4), fields, rises)
    for t in range(n_sweeps):
        row = sites[t % sites.shape[0]]
        for start in range(0, row.shape[0], COLUMNS):
            some, before = row[start : start + COLUMNS], n_flips
            if by_blocks:
                is_run = enter_block(fields, some, room_of_block)
            for first in range(0, some.shape[0], ROWS):
                m = min(ROWS, some.shape[0] - first)
                if hold is None:
                    gibbs_limits(streams, scale, limits[:m])
                else:
                    metropolis_limits(streams, scale, hold, limits[:m])
                block = (some, first, by_blocks, is_run)
                n_flips += visit_units(up, (fields, rises), block, limits[:m], hold, room_of_block)
            if by_blocks:
                leave_block((fields, rises), some, moves, distances)
            by_blocks = are_blocks_faster(n_flips - before, some.shape[0] * fields.shape[0], fields, rises)
    return n_flips
