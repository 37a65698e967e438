"""Counts of bits of single chains where units are many: samples are added as bits, eight units a byte.

Counters stand one above the other, digit after digit, until they are full and are read off. That takes a third of the
time of a byte a unit (`fastbm.kernels.bits.count_by_chain`) for 16,384 units, and four times it for 1,000, as ends of
rows fill no vector.
"""

from __future__ import annotations

import numpy as np

from .jit import inlined, kernel

DIGITS = 8  # of a counter
FULL = 255  # samples
SHORT = 4096  # bytes, whose ones fit into 16 bits
_B = np.uint8


@kernel
def count_digits_by_chain(packed, bits, shifts, counts, sums):
    """Count as `fastbm.kernels.bits.count_by_chain` does, with its arguments, where units are thousands.

    Cost: about 20 operations for 512 units and a sample, for every shift.
    """
    n_samples, n_chains, n_bytes = packed.shape
    n_shifts = shifts.shape[0]
    n_units, half = counts.shape[2] // n_shifts, n_samples // 2
    planes = np.zeros((n_shifts, DIGITS, n_bytes), np.uint8)
    twice, unlike = np.empty(2 * n_bytes + 2, np.uint8), np.empty(n_bytes, np.uint8)
    few = np.empty(8 * n_bytes, np.uint8)
    for c in range(n_chains):
        n = 0
        for t in range(n_samples):
            row = packed[t, c]
            sums[t, c] = _count(row)
            _repeat(row, n_units, twice)
            n += 1
            for s in range(n_shifts):
                _differ(row, twice, shifts[s], n_units, unlike)
                _add(unlike, n, planes[s])
            if t == half - 1 or t == n_samples - 1 or n == FULL:
                for s in range(n_shifts):
                    _read_off(planes[s], bits, few, counts[0 if t < half else 1, c, s * n_units : (s + 1) * n_units])
                n = 0


@inlined
def _count(row):
    """Return how many bits are set."""
    total = np.int64(0)
    for first in range(0, row.shape[0], SHORT):
        some, ones = row[first : first + SHORT], np.uint16(0)
        for k in range(some.shape[0]):
            byte = some[k]
            byte = _B(byte - _B(_B(byte >> _B(1)) & _B(0x55)))
            byte = _B(_B(byte & _B(0x33)) + _B(_B(byte >> _B(2)) & _B(0x33)))
            ones = np.uint16(ones + np.uint16(_B(_B(byte + _B(byte >> _B(4))) & _B(0x0F))))
        total += np.int64(ones)
    return total


@inlined
def _repeat(row, n_units, twice):
    """Write bits, and the first `n_units` once more after these. Mutates `twice`."""
    n_bytes, start, shift = row.shape[0], n_units >> 3, _B(n_units & 7)
    for k in range(n_bytes):
        twice[k] = row[k]
    second = twice[start:]
    if shift:
        back, last = _B(_B(8) - shift), row[n_bytes - 1]
        second[0] = _B(last | _B(row[0] << shift))
        for k in range(1, n_bytes):
            second[k] = _B(_B(row[k] << shift) | _B(row[k - 1] >> back))
        second[n_bytes] = _B(last >> back)
    else:
        for k in range(n_bytes):
            second[k] = row[k]
        second[n_bytes] = _B(0)


@inlined
def _differ(row, twice, distance, n_units, unlike):
    """Compare bits with those a distance before them, in `twice`; copy them if it is -1. Mutates `unlike`."""
    if distance < 0:
        for k in range(row.shape[0]):
            unlike[k] = row[k]
        return
    start, shift = (n_units - distance) >> 3, _B((n_units - distance) & 7)
    low, high, back = twice[start:], twice[start + 1 :], _B(_B(8) - shift)
    if shift:
        for k in range(row.shape[0]):
            unlike[k] = _B(row[k] ^ _B(_B(low[k] >> shift) | _B(high[k] << back)))
    else:
        for k in range(row.shape[0]):
            unlike[k] = _B(row[k] ^ low[k])


@inlined
def _add(carry, n, planes):
    """Add bits to counters that are `n` - 1 at most. Mutates `planes` (`DIGITS`, n_bytes), `carry`."""
    digit = 0
    while n >> digit:
        plane = planes[digit]
        for k in range(carry.shape[0]):
            both = _B(plane[k] & carry[k])
            plane[k] = _B(plane[k] ^ carry[k])
            carry[k] = both
        digit += 1


@inlined
def _read_off(planes, bits, few, counts):
    """Add counters to `counts` (n_units,), and set them to 0. Mutates `planes`, `few`, `counts`."""
    words = few.view(np.uint64)
    for k in range(planes.shape[1]):
        word = np.uint64(0)
        for digit in range(DIGITS):
            word += bits[planes[digit, k]] << np.uint64(digit)
            planes[digit, k] = 0
        words[k] = word
    for i in range(counts.shape[0]):
        counts[i] += np.uint16(few[i])
