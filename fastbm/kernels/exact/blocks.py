"""Exact sums and independent draws with the units in three blocks: tables of pairs of blocks, and their products.

For states a, b and c of the units of three blocks exp(-beta E) = F[a, b] G[b, c] H[a, c]. Z is the sum of (F G) * H,
2^n terms at the price of a matrix product, and F * (H G^T), G * (F^T H) and H * (F G) are the joint weights of two
blocks, which hold every first and second moment.

A table's energies are integers, one number a row, one a column, and a field of every column's unit that the row's
setting makes: E[r, c] = row_own[r] + col_own[c] - sum_l fields[r, l] c_l, so that nothing rounds before the
exponential. Each table is relative to its lowest energy. Heights above it are told in units of 2^61 integer steps.

Draws take a and c from their joint weights, then b given both, each by inversion of cumulative weights (Devroye,
Non-Uniform Random Variate Generation, 1986, ch. III.2).
"""

from __future__ import annotations

import numpy as np

from ..arrays import empty, zeros
from ..functions import exp_float64
from ..jit import apart, apart_borrowing, borrowing, kernel
from ..random import next_word, uniform_of_words

HEIGHT = 2.0**-61  # of one integer step
FARTHEST = 700.0  # exponents beyond it are flushed to 0: products of what is left are mostly normal numbers


@apart
def tabulate_energies(rises, fields, first, k):
    """Return (2^k,) the energies of every setting of units `first` to `first` + k, bit l of the index for the l-th.

    `rises` (n, n) int64 symmetric, `fields` (n,) int64.  Cost: 2^k k additions.
    """
    both = empty((2, 1 << k), np.int64)
    table, field = both[0], both[1]
    table[0] = 0
    for unit in range(k):
        field[0] = fields[first + unit]
        for low in range(unit):
            rise = rises[first + unit, first + low]
            for x in range(1 << low):
                field[(1 << low) + x] = field[x] + rise
        for x in range(1 << unit):
            table[(1 << unit) + x] = table[x] - field[x]
    return table


@apart
def tabulate_fields(rises, first, k, others, m):
    """Return the fields that every setting of some units makes for some others, (2^k, m).

    The former are units `first` to `first` + k, the latter `others` to `others` + m.

    `rises` (n, n) int64.  Cost: 2^k m additions.
    """
    table = zeros((1 << k, m), np.int64)
    for unit in range(k):
        half = 1 << unit
        for x in range(half):
            for other in range(m):
                table[half + x, other] = table[x, other] + rises[first + unit, others + other]
    return table


@apart_borrowing
def lowest_entry(own, fields):
    """Return the lowest of own[r] - sum_l fields[r, l] x_l over rows r and bits x."""
    lowest = own[0]
    for row in range(own.size):
        energy = own[row]
        for field in fields[row]:
            energy -= max(field, 0)
        lowest = min(lowest, energy)
    return lowest


@borrowing
def row_energies(form, row, first, energies):
    """Write a row's energies less the table's lowest, columns from `first` on.

    `energies` is 2^k long and `first` a multiple of it. Mutates `energies`.
    """
    row_own, col_own, fields, lowest = form
    start = row_own[row] - lowest
    low = 0
    while 1 << low < energies.size:
        low += 1
    for unit in range(low, fields.shape[1]):
        if first >> unit & 1:
            start -= fields[row, unit]
    energies[0] = start
    for unit in range(low):
        half, field = 1 << unit, fields[row, unit]
        for x in range(half):
            energies[half + x] = energies[x] - field
    for x in range(energies.size):
        energies[x] += col_own[first + x]


@kernel
def fill_table(form, beta, tilt, centre, table, first):
    """Write exp(-beta h) (1 + tilt (h - centre)), h a state's height, to `table`, whose first row is `first`.

    `form` is (row_own, col_own, fields, lowest); `beta` in inverse heights. Mutates `table`.  Cost: an exponential an
    entry, vectorised.
    """
    energies = empty(table.shape[1], np.int64)
    for row in range(table.shape[0]):
        row_energies(form, first + row, 0, energies)
        out = table[row]
        for x in range(energies.size):
            height = HEIGHT * np.float64(energies[x])
            exponent = beta * height
            weight = exp_float64(-exponent) * (1.0 + tilt * (height - centre))
            out[x] = weight if exponent < FARTHEST else 0.0


@borrowing
def _product_row(coefficients, matrix, out):
    """Write coefficients @ matrix to `out`, four rows at a time, so that `out` passes through memory less often."""
    n = coefficients.size
    for x in range(out.size):
        out[x] = 0.0
    k = 0
    while k + 4 <= n:
        a, b, c, d = coefficients[k], coefficients[k + 1], coefficients[k + 2], coefficients[k + 3]
        first, second, third, fourth = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        for x in range(out.size):
            out[x] += (a * first[x] + b * second[x]) + (c * third[x] + d * fourth[x])
        k += 4
    for rest in range(k, n):
        a, first = coefficients[rest], matrix[rest]
        for x in range(out.size):
            out[x] += a * first[x]


@borrowing
def _fold(weights, sums):
    """Write for every unit of the columns the weight with it up, and the whole at the end; spoils `weights`."""
    k = sums.size - 1
    for unit in range(k - 1, -1, -1):
        half = 1 << unit
        upper = weights[half : 2 * half]
        for x in range(half):
            weights[x] += upper[x]
        while half > 1:
            half >>= 1
            for x in range(half):
                upper[x] += upper[half + x]
        sums[unit] = upper[0]
    sums[k] = weights[0]


@borrowing
def _weigh_row(weights, energies, by_row, by_col):
    """Add a row of weights to sums by row (units of the columns up, whole) and by column (w, w h, w h^2)."""
    zeroth, first, second = by_col
    for x in range(energies.size):
        height = HEIGHT * np.float64(energies[x])
        weight = weights[x]
        zeroth[x] += weight
        first[x] += weight * height
        second[x] += weight * height * height
    _fold(weights, by_row)


@kernel
def weigh(product, table, form, corner, by_row, by_col):
    """Add the weights product * table to sums by row and by column.

    `product` and `table` are the same tile of two tables, whose upper left entry is at `corner` (row, column). Mutates
    `product` (spoiled), `by_row` (rows, k + 1), the weight with unit l of the tile's 2^k columns up, and at the end the
    whole, and `by_col` (3, 2^k): the sums of w, w h and w h^2, h the height.  Cost: about six additions an entry.
    """
    energies = empty(product.shape[1], np.int64)
    for row in range(product.shape[0]):
        row_energies(form, corner[0] + row, corner[1], energies)
        weights, others = product[row], table[row]
        for x in range(energies.size):
            weights[x] *= others[x]
        _weigh_row(weights, energies, by_row[row], by_col)


@kernel
def covary(products, table, form, corner, sums):
    """Add what tilted products tell of how heights vary together.

    With f, g the heights of F and G less their centres, and t the tilt, `products` (2, rows, 2^k) holds
    (F + t F f)(G + t G g) and (F - t F f)(G - t G g). Mutates `sums` (2, 2^k): 1 + t^2 f g and t (f + g) h, weighed.
    """
    energies = empty(table.shape[1], np.int64)
    for row in range(table.shape[0]):
        row_energies(form, corner[0] + row, corner[1], energies)
        _covary_row(products[0, row], products[1, row], table[row], energies, sums)


@borrowing
def _covary_row(plus, minus, table, energies, sums):
    both, one = sums
    for x in range(table.size):
        both[x] += table[x] * (0.5 * (plus[x] + minus[x]))
        one[x] += table[x] * (0.5 * (plus[x] - minus[x])) * (HEIGHT * np.float64(energies[x]))


@kernel
def add_pairs(by_row, by_col, first_row, first_col, pairs):
    """Write P(i and j up) for units of the rows and of the columns. Mutates `pairs` (n, n).

    `by_row` (2^a, c + 1) and `by_col` (3, 2^c) are as `weigh` leaves them for a whole table; its rows belong to the a
    units from `first_row` on, its columns to the c from `first_col` on.
    """
    c, a = by_row.shape[1] - 1, 0
    while 1 << a < by_row.shape[0]:
        a += 1
    total = 0.0
    sums, within, across = zeros((a, c + 1), np.float64), zeros((a, a), np.float64), zeros((c, c), np.float64)
    for row in range(by_row.shape[0]):
        total += by_row[row, c]
        for i in range(a):
            if row >> i & 1:
                for col in range(c + 1):
                    sums[i, col] += by_row[row, col]
                for j in range(i):
                    if row >> j & 1:
                        within[i, j] += by_row[row, c]
    for col in range(by_col.shape[1]):
        for i in range(c):
            if col >> i & 1:
                for j in range(i + 1):
                    if col >> j & 1:
                        across[i, j] += by_col[0, col]
    for i in range(a):
        unit = first_row + i
        pairs[unit, unit] = sums[i, c] / total
        for j in range(i):
            pairs[unit, first_row + j] = pairs[first_row + j, unit] = within[i, j] / total
        for j in range(c):
            pairs[unit, first_col + j] = pairs[first_col + j, unit] = sums[i, j] / total
    for i in range(c):
        for j in range(i + 1):
            share = across[i, j] / total
            pairs[first_col + i, first_col + j] = pairs[first_col + j, first_col + i] = share


@apart
def form_blocks(rises, fields, sizes):
    """Return the forms of F (a by b), G (b by c) and H (a by c): (row_own, col_own, fields, lowest) of each.

    The first `sizes`[0] units are A, the next `sizes`[1] B, the rest C. F holds A's own energy, G B's and H C's, so
    that the lowest entry of each is exact and cheap.
    """
    a, b, c = sizes
    zero = np.int64(0)  # a literal would compile what it is given to once more
    own_a, own_b = tabulate_energies(rises, fields, zero, a), tabulate_energies(rises, fields, a, b)
    own_c = tabulate_energies(rises, fields, a + b, c)
    to_b, to_c = tabulate_fields(rises, zero, a, a, b), tabulate_fields(rises, zero, a, a + b, c)
    b_to_c, c_to_a = tabulate_fields(rises, a, b, a + b, c), tabulate_fields(rises, a + b, c, zero, a)
    none = zeros((3, 1 << max(a, b, c)), np.int64)
    no_a, no_b, no_c = none[0, : 1 << a], none[1, : 1 << b], none[2, : 1 << c]
    return (
        (own_a, no_b, to_b, lowest_entry(own_a, to_b)),
        (own_b, no_c, b_to_c, lowest_entry(own_b, b_to_c)),
        (no_a, own_c, to_c, lowest_entry(own_c, c_to_a)),
    )


@kernel
def weigh_product(coefficients, matrix, table, energies, by_row, by_col):
    """`weigh` the whole of (coefficients @ matrix) * table, a row at a time: for tables that are small.

    `energies` are the table's, int64, less the lowest.
    """
    product = empty(table.shape[1], np.float64)
    for row in range(table.shape[0]):
        _product_row(coefficients[row], matrix, product)
        others = table[row]
        for x in range(product.size):
            product[x] *= others[x]
        _weigh_row(product, energies[row], by_row[row], by_col)


@apart
def sum_product(left, right, table):
    """Return the sum of (left @ right) * table, a row at a time."""
    sums = zeros((2, table.shape[1]), np.float64)
    product, totals = sums[0], sums[1]
    for row in range(table.shape[0]):
        _product_row(left[row], right, product)
        others = table[row]
        for x in range(product.size):
            totals[x] += product[x] * others[x]
    total = 0.0
    for x in range(totals.size):
        total += totals[x]
    return total


@kernel
def covary_products(left, right, table, energies, sums):
    """`covary` of whole tables that are small; `left` and `right` are the two tilted ones of each."""
    products = empty((2, table.shape[1]), np.float64)
    for row in range(table.shape[0]):
        for k in range(2):
            _product_row(left[k][row], right[k], products[k])
        _covary_row(products[0], products[1], table[row], energies[row], sums)


@kernel
def draw_uniforms(streams, uniforms):
    """Fill `uniforms` (n_draws, n_chains, m) with numbers of [0, 1). Mutates `streams` (4, n_chains) too.

    Each takes two words of its chain's stream, the higher first; a chain's draws come one after the other.
    """
    for chain in range(uniforms.shape[1]):
        a, b, c, d = streams[0, chain], streams[1, chain], streams[2, chain], streams[3, chain]
        for draw in range(uniforms.shape[0]):
            for k in range(uniforms.shape[2]):
                high, a, b, c, d = next_word(a, b, c, d)
                low, a, b, c, d = next_word(a, b, c, d)
                uniforms[draw, chain, k] = uniform_of_words(high, low)
        streams[0, chain], streams[1, chain], streams[2, chain], streams[3, chain] = a, b, c, d


@kernel
def find(cumulative, level):
    """Return the first index whose cumulative weight is above `level`, among those of some weight."""
    low, high = 0, cumulative.size - 1
    while low < high:
        middle = (low + high) >> 1
        if cumulative[middle] > level:
            high = middle
        else:
            low = middle + 1
    while low > 0 and cumulative[low] == cumulative[low - 1]:  # beyond the last weight, by rounding
        low -= 1
    return low


@kernel
def draw_blocks(uniforms, by_a, by_ac, left, right, settings):
    """Write the settings (m, 3) of a, b and c that `uniforms` (m, 3) stand for. Mutates `settings` int64.

    `by_a` (A,) are cumulative weights over a, `by_ac` (A, C) over c in every row, `left` (A, B) is F and `right` (C, B)
    the transpose of G: b has the weights left[a] * right[c].  Cost: two passes over B a draw.
    """
    size = left.shape[1]
    weights = empty(size, np.float64)
    for draw in range(settings.shape[0]):
        a = find(by_a, uniforms[draw, 0] * by_a[-1])
        c = find(by_ac[a], uniforms[draw, 1] * by_ac[a, -1])
        first, second = left[a], right[c]
        for b in range(size):
            weights[b] = first[b] * second[b]
        total = 0.0
        for b in range(size):
            total += weights[b]
            weights[b] = total
        settings[draw, 0], settings[draw, 2] = a, c
        settings[draw, 1] = find(weights, uniforms[draw, 2] * total)
