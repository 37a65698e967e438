"""Energies of many states at once, in float64 from the user's couplings.

E = -sum_{j<i} W_ij s_i s_j - sum_i b_i s_i.
"""

import numpy as np

from .arrays import copy_row, empty
from .jit import borrowing, inlined, kernel
from .vector_forms import (
    PAIRED,
    PAIRED_WIDE,
    subtract_edges,
    subtract_edges_wide,
    subtract_pairs,
    subtract_pairs_wide,
)
from .vectors import TILED


@kernel
def energies_dense(values, weights, bias, energies, start, stop):
    """Add to the energy (without offset) of every lane what units `start` to `stop` bring, with all before them.

    Mutates `energies` (lanes,).
    `values` (n_units, lanes) float64 holds the units' values, `bias` is (n_units, 1) or (n_units, lanes); lanes is a
    multiple of 16. Cost: n_units^2 / 2 multiplications and additions a lane for all units, in the same order on every
    processor, in however many pieces.
    """
    field, step = empty(PAIRED_WIDE, np.float64), 1 if bias.shape[1] > 1 else 0
    n_lanes, next_unit, next_weight = values.shape[1], values.strides[0], weights.strides[1]
    for first in range(0, n_lanes, PAIRED_WIDE):
        here, at = energies[first : first + PAIRED_WIDE], values.ctypes.data + 8 * first
        for i in range(start, stop):
            for k in range(here.shape[0]):
                field[k] = bias[i, step * (first + k)]
            if not TILED:
                _subtract_plainly(here, values[:, first : first + PAIRED_WIDE], weights[i], field, i)
                continue
            row = weights.ctypes.data + i * weights.strides[0]
            if here.shape[0] == PAIRED_WIDE:
                subtract_pairs_wide(here.ctypes.data, at, next_unit, row, next_weight, field.ctypes.data, i)
            else:
                subtract_pairs(here.ctypes.data, at, next_unit, row, next_weight, field.ctypes.data, i)


def _subtract_plainly(energies, values, row, field, unit):
    """Subtract pairs as `subtract_pairs` does, without compiler. Mutates `energies`."""
    for lane in range(energies.shape[0]):
        total = field[lane]
        for j in range(unit):
            total += row[j] * values[j, lane]
        energies[lane] -= values[unit, lane] * total


@kernel
def energies_sparse(up, graph, bias, values, energies):
    """Compute the energy (without offset) of every lane. Mutates `energies` (lanes,).

    `up` (n_units, lanes) uint8 holds the bits, `values` is (lo, span): a unit is lo + span up. `graph` is (indptr,
    indices, weights) with indices increasing in each row, `bias` (n_units, 1) or (n_units, lanes).  Cost: n_edges
    multiplications and additions a lane, in the same order on every processor.
    """
    fill_energies_sparse(up, graph, bias, values, empty(energies.shape[0], np.float64), energies)


@inlined
def fill_energies_sparse(up, graph, bias, values, field, energies):
    """Do what `energies_sparse` does; `field` (lanes,) is room."""
    indptr, indices, weights = graph
    lo, span = values
    lanes = energies.shape[0]
    tiled = lanes // PAIRED * PAIRED if TILED else 0
    for lane in range(lanes):
        energies[lane] = 0.0
    for i in range(up.shape[0]):
        if bias.shape[1] == 1:
            own = bias[i, 0]
            for lane in range(lanes):
                field[lane] = own
        else:
            copy_row(field, bias[i])
        begin, end = indptr[i], indptr[i]
        while end < indptr[i + 1] and indices[end] < i:
            end += 1
        about = up.strides[0], indices.ctypes.data + 4 * begin, weights.ctypes.data + 8 * begin
        first = 0
        while first < tiled:
            to, own_up = energies.ctypes.data + 8 * first, up.ctypes.data + first
            start = field.ctypes.data + 8 * first
            if first + PAIRED_WIDE <= tiled:
                subtract_edges_wide(to, own_up, *about, start, i, end - begin, lo, lo + span)
                first += PAIRED_WIDE
            else:
                subtract_edges(to, own_up, *about, start, i, end - begin, lo, lo + span)
                first += PAIRED
        for k in range(begin, end):
            w, j = weights[k], indices[k]
            for lane in range(tiled, lanes):
                field[lane] += w * (lo + span * up[j, lane])
        for lane in range(tiled, lanes):
            energies[lane] -= (lo + span * up[i, lane]) * field[lane]


@borrowing
def fill_energies_few(up, graph, bias, values, field, energies):
    """Do what `fill_energies_sparse` does of few lanes: loops over a single one take longer than its additions."""
    if energies.shape[0] == 1:
        energies[0] = _energy_of_lane(up, graph, bias, values)
    else:
        fill_energies_sparse(up, graph, bias, values, field, energies)


@borrowing
def _energy_of_lane(up, graph, bias, values):
    """Return the energy of the only lane, by the additions of `fill_energies_sparse` in their order."""
    indptr, indices, weights = graph
    lo, span = values
    energy = 0.0
    for i in range(up.shape[0]):
        field = bias[i, 0]
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if j >= i:
                break
            field += weights[k] * (lo + span * up[j, 0])
        energy -= (lo + span * up[i, 0]) * field
    return energy
