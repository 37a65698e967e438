"""Samples in the bits of words: rows of bits of every chain, and energies, of some samples at once.

A state has 128 chains, or as many samples of fewer chains beside each other as fit: chain c of sample j is lane
`lanes` j + c, and lane l is bit l % 32 of word l // 32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import copy_row
from ..jit import apart_borrowing
from ..patterns import WORDS
from ..unlike import sum_unlike
from ..vectors import TILED
from ..words import LINE, SIDE, fence, room_for_rows, states_beside, stream, write_rows, write_short_rows


def room_of_states(n_states: int, n_units: int, of_sums: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
    """Return room for so many states, with a unit more that is never up, and for their rows. It is not compiled.

    `of_sums` is that of `sum_unlike`.
    """
    states, n_chains = np.zeros((n_states, n_units + 1, WORDS), np.uint32), 32 * WORDS
    n_turned = states_beside(n_units)
    rows, sums = np.empty((n_turned * n_chains, -(-n_units // 8)), np.uint8), np.empty((n_states, n_chains))
    return states, sums, rows, room_for_rows(), of_sums


@apart_borrowing
def write_samples(first, end, beside, edges, many, room, found):
    """Write the samples from `first` on, before `end`, that states of the room hold.

    Mutates `found`, (rows (n_samples n_chains, ceil(n_units / 8)) uint8, or none, energies (n_samples, n_chains)), of
    which those of own chains are written, and `room`, of `room_of_states`. `beside` is (samples in a state, lanes of
    each, first own chain, chain after the last). `edges` is (as `sum_unlike` takes them, unit of their numbers,
    constant), as it takes `many`.
    Cost: that of `write_rows` and `sum_unlike`.
    """
    (ups, sums, some, room_of_rows, of_sums), (rows, energies) = room, found
    (side, lanes, begin, after), (about, unit, constant) = beside, edges
    n_chains, n_bytes, n_own = energies.shape[1], rows.shape[1], after - begin
    alike = side * n_own == SIDE and (side == 1 or n_own == n_chains)  # what is of a state lies side by side
    n_states, n_turned = (end - first + side - 1) // side, some.shape[0] // SIDE
    sum_unlike(ups[:n_states], about, many, of_sums, sums[:n_states])
    for k in range(n_states):
        t, up, energy = first + k * side, ups[k][:-1], sums[k]
        n_beside = min(side, end - t)
        for c in range(energy.shape[0]):
            energy[c] = constant + unit * energy[c]
        whole, one = alike and n_beside == side, t * n_chains + begin
        if rows.shape[0]:
            own, part = rows[one : one + SIDE], some[SIDE * (k % n_turned) : SIDE * (k % n_turned + 1)]
            at_once = whole and n_bytes % LINE == 0
            if n_turned == 1:
                write_rows(up, own if at_once else part, at_once, room_of_rows)
            elif k % n_turned == 0:
                n = min(n_turned, n_states - k)
                start, to = np.int64(ups.ctypes.data) + k * ups.strides[0], np.int64(some.ctypes.data)
                states = start, ups.strides[0], ups.strides[1], up.shape[0], n
                write_short_rows(states, room_of_rows, to, n_bytes, n_bytes, SIDE * n)
            if not at_once and whole and TILED and own.ctypes.data % LINE == 0:
                stream(own.ctypes.data, part.ctypes.data, n_bytes * SIDE)
            elif not at_once:
                for j in range(n_beside):
                    for c in range(n_own):
                        copy_row(rows[one + j * n_chains + c], part[lanes * j + c])
        place = energies.ctypes.data + 8 * one
        if whole and TILED and place % LINE == 0:
            stream(place, energy.ctypes.data, 8 * energy.shape[0])
        else:
            for j in range(n_beside):
                copy_row(energies[t + j, begin:after], energy[lanes * j : lanes * j + n_own])
    if TILED:
        fence()
