"""The states of lowest energy, by Gray code; see `fastbm.kernels.enumeration`.

A state has a number, bit i for unit i up, and states are ordered by energy, then by number. Those that are kept stand
in a heap with the last of them on top (Williams, Commun. ACM 7, 347 (1964), doi:10.1145/512274.512284).
"""

import numpy as np

from .._jit import kernel
from .enumeration import add_linear, advance_code, begin_code, count_low

ROWS = 8  # parts of the table: the linear energy is written for one of them, and shifted for the others


@kernel
def _replace_top(energies, numbers, energy, number):
    """Put a state in the place of the last one kept. Mutates `energies`, `numbers`, a heap on entry and exit.  Cost:
    O(log of its size).
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
    """Keep the lowest states among 2^depth steps of the code from `start` and those kept before. Mutates `energies`,
    `numbers` (n_lowest,) int64, a heap on entry and exit.

    Arguments as of `enumeration.sum_slice`, with k >= 1 and nothing taken off `table`.  Cost: four operations a state,
    vectorised; a step is looked through only where its least energy can be among those kept.
    """
    k = count_low(table)
    field = fields.copy()
    energy = begin_code(rises, k, start, field)
    rows = min(ROWS, table.size)
    split = k - count_low(table[:rows])
    linear, shifts = np.empty(table.size // rows, np.int64), np.empty(rows, np.int64)
    all_energies = np.empty(table.size, np.int64)
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
