"""How often bits are set in the states of single chains, and sums over chains of these counts and of their squares.

Samples are added as words of 64 units: counters stand one above the other, digit after digit, until they are full and
are read off. Words of some chains are added side by side, so that vectors are full where units are few.
"""

from __future__ import annotations

import numpy as np

from .functions import count_bits
from .jit import borrowing

DIGITS = 8  # of a counter
FULL = 255  # samples
MOST_SAMPLES, MOST_CHAINS = 2048, 1024  # of a call, whose squares of counts add up to less than 2^32
_FEW, _MANY = 64, 512  # words that are added side by side, of every shift and of all together
_FLIP = 0 if np.dtype("<u8").isnative else 7  # of the place of a byte in a word
_W = np.uint64


def masks_of(shifts: tuple[int, ...], n_units: int, n_chains: int) -> np.ndarray:
    """Return which units, as words of some chains, have partners before them and which behind, (n_shifts, 2, width).

    A partner is the unit that a shift is before, units being in a ring; with a shift of -1 units have none.
    """
    n_words = -(-n_units // 64)
    together = max(1, min(n_chains, max(_FEW, _MANY // len(shifts)) // n_words))
    units, found = np.arange(64 * n_words), np.empty((len(shifts), 2, 8 * n_words), np.uint8)
    for distance, both in zip(shifts, found, strict=True):
        before = units >= distance
        both[:] = np.packbits([before, ~before], axis=1, bitorder="little") if distance >= 0 else 0
    return np.tile(found.view("<u8").astype(np.uint64), together)


def room_of(masks: np.ndarray, n_words: int) -> tuple[np.ndarray, ...]:
    """Return the room that `count_states` needs: for a sample, what is unlike in it, counters, and counts."""
    n_shifts, _, width = masks.shape
    planes, few = np.zeros((n_shifts, DIGITS, width), np.uint64), np.empty(8 * width, np.uint64)
    counts = np.zeros((n_shifts, width // n_words, 64 * n_words), np.uint16)
    octets = planes.view(np.uint8), few.view(np.uint8)  # which take long to compile
    return np.zeros(width + 2 * n_words + 2, np.uint64), np.empty(width, np.uint64), planes, few, counts, *octets


@borrowing
def count_states(words, chains, shifts, masks, room, totals, squares, sums):
    """Sum counts of units, or of pairs that differ, over both halves of the samples of some chains, and their squares.

    Mutates `totals` and `squares` (n_shifts, n_units) uint32, which are 0, and the columns of these chains in `sums`
    (n_samples, n_chains) int64: how many units are up in every state. `words` (n_samples, n_chains, n_words) uint64 are
    the states, unit 0 in the lowest bit, an even number of samples, at most `MOST_SAMPLES`; `chains` is (first, last +
    1) of them, at most `MOST_CHAINS`. What is counted is whether unit i differs from unit i - d, for each d of
    `shifts`, n_units being next to 0; with a d of -1, whether unit i is up. `masks` are what `masks_of` gives.
    Cost: about 40 operations for 512 units and a sample, for every shift.
    """
    (n_samples, _, n_words), (n_shifts, n_units), width = words.shape, totals.shape, masks.shape[2]
    whole, unlike, planes, few, counts, octets_of_planes, octets = room
    half, margin, n = n_samples // 2, n_words + 1, 0
    for c in range(chains[0], chains[1], width // n_words):
        n_chains = min(width // n_words, chains[1] - c)
        for t in range(n_samples):
            for k in range(n_chains):
                total = np.int64(0)
                for w in range(n_words):
                    word = words[t, c + k, w]
                    whole[margin + k * n_words + w] = word
                    total += count_bits(word)
                sums[t, c + k] = total
            n += 1
            for s in range(n_shifts):
                up, down = max(0, shifts[s]), n_units - max(0, shifts[s])
                low, high = margin - (up >> 6), margin + (down >> 6)
                left, right = _W(up & 63), _W(down & 63)
                for k in range(width):
                    i, j = _W(low + k), _W(high + k)
                    before = (whole[i] << left) | ((whole[i - _W(1)] >> _W(1)) >> (_W(63) - left))
                    behind = (whole[j] >> right) | ((whole[j + _W(1)] << _W(1)) << (_W(63) - right))
                    unlike[k] = whole[_W(margin + k)] ^ ((before & masks[s, 0, k]) | (behind & masks[s, 1, k]))
                digit = 0
                while n >> digit:
                    for k in range(width):
                        both = planes[s, digit, k] & unlike[k]
                        planes[s, digit, k] ^= unlike[k]
                        unlike[k] = both
                    digit += 1
            last = t == half - 1 or t == n_samples - 1
            if last or n == FULL:
                for s in range(n_shifts):
                    _read_off(octets_of_planes[s], few)
                    for k in range(n_chains):
                        for i in range(64 * n_words):
                            counts[s, k, i] += np.uint16(octets[_W(64 * n_words * k + (i ^ _FLIP))])
                n = 0
            if last:
                for s in range(n_shifts):
                    for k in range(n_chains):
                        for i in range(n_units):
                            count = np.uint32(counts[s, k, i])
                            totals[s, i] += count
                            squares[s, i] += np.uint32(count * count)
                        for i in range(64 * n_words):
                            counts[s, k, i] = np.uint16(0)


@borrowing
def _read_off(planes, few):
    """Write counters as a byte a unit, and set them to 0. Mutates `planes` (`DIGITS`, n_bytes) uint8, `few` (n_bytes,).

    Eight units at a time have a byte of every digit: these are 8 x 8 bits, which are transposed (Warren, Hacker's
    Delight (2013), section 7-3).
    """
    for k in range(few.shape[0]):
        x = _W(0)
        for digit in range(DIGITS):
            x |= _W(planes[digit, k ^ _FLIP]) << _W(8 * digit)
        other = (x ^ (x >> _W(7))) & _W(0x00AA00AA00AA00AA)
        x = x ^ other ^ (other << _W(7))
        other = (x ^ (x >> _W(14))) & _W(0x0000CCCC0000CCCC)
        x = x ^ other ^ (other << _W(14))
        other = (x ^ (x >> _W(28))) & _W(0x00000000F0F0F0F0)
        few[k] = x ^ other ^ (other << _W(28))
    for digit in range(DIGITS):
        for k in range(few.shape[0]):
            planes[digit, k] = np.uint8(0)
