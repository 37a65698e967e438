"""Energies from the cached fields of dense couplings, and from what rounding to fixed point has left of these.

Fields are sums of couplings that are rounded to multiples of 2^-e. What that leaves of a coupling, in `STEPS` of the
unit, is one signed byte, or two. Its sum over all pairs of units that are up is a product of a matrix of bytes with the
bits of many samples at once, which costs less than to keep fields of it.
"""

from typing import Any

import numpy as np

from ..bit_vectors import LANES, ROWS, add_forms, multiplies_bytes, sum_at_bits
from ..jit import apart_borrowing, borrowing, inlined
from ..vectors import TILED

STEPS = (1, 254, 254 * 256)  # of what rounding leaves, at most half a unit, in so many signed bytes
MULTIPLIES = multiplies_bytes()
TOGETHER = 256  # samples of all chains whose remainders are added together
_COPIES, _LOWEST = np.uint32(0x204081), np.uint32(0x1010101)  # four of four bits side by side, and a bit of each
BLOCK = 64  # rows, whose sums fit into 32 bits
MANY = 8  # chains, of fewer of which parts of rows take longer to make than single numbers to write


@borrowing
def energies_of_fields(up, fields, start, room, energies):
    """Compute each chain's energy above that of all units down, in the units of the fields.

    Mutates `energies` (n_chains,), and `room`, which `room_for_words` makes.
    Invariant on entry: `fields` as `fastbm.kernels.sampling.dense.init_fields_dense` gives them; -sum_i x_i (fields_i +
    start_i) / 2 then counts each pair once, exactly where fields are int32. `start` (1 or n_chains, width) is int64.
    Cost: O(n_units) a chain.
    """
    words, octets = room
    words_of_units(up, words, octets)
    sum_fields(words, fields, start, np.int64(1), energies)
    for c in range(energies.shape[0]):
        energies[c] *= -0.5


@apart_borrowing
def sum_fields(words, fields, start, steps, sums):
    """Compute sum_i x_i (steps fields_i + start_i) of each chain. Mutates `sums` (n_chains,) float64.

    `words` (n_chains, n_words) are what `words_of_units` gives, `start` (1 or n_chains, width) is int64.
    """
    for c in range(sums.shape[0]):
        row, total = min(c, start.shape[0] - 1), 0.0
        if fields.itemsize == 8:  # sums of int64 may overflow
            for i in range(64 * words.shape[1]):
                if words[c, i // 64] >> np.uint64(i % 64) & np.uint64(1):
                    total += np.float64(fields[c, i]) + np.float64(start[row, i])
        elif TILED:
            field, other = fields.ctypes.data + c * fields.strides[0], start.ctypes.data + row * start.strides[0]
            bits = words.ctypes.data + c * words.strides[0]
            total = np.float64(sum_at_bits(field, steps, other, bits, words.shape[1]))
        else:
            exact = np.int64(0)
            for i in range(64 * words.shape[1]):
                bit = np.int64(words[c, i // 64] >> np.uint64(i % 64)) & 1
                exact += (np.int64(fields[c, i]) * steps + start[row, i]) * bit
            total = np.float64(exact)
        sums[c] = total


@apart_borrowing
def write_bits(octets, lane, n_chains, bits):
    """Write the units of chains, every four as the bytes of a word, to lanes of `bits` from `lane` on.

    Mutates `bits` (n / `LANES`, groups of four units, `LANES`) uint32, n lanes; `octets` are what `words_of_units` has
    left there.  Cost: one pass over `bits`.
    """
    n_bytes = bits.shape[1] // 2
    if n_chains < MANY:
        for c in range(n_chains):
            group, place = np.uint64(lane + c) // np.uint64(LANES), np.uint64(lane + c) % np.uint64(LANES)
            for byte in range(n_bytes):
                eight = np.uint32(octets[byte, c])
                bits[group, 2 * byte, place] = (eight & np.uint32(15)) * _COPIES & _LOWEST
                bits[group, 2 * byte + 1, place] = (eight >> np.uint32(4)) * _COPIES & _LOWEST
        return
    c = 0
    while c < n_chains:
        group, place = (lane + c) // LANES, (lane + c) % LANES
        m = min(LANES - place, n_chains - c)
        for byte in range(n_bytes):
            eights = octets[byte, c : c + m]
            for half in range(2):
                four, shift = bits[group, 2 * byte + half, place : place + m], np.uint32(4 * half)
                for k in range(m):
                    four[k] = (np.uint32(eights[k]) >> shift & np.uint32(15)) * _COPIES & _LOWEST
        c += m


@apart_borrowing
def add_remainders(rest, bits, sums, wholes, energies):
    """Make energies of sums: add what rounding has left of the couplings. Mutates `energies`, `sums`, `wholes`.

    On entry `energies` (n_samples, n_chains) are what `sum_fields` gives, of samples whose units are in lanes of `bits`
    as `write_bits` has them; on exit they are in the units of the fields, above that of all units down.
    `rest` (n_bytes, n, n) int8, n a multiple of `ROWS`, is what rounding has left of couplings to units before each
    unit, in `STEPS[n_bytes]` of a unit of the fields, the higher bytes first. `sums` (`LANES`,) int32 and `wholes`
    (`LANES`,) int64 are room.
    Cost: n^2 / 2 products of bytes a sample.
    """
    n_samples, n_chains = energies.shape
    n, steps, t, c = n_samples * n_chains, STEPS[rest.shape[0]], 0, 0
    for lane in range(0, n, LANES):
        for k in range(LANES):
            wholes[k] = 0
        for plane in range(rest.shape[0]):
            for k in range(LANES):
                wholes[k] *= 256
            for first in range(0, rest.shape[1], BLOCK):
                for k in range(LANES):
                    sums[k] = 0
                _add_block(rest, plane, first, bits, lane // LANES, sums)
                for k in range(LANES):
                    wholes[k] += 2 * np.int64(sums[k])
        for k in range(min(LANES, n - lane)):
            energies[t, c] = -0.5 * (energies[t, c] + np.float64(wholes[k])) / steps
            c += 1
            if c == n_chains:
                t, c = t + 1, 0


@apart_borrowing
def _add_block(rest, plane, first, bits, group, sums):
    """Add sum_i x_i sum_(j < i) R_ij x_j of the rows i of a block to `sums` of a group of lanes."""
    end = min(first + BLOCK, rest.shape[1])
    if MULTIPLIES:
        lanes = bits.ctypes.data + group * bits.strides[0]
        for i in range(first, end, ROWS):
            rows = rest.ctypes.data + plane * rest.strides[0] + i * rest.strides[1]
            own = lanes + i // 4 * bits.strides[1]
            add_forms(rows, rest.strides[1], lanes, (i + ROWS) // 4, own, sums.ctypes.data)
        return
    for i in range(first, end):
        for j in range(i):
            for k in range(LANES):
                one = np.int32(bits[group, i // 4, k] >> np.uint32(8 * (i % 4)) & np.uint32(1))
                other = np.int32(bits[group, j // 4, k] >> np.uint32(8 * (j % 4)) & np.uint32(1))
                sums[k] += np.int32(rest[plane, i, j]) & -(one & other)


def room_for_words(up: Any, n_chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `words` and `octets` as `words_of_units` writes them. It is not compiled."""
    n_words = -(-up.shape[0] // 64)
    return np.empty((n_chains, n_words), np.uint64), np.empty((8 * n_words, up.shape[1]), np.uint8)


@apart_borrowing
def words_of_units(up, words, octets):
    """Pack each lane's units into words, unit 0 in the lowest bit.

    Mutates `words` (n_chains, ceil(n_units / 64)) uint64 and `octets` (8 ceil(n_units / 64), lanes) uint8, of which
    each holds eight units of a lane. `up` (n_units, lanes) holds 0 or 1; lanes beyond n_chains are left out.
    Cost: one pass over `up`.
    """
    n_units, n_chains, lanes = up.shape[0], words.shape[0], up.shape[1]
    for w in range(words.shape[1]):
        if lanes < 16:
            for c in range(n_chains):
                word = np.uint64(0)
                for k in range(min(64, n_units - 64 * w)):
                    word |= np.uint64(up[64 * w + k, c]) << np.uint64(k)
                words[c, w] = word
                for b in range(8):
                    octets[8 * w + b, c] = np.uint8(word >> np.uint64(8 * b))
            continue
        for b in range(8 * w, 8 * w + 8):
            octet_of_units(up, b, octets[b])
        for c in range(n_chains):
            word = np.uint64(0)
            for b in range(8):
                word |= np.uint64(octets[8 * w + b, c]) << np.uint64(8 * b)
            words[c, w] = word


@borrowing
def octet_of_units(up, b, octets):
    """Pack the eight units from 8 b on, or what there is of them, of every lane into a byte. Mutates `octets`."""
    n_units, first = up.shape[0], 8 * b
    begin = min(first, n_units - 8)  # of what is left over the last eight are packed, which takes less time
    if first < n_units and begin >= 0:
        _pack_eight(up[begin : begin + 8], octets)
        if begin < first:
            for lane in range(octets.shape[0]):
                octets[lane] >>= np.uint8(first - begin)
        return
    for lane in range(octets.shape[0]):
        octets[lane] = 0
    for i in range(first, n_units):
        for lane in range(octets.shape[0]):
            octets[lane] |= np.uint8(up[i, lane] << np.uint8(i - 8 * b))


@inlined
def _pack_eight(up, octets):
    """Pack eight units of every lane into bytes. Mutates `octets`."""
    for c in range(octets.shape[0]):
        low = np.uint8(up[0, c] | np.uint8(up[1, c] << 1) | np.uint8(up[2, c] << 2) | np.uint8(up[3, c] << 3))
        high = np.uint8(up[4, c] | np.uint8(up[5, c] << 1) | np.uint8(up[6, c] << 2) | np.uint8(up[7, c] << 3))
        octets[c] = np.uint8(low | np.uint8(high << 4))
