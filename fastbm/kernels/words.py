"""Chains in the bits of words: to rows of states and back, and their energies.

Chain c is bit c % 32 of word c // 32 of every unit; units have 4 words or 16.
"""

from __future__ import annotations

import numpy as np

from .arrays import empty
from .jit import apart, config, inlined, kernel
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
def _gather(up, first, n_groups, squares):
    """Copy the words of so many groups of 32 units to squares. Mutates `squares`.

    A word of chains has `n_groups` columns of a square: 4, or all 16.
    """
    for k in range(32):
        end = min(n_groups, (up.shape[0] - first - k + 31) >> 5)
        for w in range(up.shape[1]):
            place = 32 * LANES * (w * n_groups >> 4) + LANES * k + (w * n_groups & 15)
            row = squares[place : place + n_groups]
            if end == n_groups:
                for group in range(n_groups):
                    row[group] = up[first + k + 32 * group, w]
                continue
            for group in range(n_groups):
                row[group] = up[first + k + 32 * group, w] if group < end else _NONE


@inlined
def _scatter(squares, n_words, n_groups, rows, column):
    """Write each chain's words to its row, from a column on. Mutates `rows`."""
    n_columns = min(n_groups, rows.shape[1] - column)
    for w in range(n_words):
        for k in range(min(32, rows.shape[0] - 32 * w)):
            place = 32 * LANES * (w * n_groups >> 4) + LANES * k + (w * n_groups & 15)
            row, found = rows[32 * w + k, column : column + n_columns], squares[place : place + n_groups]
            if n_columns == n_groups:
                for group in range(n_groups):
                    row[group] = found[group]
            else:
                for group in range(n_columns):
                    row[group] = found[group]


@kernel
def pack_words(up, rows):
    """Write each chain's units as bits, unit 0 in the lowest one. Mutates `rows` (n_chains, ceil(n_units / 32)) uint32.

    `up` is (n_units, words) uint32. 512 units are written at once, a cache line of a row of `rows`, as rows lie far
    from each other; where no more than 128 are left, these.
    Cost: about 6 vector operations for 512 bits, and a copy of a word.
    """
    n_words = up.shape[1]
    squares = empty(n_words * 32 * LANES, np.uint32)
    for column in range(0, rows.shape[1], LANES):
        few = rows.shape[1] - column <= 4
        # constants for LLVM, and one type for Numba, which would compile what is given literals once for each
        if few:
            _gather(up, 32 * column, np.int64(4), squares)
        else:
            _gather(up, 32 * column, np.int64(LANES), squares)
        for s in range(n_words // 4 if few else n_words):
            _transpose(squares[32 * LANES * s :])
        if few:
            _scatter(squares, n_words, np.int64(4), rows, column)
        else:
            _scatter(squares, n_words, np.int64(LANES), rows, column)


@apart
def exchange_bits(one, v, other, w, mask):
    """Exchange the bits of `mask` of word `v` and word `w` of every unit. Mutates `one`, `other` (n_units, words)."""
    for i in range(one.shape[0]):
        x = _U(_U(one[i, v] ^ other[i, w]) & mask)
        one[i, v] = _U(one[i, v] ^ x)
        other[i, w] = _U(other[i, w] ^ x)


@apart
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
        add_plainly(up, edges, weights, conjunction, energies)
        add_plainly(up, ends, bias, False, energies)


@inlined
def add_plainly(up, edges, weights, conjunction, energies):
    """Add weights of edges as `energies_words` does. Mutates `energies`."""
    for e in range(edges.shape[0]):
        i, j = edges[e]
        for w in range(up.shape[1]):
            word = up[i, w] & up[j, w] if conjunction else up[i, w] ^ up[j, w]
            for lane in range(32):
                if (word >> _U(lane)) & _U(1):
                    energies[32 * w + lane] += weights[e]
