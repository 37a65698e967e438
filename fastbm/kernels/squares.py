"""Bits of samples in squares of `SIDE` rows and as many bits, turned: from a row for each sample to one for each unit.

`squares` (n, SIDE, QUAD) uint32 have `SIDE` bits of each row, of which the first is the lowest one of the first word.
`turned` (n, 32 LANES) uint32 have bit 32 w + k of a square's rows 32 g to 32 g + 31 in word LANES k + QUAD g + w.
"""

import numpy as np

from .bit_vectors import pack_octets
from .jit import apart_borrowing, borrowing
from .vectors import TILED
from .words import QUAD, SIDE, turn_bits

LANES = 4 * QUAD


@borrowing
def write_octets(octets, row, squares):
    """Write bytes of 0 and 1 as the bits of a row. Mutates `squares`; `octets` is contiguous."""
    whole = octets.shape[0] // 8 * 8 if TILED else 0
    if TILED:
        pack_octets(octets.ctypes.data, whole, squares[0, row].ctypes.data, squares.strides[0])
    for first in range(whole, octets.shape[0], 8):
        words, shift, word = squares[first // SIDE, row], np.uint32(first % 32), np.uint32(0)
        m = min(8, octets.shape[0] - first)
        for k in range(m):
            word |= np.uint32(octets[np.uint64(first + k)]) << np.uint32(k)  # looked up without a question of its sign
        place, mask = first % SIDE // 32, np.uint32((1 << m) - 1)
        words[place] = words[place] & ~np.uint32(mask << shift) | np.uint32(word << shift)


@apart_borrowing
def turn_squares(squares, turned):
    """Turn the bits of squares. Mutates `turned`.  Cost: about two vector operations a row and square."""
    for s in range(turned.shape[0]):
        if TILED:
            turn_bits(turned[s].ctypes.data, squares[s].ctypes.data, squares.strides[1])
        else:
            _turn_plainly(squares[s], turned[s])


def _turn_plainly(square, turned):
    """Turn the bits of a square as `turn_bits` does, without compiler. Mutates `turned`."""
    bits = (square[:, :, None] >> np.arange(32, dtype=np.uint32) & np.uint32(1)).reshape(QUAD, 32, QUAD, 32)
    words = (bits << np.arange(32, dtype=np.uint32)[:, None, None]).sum(axis=1, dtype=np.uint32)
    turned[:] = words.transpose(2, 0, 1).reshape(32 * LANES)


@borrowing
def pick_rows(turned, places, first, words):
    """Take the rows of some bits, at `places` counted from `first`. Mutates `words` (len(places), QUAD)."""
    for i in range(places.shape[0]):
        place = first + places[i]
        begin = LANES * (place % 32) + place % SIDE // 32
        for g in range(QUAD):
            words[i, g] = turned[place // SIDE, begin + QUAD * g]


@borrowing
def write_rows(turned, rows):
    """Write the bits of turned squares, each one's as a row. Mutates `rows` (at most `SIDE`, n_bytes) uint8."""
    for t in range(rows.shape[0]):
        begin = LANES * (t % 32) + t // 32
        for b in range(rows.shape[1]):
            word = turned[b // (4 * QUAD), begin + QUAD * (b // 4 % QUAD)]
            rows[t, b] = np.uint8(word >> np.uint32(8 * (b % 4)))
