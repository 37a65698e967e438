"""Sums over all states, and the states of lowest energy: Gray code over the high units, tables over the low ones.

The code changes one high unit a step (Gray, US patent 2632058, 1953), which costs O(n) additions for the fields; for
every setting of the high units the 2^k settings of the low ones are one vector. Energies are integers (fixed point), so
that they neither drift nor round, and states of equal energy are exactly equal. Weights are 2^-z with z = scale (E -
reference); tables of the low units come with the reference, an energy near the lowest, taken off, so that nothing
overflows. Slices are blocks of the code: 2^depth steps from a multiple of 2^depth.

A state has a number, bit i for unit i up, and lists of the lowest states are ordered by energy, then by number. Those
that are kept stand in a heap with the last of them on top (Williams, Commun. ACM 7, 347 (1964),
doi:10.1145/512274.512284). A low state is found cheaply by steepest descent of integer energies from scattered starts
(`descend`).
"""

from __future__ import annotations

import numpy as np

from ..arrays import copy_row, empty, zeros
from ..functions import exp2_float64
from ..jit import inlined, kernel

LARGEST_Z = 1021.0  # beyond it weights stay as they are, so that z times a weight is a number
ROWS = 8  # parts of the table: the linear energy is written for one of them, and shifted for the others


@kernel
def tabulate_low(rises, table):
    """Fill `table` (2^k,) with the couplings' energy of every setting of k units, bit l of the index for unit l.

    Mutates `table`.
    `rises` (k, k) int64 symmetric.  Cost: 2^k k additions.
    """
    table[0] = 0
    field = empty(table.size, np.int64)
    for unit in range(rises.shape[0]):
        half = 1 << unit
        field[0] = 0
        for low in range(unit):
            for x in range(1 << low):
                field[(1 << low) + x] = field[x] + rises[unit, low]
        for x in range(half):
            table[half + x] = table[x] - field[x]


@kernel
def count_low(table):
    """Return the number of low units, k of 2^k settings."""
    k = 0
    while 1 << k < table.size:
        k += 1
    return k


@kernel
def begin_code(rises, k, step, field):
    """Put the high units (k and above) at a step of the code, from all down; return their energy. Mutates `field`.

    On entry `field` is that of all units down; on exit it is that of the step.  Cost: O(n) a unit that is up.
    """
    gray = step ^ (step >> 1)
    energy = np.int64(0)
    for i in range(k, field.size):
        if gray >> (i - k) & 1:
            energy -= field[i]
            for j in range(field.size):
                field[j] += rises[i, j]
    return energy


@kernel
def advance_code(rises, k, step, field):
    """Change the one high unit in which `step` differs from the step before it.

    Return what that adds to the energy. Mutates `field`, which stays the field of the state.  Cost: n additions.
    """
    bit, rest = 0, step
    while rest & 1 == 0:
        rest >>= 1
        bit += 1
    sign = -1 if rest & 2 else 1  # bit b of the code is up where bits b and b + 1 of the step differ
    change = -sign * field[k + bit]
    for j in range(field.size):
        field[j] += sign * rises[k + bit, j]
    return change


@kernel
def add_linear(field, energy, linear):
    """Write energy - sum_l field_l x_l for all settings x of the low units of `field`. Mutates `linear`."""
    linear[0] = energy
    for unit in range(field.size):
        half = 1 << unit
        for x in range(half):
            linear[half + x] = linear[x] - field[unit]


@inlined
def _height(scale, energy):
    """Return the height z of a state."""
    return min(scale * np.float64(energy), LARGEST_Z)


@kernel
def _weigh_step(table, linear, field, scale, weights, heights):
    """Write the weights w of all settings of the low units.

    Mutates `weights` (2^k,) and `heights` (3, 2^k / 4), to whose rows it writes w and adds w z and w z^2, each summed
    over the four settings of the two uppermost low units.
    `linear` is the energy less the table's over the other low units, `field` (2,) that of the two.  Cost: an
    exponential and a dozen operations a state. Four at a time are a tenth faster than one.
    """
    quarter = linear.size
    first, second = field[0], field[1]
    both = first + second
    for x in range(quarter):
        z0 = _height(scale, table[x] + linear[x])
        z1 = _height(scale, table[quarter + x] + linear[x] - first)
        z2 = _height(scale, table[2 * quarter + x] + linear[x] - second)
        z3 = _height(scale, table[3 * quarter + x] + linear[x] - both)
        w0, w1, w2, w3 = exp2_float64(-z0), exp2_float64(-z1), exp2_float64(-z2), exp2_float64(-z3)
        weights[x] = w0
        weights[quarter + x] = w1
        weights[2 * quarter + x] = w2
        weights[3 * quarter + x] = w3
        heights[0, x] = (w0 + w1) + (w2 + w3)
        w0, w1, w2, w3 = w0 * z0, w1 * z1, w2 * z2, w3 * z3
        heights[1, x] += (w0 + w1) + (w2 + w3)
        heights[2, x] += (w0 * z0 + w1 * z1) + (w2 * z2 + w3 * z3)


@kernel
def _total(values):
    """Add up 2^m numbers, halving them. Mutates `values`."""
    half = values.size
    while half > 1:
        half >>= 1
        for x in range(half):
            values[x] += values[half + x]
    return values[0]


@kernel
def sum_slice(rises, fields, table, start, depth, scale):
    """Return the sums of w, w z and w z^2 over 2^depth steps of the code from `start`.

    Units 0 to k - 1 are low (2^k = size of `table`, k >= 2), the rest high; all are 0 or 1, with couplings `rises` (n,
    n) and biases `fields` (n,) in int64, and `table` is that of `tabulate_low` less the reference.  Cost: an
    exponential and a dozen operations a state, vectorised, and O(n) a step.
    """
    k = count_low(table)
    field = fields.copy()
    energy = begin_code(rises, k, start, field)
    linear = empty(table.size // 4, np.int64)
    weights, heights = empty(table.size, np.float64), zeros((3, table.size // 4), np.float64)
    whole = 0.0
    for step in range(start, start + (1 << depth)):
        if step > start:
            energy += advance_code(rises, k, step, field)
        add_linear(field[: k - 2], energy, linear)
        _weigh_step(table, linear, field[k - 2 : k], scale, weights, heights)
        whole += _total(heights[0])
    return whole, _total(heights[1]), _total(heights[2])


@kernel
def _merge_nodes(nodes, up, merged, risen):
    """Join the two halves of a block, of which one has the unit up in which they differ. Mutates `merged`, `risen`."""
    for x in range(merged.size):
        merged[x] = nodes[0, x] + nodes[1, x]
        risen[x] += nodes[up, x]


@kernel
def _add_risen(total, bit, gray, pairs):
    """Count a block's weight for high unit `bit`, with those above it that are up. Mutates `pairs`."""
    pairs[bit, bit] += total
    for other in range(bit + 1, pairs.shape[0]):
        pairs[bit, other] += total * np.float64(gray >> other & 1)


@kernel
def sum_slice_moments(rises, fields, table, start, depth, scale, lows, pairs):
    """Do as `sum_slice`, and add up weights by units that are up.

    Mutates `lows` (1 + n - k, 2^k), whose row 0 gets the weights of the settings of the low units and row 1 + i those
    with high unit k + i up; and `pairs` (n - k, n - k), the weight with high units i <= j up.
    The two halves of a block of 2^(b + 1) steps differ in unit k + b, which is up in one of them: blocks are joined as
    bits carry in a counter, one join a step.  Cost: `sum_slice` and about six loads and stores a state.
    """
    k = count_low(table)
    field = fields.copy()
    energy = begin_code(rises, k, start, field)
    linear = empty(table.size // 4, np.int64)
    heights = zeros((3, table.size // 4), np.float64)
    nodes, totals = empty((depth + 1, 2, table.size), np.float64), empty((depth + 1, 2), np.float64)
    gray = start ^ (start >> 1)
    for step in range(start, start + (1 << depth)):
        if step > start:
            energy += advance_code(rises, k, step, field)
        add_linear(field[: k - 2], energy, linear)
        half = step & 1 if depth else 0
        _weigh_step(table, linear, field[k - 2 : k], scale, nodes[0, half], heights)
        totals[0, half] = _total(heights[0])
        gray = step ^ (step >> 1)
        bit = 0
        while bit < depth and step >> bit & 1:
            upper = step >> (bit + 1) & 1
            up = 1 - upper
            half = upper if bit + 1 < depth else 0
            _merge_nodes(nodes[bit], up, nodes[bit + 1, half], lows[1 + bit])
            totals[bit + 1, half] = totals[bit, 0] + totals[bit, 1]
            _add_risen(totals[bit, up], bit, gray, pairs)
            bit += 1
    for x in range(table.size):
        lows[0, x] += nodes[depth, 0, x]
    for bit in range(depth, pairs.shape[0]):  # high units that no step of the slice changes
        if gray >> bit & 1:
            _add_risen(totals[depth, 0], bit, gray, pairs)
            for x in range(table.size):
                lows[1 + bit, x] += nodes[depth, 0, x]
    return totals[depth, 0], _total(heights[1]), _total(heights[2])


@kernel
def sum_slice_distribution(rises, fields, table, start, depth, scale, weights):
    """Do as `sum_slice`, and add the weights to those of the settings of the first m >= k units.

    Mutates `weights` (2^m,), with bit l of the index for unit l.
    Cost: `sum_slice` and three loads and stores a state.
    """
    k = count_low(table)
    field = fields.copy()
    energy = begin_code(rises, k, start, field)
    linear = empty(table.size // 4, np.int64)
    step_weights, heights = empty(table.size, np.float64), zeros((3, table.size // 4), np.float64)
    rows = weights.reshape((-1, table.size))
    whole = 0.0
    for step in range(start, start + (1 << depth)):
        if step > start:
            energy += advance_code(rises, k, step, field)
        add_linear(field[: k - 2], energy, linear)
        _weigh_step(table, linear, field[k - 2 : k], scale, step_weights, heights)
        whole += _total(heights[0])
        row = rows[(step ^ (step >> 1)) & (rows.shape[0] - 1)]
        for x in range(table.size):
            row[x] += step_weights[x]
    return whole, _total(heights[1]), _total(heights[2])


@kernel
def _replace_top(energies, numbers, energy, number):
    """Put a state in the place of the last one kept.

    Mutates `energies`, `numbers`, a heap on entry and exit.  Cost: O(log of its size).
    """
    place, size = 0, energies.size
    while 2 * place + 1 < size:
        child = 2 * place + 1
        other = child + 1
        if other < size and (
            energies[other] > energies[child]
            or (energies[other] == energies[child] and numbers[other] > numbers[child])
        ):
            child = other
        if energies[child] < energy or (energies[child] == energy and numbers[child] < number):
            break
        energies[place], numbers[place] = energies[child], numbers[child]
        place = child
    energies[place], numbers[place] = energy, number


@kernel
def _write_energies(table, linear, shifts, energies):
    """Write the energies of all settings of the low units; return the least. Mutates `energies`."""
    size = linear.size
    least = table[0] + linear[0]
    for row in range(shifts.size):
        shift, first = shifts[row], row * size
        for x in range(size):
            energy = table[first + x] + linear[x] + shift
            energies[first + x] = energy
            least = min(least, energy)
    return least


@kernel
def list_lowest(rises, fields, table, start, depth, energies, numbers):
    """Keep the lowest states among 2^depth steps of the code from `start` and those kept before.

    Mutates `energies`, `numbers` (n_lowest,) int64, a heap on entry and exit.
    Arguments as of `sum_slice`, with k >= 1 and nothing taken off `table`.  Cost: four operations a state,
    vectorised; a step is looked through only where its least energy can be among those kept.
    """
    k = count_low(table)
    field = fields.copy()
    energy = begin_code(rises, k, start, field)
    rows = min(ROWS, table.size)
    split = k - count_low(table[:rows])
    linear, shifts = empty(table.size // rows, np.int64), empty(rows, np.int64)
    all_energies = empty(table.size, np.int64)
    for step in range(start, start + (1 << depth)):
        if step > start:
            energy += advance_code(rises, k, step, field)
        add_linear(field[:split], energy, linear)
        add_linear(field[split:k], np.int64(0), shifts)
        least = _write_energies(table, linear, shifts, all_energies)
        number = (step ^ (step >> 1)) << k
        if least > energies[0] or (least == energies[0] and number > numbers[0]):
            continue
        for x in range(table.size):
            found = all_energies[x]
            if found < energies[0] or (found == energies[0] and number + x < numbers[0]):
                _replace_top(energies, numbers, found, number + x)


_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: multiples of it scatter bits evenly


@kernel
def descend(rises, fields, n_starts):
    """Return the lowest energy -sum_{i<j} rises_ij x_i x_j - sum_i fields_i x_i that descents reach.

    Starts are scattered evenly and always the same.  Cost: O(n^2) a start.
    """
    n = fields.size
    up, field = empty(n, np.int64), empty(n, np.int64)
    lowest = np.int64(0)
    for start in range(n_starts):
        energy = np.int64(0)
        copy_row(field, fields)
        for i in range(n):
            word = (np.uint64(start * n + i + 1) * _SPREAD) >> np.uint64(40)
            up[i] = np.int64(word & np.uint64(1))
            if up[i]:
                energy -= field[i]
                field += rises[i]
        while True:
            steepest, drop = -1, np.int64(0)
            for i in range(n):
                change = field[i] if up[i] else -field[i]
                if change < drop:
                    steepest, drop = i, change
            if steepest < 0:
                break
            energy += drop
            if up[steepest]:
                field -= rises[steepest]
            else:
                field += rises[steepest]
            up[steepest] ^= 1
        lowest = min(lowest, energy)
    return lowest
