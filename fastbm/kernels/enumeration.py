"""Exact sums over all states: Gray code over the high units, a vectorised table over the low ones.

The code changes one high unit a step (Gray, US patent 2632058, 1953), which costs O(n) additions for the fields; for
every setting of the high units the 2^k settings of the low ones are one vector. Energies are integers in units of
`unit` (fixed point), so that they neither drift nor round, and states of equal energy are exactly equal. Weights are
taken relative to the lowest energy seen, so that nothing overflows.
"""

import numpy as np

from .._jit import kernel
from .functions import exp_float64


@kernel
def tabulate_low(rises, table):
    """Fill `table` (2^k,) with the couplings' energy of every setting of k units, bit l of the index for unit l.
    Mutates `table`.

    `rises` (k, k) int64 symmetric.  Cost: 2^k k additions.
    """
    table[0] = 0
    field = np.empty(table.size, np.int64)
    for unit in range(rises.shape[0]):
        half = 1 << unit
        field[0] = 0
        for low in range(unit):
            for x in range(1 << low):
                field[(1 << low) + x] = field[x] + rises[unit, low]
        for x in range(half):
            table[half + x] = table[x] - field[x]


@kernel
def _add_linear(table, field, energy, energies):
    """Write energy + table[x] - sum_l field_l x_l for all x."""
    energies[0] = energy
    for unit in range(field.size):
        half = 1 << unit
        for x in range(half):
            energies[half + x] = energies[x] - field[unit]
    for x in range(energies.size):
        energies[x] += table[x]


@kernel
def _fold(weights, sums):
    """Write, for every low unit, the weight of the settings in which it is up; return the whole. Mutates `weights`."""
    for unit in range(sums.size - 1, -1, -1):
        half = 1 << unit
        upper = weights[half : 2 * half]
        for x in range(half):
            weights[x] += upper[x]
        while half > 1:
            half >>= 1
            for x in range(half):
                upper[x] += upper[half + x]
        sums[unit] = upper[0]
    return weights[0]


@kernel
def _lower_reference(sums, pairs, shift):
    """Refer all sums to an energy that is lower by `shift` (in units of 1 / beta). Mutates `sums`, `pairs`."""
    factor = exp_float64(-shift)
    for x in range(sums.shape[1]):
        sums[2, x] = factor * (sums[2, x] + 2.0 * shift * sums[1, x] + shift * shift * sums[0, x])
        sums[1, x] = factor * (sums[1, x] + shift * sums[0, x])
        sums[0, x] *= factor
    pairs *= factor


@kernel
def enumerate_slice(rises, fields, table, start, stop, unit, sums, pairs):
    """Sum exp(-beta E) and its moments over steps `start` to `stop` of the Gray code of the high units; return the
    lowest energy met, which all sums are relative to.

    Units 0 to k - 1 are low (2^k = size of `table`, k >= 1), the rest high; all are 0 or 1, with couplings `rises` (n,
    n) and biases `fields` (n,) in int64. `unit` is beta times the energy of one integer step. Mutates, all from zero:
    `sums` (3, 2^k), for every setting of the low units the sum of w, w x and w x^2, where w = exp(-x) and x = beta (E -
    lowest); `pairs` (n, n), the weight with units i and j up, for i <= j high and for i high, j low. Cost: an
    exponential and about fifteen additions a state, vectorised, and O(n^2) a step.
    """
    size = table.size
    n, k = rises.shape[0], 0
    while 1 << k < size:
        k += 1
    up = np.zeros(n, np.int64)
    field = fields.copy()
    energy = np.int64(0)
    gray = start ^ (start >> 1)
    for i in range(k, n):
        if gray >> (i - k) & 1:
            energy -= field[i]
            up[i] = 1
            field += rises[i]
    energies = np.empty(size, np.int64)
    weights = np.empty(size)
    low_sums = np.empty(k)
    lowest = np.int64(0)
    for step in range(start, stop):
        if step > start:
            i, rest = k, step
            while rest & 1 == 0:
                rest >>= 1
                i += 1
            sign = -1 if up[i] else 1
            energy -= sign * field[i]
            up[i] ^= 1
            for j in range(n):
                field[j] += sign * rises[i, j]
        _add_linear(table, field[:k], energy, energies)
        least = energies[0]
        for x in range(size):
            least = min(least, energies[x])
        if step == start:
            lowest = least
        elif least < lowest:
            _lower_reference(sums, pairs, unit * np.float64(lowest - least))
            lowest = least
        for x in range(size):
            height = unit * np.float64(energies[x] - lowest)
            weight = exp_float64(-height)
            weights[x] = weight
            sums[0, x] += weight
            sums[1, x] += weight * height
            sums[2, x] += weight * height * height
        whole = _fold(weights, low_sums)
        for i in range(k, n):
            if up[i]:
                for low in range(k):
                    pairs[i, low] += low_sums[low]
                for j in range(i, n):
                    if up[j]:
                        pairs[i, j] += whole
    return lowest
