"""Replicas in the bits of words: into rows of states and back, and the couplings that each goes against.

Replica r of a block is bit r % 32 of word r // 32; see `fastbm.kernels.multispin`.
"""

import numpy as np

from .._jit import kernel
from .multispin import WORDS

_NONE = np.uint32(0)
_U = np.uint32  # numba widens results of uint32 operations: cast after every one


@kernel
def _count_edge(low, up, i, j, sign):
    """Count one edge in counters of four bits. Mutates `low` (64,)."""
    for w in range(WORDS):
        x = _U(_U(up[i, w] ^ up[j, w]) ^ sign)
        a, b, c = low[w], low[16 + w], low[32 + w]
        two = _U(a & x)
        four = _U(b & two)
        low[w], low[16 + w], low[32 + w] = _U(a ^ x), _U(b ^ two), _U(c ^ four)
        low[48 + w] = _U(low[48 + w] ^ _U(c & four))


@kernel
def _flush(planes, low, carry):
    """Add the counters of four bits to those of 32 bits, and empty them. Mutates `planes` (32, 16), `low`, `carry`."""
    carry[:] = 0
    left, p = _NONE, 0
    while p < 4 or left:
        left = _NONE
        for w in range(WORDS):
            add = low[16 * p + w] if p < 4 else _NONE
            old, over = planes[p, w], carry[w]
            planes[p, w] = _U(_U(old ^ add) ^ over)
            carry[w] = _U(_U(old & add) | _U(over & _U(old ^ add)))
            left = _U(left | carry[w])
        p += 1
    low[:] = 0


@kernel
def count_unsatisfied(up, edges, signs, totals):
    """Count each replica's edges whose coupling its units go against. Mutates `totals` (512,) int64.

    `edges` (m, 2), `signs` (m,) all ones where the coupling is negative.  Cost: about 12 vector operations an edge for
    all replicas.
    """
    planes = np.zeros((32, WORDS), np.uint32)
    low, carry = np.zeros(4 * WORDS, np.uint32), np.zeros(WORDS, np.uint32)
    for first in range(0, edges.shape[0], 15):
        for e in range(first, min(first + 15, edges.shape[0])):
            _count_edge(low, up, edges[e, 0], edges[e, 1], signs[e])
        _flush(planes, low, carry)
    for w in range(WORDS):
        for r in range(32):
            total = 0
            for p in range(32):
                total += np.int64((planes[p, w] >> np.uint32(r)) & np.uint32(1)) << p
            totals[32 * w + r] = total


@kernel
def _transpose(square):
    """Exchange rows and bits of 32 x 32 bits in every word. Mutates `square` (32, 16) uint32.

    Warren, Hacker's Delight (2013), section 7-3: blocks of 16, 8, 4, 2, 1 rows exchange halves of their words.
    """
    size, mask = 16, _U(0x0000FFFF)
    while size:
        shift = _U(size)
        for k in range(32):
            if not k & size:
                low, high = square[k], square[k + size]
                for w in range(WORDS):
                    x = _U(_U(_U(low[w] >> shift) ^ high[w]) & mask)
                    high[w] = _U(high[w] ^ x)
                    low[w] = _U(low[w] ^ _U(x << shift))
        size >>= 1
        mask = _U(mask ^ _U(mask << _U(size)))


@kernel
def pack_replicas(up, packed):
    """Pack each replica's units into bytes, unit 0 in the lowest bit. Mutates `packed` (n_replicas, ceil(n_units / 8)).

    Replica r is bit r % 32 of word r // 32 of `up` (n_units, 16).  Cost: 15 vector operations a unit for all replicas.
    """
    square = np.empty((32, WORDS), np.uint32)
    for first in range(0, up.shape[0], 32):
        for k in range(32):
            for w in range(WORDS):
                square[k, w] = up[first + k, w] if first + k < up.shape[0] else _NONE
        _transpose(square)
        for replica in range(packed.shape[0]):
            word = square[replica % 32, replica // 32]
            for byte in range(first // 8, min(first // 8 + 4, packed.shape[1])):
                packed[replica, byte] = np.uint8(word & np.uint32(255))
                word = _U(word >> np.uint32(8))


@kernel
def unpack_replicas(bits, up):
    """Set the words from bits (n_replicas, n_units) uint8. Mutates `up` (n_units, words)."""
    for i in range(up.shape[0]):
        for w in range(up.shape[1]):
            word = _NONE
            for r in range(min(32, bits.shape[0] - 32 * w)):
                word |= _U(_U(bits[32 * w + r, i]) << _U(r))
            up[i, w] = word
