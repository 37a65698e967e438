"""Chains in the bits of words: to rows of states and back, and their energies.

Chain c is bit c % 32 of word c // 32 of every unit; units have 4 words or 16.
"""

from __future__ import annotations

import numpy as np

from .jit import config, inlined, kernel
from .vectors import add_common_edges, add_unlike_edges

LANES = 16  # words of 32 bits in a vector
_U = np.uint32
_NONE = np.uint32(0)
_COMPILED = not config.DISABLE_JIT


@kernel
def _transpose(square):
    """Exchange rows and bits of 32 rows of 16 words of 32 bits. Mutates `square` (512,) uint32.

    Warren, Hacker's Delight (2013), section 7-3: blocks of 16, 8, 4, 2, 1 rows exchange halves of their words.
    """
    size, mask = 16, _U(0x0000FFFF)
    while size:
        shift, apart = _U(size), size * LANES
        for start in range(0, 32 * LANES, 2 * apart):
            for k in range(start, start + apart):
                low, high = square[k], square[k + apart]
                x = _U(_U(_U(low >> shift) ^ high) & mask)
                square[k] = _U(low ^ _U(x << shift))
                square[k + apart] = _U(high ^ x)
        size >>= 1
        mask = _U(mask ^ _U(mask << _U(size)))


@inlined
def _gather(up, first, n_words, start, square):
    """Copy the words of 32 units to the rows of a square, from a place in the first row on. Mutates `square`."""
    for k in range(max(0, min(32, up.shape[0] - first))):
        for w in range(n_words):
            square[start + LANES * k + w] = up[first + k, w]


@inlined
def _scatter(square, n_words, step, n_columns, rows, column):
    """Write each chain's words to its row, from a column on; its words are `step` apart. Mutates `rows`."""
    for k in range(32):
        for w in range(min(n_words, (rows.shape[0] - k + 31) >> 5)):
            for group in range(n_columns):
                rows[32 * w + k, column + group] = square[LANES * k + step * group + w]


@kernel
def pack_words(up, rows):
    """Write each chain's units as bits, unit 0 in the lowest one. Mutates `rows` (n_chains, ceil(n_units / 32)) uint32.

    `up` is (n_units, words) uint32. 128 units are written at once, as columns of `rows` lie far from each other.
    Cost: about 6 vector operations for 512 bits, and a copy of a word.
    """
    few = up.shape[1] == 4
    n_squares, step = (1, 4) if few else (4, 32 * LANES)
    squares = np.zeros(n_squares * 32 * LANES, np.uint32)
    for column in range(0, rows.shape[1], 4):
        n_columns = min(4, rows.shape[1] - column)
        if 32 * (column + 4) > up.shape[0]:
            squares[:] = _NONE
        for group in range(4):
            if few:
                _gather(up, 32 * (column + group), 4, 4 * group, squares)
            else:
                _gather(up, 32 * (column + group), LANES, 32 * LANES * group, squares)
        for s in range(n_squares):
            _transpose(squares[32 * LANES * s :])
        if few and n_columns == 4:
            _scatter(squares, 4, 4, 4, rows, column)
        elif n_columns == 4:
            _scatter(squares, LANES, 32 * LANES, 4, rows, column)
        else:
            _scatter(squares, up.shape[1], step, n_columns, rows, column)


@kernel
def unpack_words(bits, up):
    """Set the words from bits (n_replicas, n_units) uint8. Mutates `up` (n_units, words)."""
    for i in range(up.shape[0]):
        for w in range(up.shape[1]):
            word = _NONE
            for r in range(min(32, bits.shape[0] - 32 * w)):
                word |= _U(_U(bits[32 * w + r, i]) << _U(r))
            up[i, w] = word


@kernel
def exchange_bits(one, v, other, w, mask):
    """Exchange the bits of `mask` of word `v` and word `w` of every unit. Mutates `one`, `other` (n_units, words)."""
    for i in range(one.shape[0]):
        x = _U(_U(one[i, v] ^ other[i, w]) & mask)
        one[i, v] = _U(one[i, v] ^ x)
        other[i, w] = _U(other[i, w] ^ x)


@kernel
def energies_words(up, edges, weights, ends, bias, conjunction, energies):
    """Add each chain's energy (without offset) but for a constant. Mutates `energies` (128,).

    `up` is (n_units + 1, 4) uint32, its last row zeros. A chain gets weights[e] where its units of `edges` (m, 2) int32
    are both up (with `conjunction`) or unlike, and bias[k] where those of `ends` (k, 2) are unlike.
    Cost: four masked additions of 8 numbers an edge for 32 chains, in the same order on every processor.
    """
    if _COMPILED:
        where = up.ctypes.data, energies.ctypes.data
        if conjunction:
            add_common_edges(*where, edges.ctypes.data, weights.ctypes.data, edges.shape[0])
        else:
            add_unlike_edges(*where, edges.ctypes.data, weights.ctypes.data, edges.shape[0])
        add_unlike_edges(*where, ends.ctypes.data, bias.ctypes.data, ends.shape[0])
    else:
        _add_plainly(up, edges, weights, conjunction, energies)
        _add_plainly(up, ends, bias, False, energies)


@inlined
def _add_plainly(up, edges, weights, conjunction, energies):
    for e in range(edges.shape[0]):
        i, j = edges[e]
        for w in range(up.shape[1]):
            word = up[i, w] & up[j, w] if conjunction else up[i, w] ^ up[j, w]
            for lane in range(32):
                if (word >> _U(lane)) & _U(1):
                    energies[32 * w + lane] += weights[e]
