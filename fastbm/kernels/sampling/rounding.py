"""Couplings as integers, what rounding changes at most in a field, and what it leaves: one pass over the couplings."""

import numpy as np

from ..arrays import empty
from ..jit import borrowing, kernel

LANES = 16  # sums side by side
TOGETHER, WIDE = 4, 64  # rows, of which any may be up, and columns that are looked at together


@borrowing
def round_rows(values, factor, integers, worst, room):
    """Write values times `factor`, rounded, to `integers`; and to `worst` what that changes a field by at most.

    Mutates `integers` (n, width), width at least n, and `worst` (n,): in each row the larger one of the sums of all
    that rounding adds and of all that it takes away. `values` is (n, n) float64, `factor` a power of two, `room` (2,
    `LANES`) float64.
    Cost: one pass over `values`.
    """
    raised, lowered, n = room[0], room[1], values.shape[1]
    for i in range(values.shape[0]):
        row, out = values[i], integers[i]
        room[:] = 0.0
        for first in range(0, n - n % LANES, LANES):
            for k in range(LANES):
                scaled = row[first + k] * factor
                whole = np.rint(scaled)
                out[first + k] = whole
                change = whole - scaled
                raised[k] += max(change, 0.0)
                lowered[k] += max(-change, 0.0)
        for j in range(n - n % LANES, n):
            scaled = row[j] * factor
            whole = np.rint(scaled)
            out[j] = whole
            raised[0] += max(whole - scaled, 0.0)
            lowered[0] += max(scaled - whole, 0.0)
        up, down = 0.0, 0.0
        for k in range(LANES):
            up += raised[k]
            down += lowered[k]
        worst[i] = max(up, down)


@kernel
def round_edges(indptr, values, factor, integers, worst):
    """Do what `round_rows` does for the rows of a sparse matrix: (n + 1,) int64, (n_edges,) float64.

    Mutates `integers` (n_edges,) and `worst` (n,). Cost: one pass over `values`.
    """
    for i in range(worst.shape[0]):
        raised, lowered = 0.0, 0.0
        for k in range(indptr[i], indptr[i + 1]):
            scaled = values[k] * factor
            whole = np.rint(scaled)
            integers[k] = whole
            raised += max(whole - scaled, 0.0)
            lowered += max(scaled - whole, 0.0)
        worst[i] = max(raised, lowered)


@kernel
def fill_remainders(values, factor, integers, steps, rest):
    """Write what rounding has left below the diagonal, in `steps` of a unit, to `rest`; return whether it is any.

    Mutates `rest` (n_bytes, n or more, as many) int8, the higher bytes first. Other arguments are those of
    `round_rows`, which has filled `integers`.
    Cost: one pass over `values`.
    """
    most, n_bytes = 0, rest.shape[0]
    nowhere = empty(rest.shape[2], np.int8)  # a row that is written twice at once is no vector code
    for i in range(values.shape[0]):
        row, whole, low, high = values[i], integers[i], rest[n_bytes - 1, i], rest[0, i] if n_bytes == 2 else nowhere
        for j in range(i):
            left = np.int32(np.rint((row[j] * factor - whole[j]) * steps))
            most = max(most, abs(left))
            upper = (left + 128) >> 8 if n_bytes == 2 else 0
            high[j] = upper
            low[j] = left - 256 * upper
    return most > 0


@kernel
def worst_remainder(values, factor, integers, steps):
    """Return what remainders that are whole numbers of `steps` of a unit change an energy by at most, in these.

    That is the largest sum_(j < i) r_ij x_i x_j over all states x of 0 and 1, or less the smallest one, r being what
    rounding leaves; no more than this is returned. Of four rows at a time any may be up, in 16 ways, and of the columns
    before them those whose sums have one sign. Arguments are those of `fill_remainders`.
    Cost: about three operations for four pairs of units and a way.
    """
    n, total, none = values.shape[0], 0.0, np.float32(0.0)
    left, whole_sums = empty((TOGETHER, WIDE), np.float32), empty((TOGETHER, WIDE), np.float32)
    sums, raised = empty((1 << TOGETHER, WIDE), np.float32), empty((1 << TOGETHER, WIDE), np.float32)
    ups, signed = empty(1 << TOGETHER, np.float64), empty(1 << TOGETHER, np.float64)
    width = left.shape[1]  # which the compiler is not to know, or it writes out loops that are then no vector code
    for first in range(0, n, TOGETHER):
        m = min(TOGETHER, n - first)
        for way in range(1 << TOGETHER):
            for k in range(width):
                sums[way, k] = raised[way, k] = none
        for i in range(TOGETHER):
            for k in range(width):
                whole_sums[i, k] = none
        for start in range(0, first, WIDE):
            for i in range(m):
                row, whole = values[first + i, start : start + WIDE], integers[first + i, start : start + WIDE]
                rest, of_row, n_columns = left[i], whole_sums[i], min(width, first - start)
                for k in range(n_columns):
                    scaled = (row[k] * factor - whole[k]) * steps
                    rest[k] = np.float32(scaled - np.rint(scaled))
                for k in range(n_columns, width):
                    rest[k] = none
                for k in range(width):
                    of_row[k] += rest[k]
                for before in range(1 << i):  # ways without this row
                    without, both, more = sums[before], sums[before + (1 << i)], raised[before + (1 << i)]
                    for k in range(width):
                        both[k] = without[k] + rest[k]
                        more[k] += max(both[k], none)
        for way in range(1 << TOGETHER):
            ups[way] = signed[way] = 0.0
        for k in range(width):  # additions to one number wait for one another
            for way in range(1 << TOGETHER):
                ups[way] += raised[way, k]
        for i in range(m):
            whole_sum = np.float32(0.0)
            for k in range(width):
                whole_sum += whole_sums[i, k]
            for before in range(1 << i):
                signed[before + (1 << i)] = signed[before] + whole_sum
        most = 0.0
        for way in range(1 << m):
            most = max(most, ups[way], ups[way] - signed[way])
        total += most + 0.25 * m * (m - 1)  # half a step for each pair of these rows
    return total * 1.001  # for what sums in float32 have lost
