"""Samples of chains: sweeps, packed states and energies in one call for many samples.

Between samples of small machines there is less work than a call takes.
"""

from typing import Any

import numpy as np

from ..arrays import empty
from ..bit_vectors import store_word
from ..bits import pack_units
from ..energy import energies_dense
from ..jit import borrowing, kernel
from ..vectors import TILED
from .few_dense import advance_either
from .field_energies import STEPS, add_remainders, room_for_words, sum_fields, words_of_units, write_bits


def room_of_record(up: Any, n_chains: int, of_sweeps: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the room that `record_refined` needs: for the words of a sample, and for sweeps. It is not compiled."""
    words, octets = room_for_words(up, n_chains)
    return words, words.view(np.uint8), octets, of_sweeps


@borrowing
def _write_rows(words, octets, rows):
    """Write the first bytes of each chain's words to its row. Mutates `rows` (n_chains, n_bytes), one after another.

    What a row's last word writes beyond it is written again by the next rows; the last of all are written by bytes.
    Memory that was not used before takes few stores of words at a time, and fewer of bytes.
    """
    n_whole = max(0, rows.shape[0] - max(1, 7 // rows.shape[1])) if TILED else 0
    for c in range(n_whole):
        place = rows.ctypes.data + c * rows.strides[0]
        for w in range(words.shape[1]):
            store_word(place + 8 * w, words[c, w])
    for c in range(n_whole, rows.shape[0]):
        for byte in range(rows.shape[1]):
            rows[c, byte] = octets[c, byte]


@borrowing
def record_refined(up, chains, visits, ways, told, room, packed, energies):
    """Take samples, with energies from fields and from what rounding has left of these.

    Mutates `packed` (n_samples, n_chains, ceil(n_units / 8)) uint8, `energies` (n_samples, n_chains), `up`, fields and
    streams; returns the number of flips. `chains` is (fields, rises, scale, streams) and `visits` (sites, thin), the
    kernels' arguments as `hold` is, `sites` being one row for all sweeps or one for each. `ways` is (hold, few, many):
    one of `few`, for chains that are swept one after the other, and `many` is None, and what that one is for is not
    compiled. `told` is ((rest, start, bits, sums, wholes), (one, other, lowest)): what `sum_fields`, `write_bits` and
    `add_remainders` take; two factors whose product is a unit of the fields, and energies of all units down,
    (n_chains,). `room` is what `room_of_record` has made.
    Cost: that of the sweeps, and n_units^2 / 2 products of bytes a chain and sample.
    """
    (rest, start, bits, sums, wholes), (one, other, lowest) = told
    (sites, thin), (hold, few, many), (words, bytes_of_words, octets, of_sweeps) = visits, ways, room
    n_chains, n_flips = packed.shape[1], 0
    together = bits.shape[0] * bits.shape[2] // n_chains  # samples
    for first in range(0, packed.shape[0], together):
        end = min(first + together, packed.shape[0])
        for t in range(first, end):
            rows = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
            n_flips += advance_either(up, chains, rows, thin, hold, few, many, of_sweeps)
            words_of_units(up, words, octets)
            _write_rows(words, bytes_of_words, packed[t])
            sum_fields(words, chains[0], start, STEPS[rest.shape[0]], energies[t])
            if rest.shape[0]:
                write_bits(octets, (t - first) * n_chains, n_chains, bits)
        add_remainders(rest, bits, sums, wholes, energies[first:end])
        for t in range(first, end):
            energy = energies[t]
            for c in range(n_chains):
                energy[c] = one * energy[c] * other + lowest[c]
    return n_flips


@kernel
def record_summed(up, chains, visits, ways, machine, room, packed, energies):
    """Take samples, with energies that are summed anew from weights and biases as `energies_dense` does.

    As `record_refined`; `machine` is (weights, bias, (lo, span)), `room` (values, room of sweeps), of which values
    (n_units, lanes) are float64, and lanes a multiple of 16.
    Cost: that of the sweeps, and O(n_units^2) a chain and sample.
    """
    (hold, few, many), (weights, bias, units), (values, of_sweeps) = ways, machine, room
    (sites, thin), (lo, span) = visits, units
    total, n_flips = empty(values.shape[1], np.float64), 0
    for t in range(packed.shape[0]):
        rows = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
        n_flips += advance_either(up, chains, rows, thin, hold, few, many, of_sweeps)
        pack_units(up, packed[t])
        for i in range(up.shape[0]):
            for lane in range(up.shape[1]):
                values[i, lane] = lo + span * up[i, lane]
        total[:] = 0.0
        energies_dense(values, weights, bias, total, 0, up.shape[0])
        for c in range(packed.shape[1]):
            energies[t, c] = total[c]
    return n_flips


@borrowing
def record_words(up, chains, sites, ways, of_sweeps, n_chains, words):
    """Take samples without energies, one after every sweep.

    Mutates `words` (n_units, n_samples * ceil(n_chains / 64)) uint64, those of one sample side by side: 64 chains each,
    the first in the lowest bit, with zeros beyond the last. Others are as for `record_refined`, which draws the same
    samples; `of_sweeps` is the room of sweeps.
    Cost: that of the sweeps, and one pass over `up` a sample.
    """
    (hold, few, many), n_words, n_flips = ways, (n_chains + 63) // 64, 0
    for first in range(0, words.shape[1], n_words):
        t = first // n_words
        rows = sites[t : t + 1] if sites.shape[0] > 1 else sites
        n_flips += advance_either(up, chains, rows, np.int64(1), hold, few, many, of_sweeps)
        for i in range(up.shape[0]):
            for w in range(n_words):
                lanes, word = up[i, 64 * w : min(64 * w + 64, n_chains)], np.uint64(0)
                for k in range(lanes.shape[0]):
                    word |= np.uint64(lanes[k]) << np.uint64(k)
                words[i, first + w] = word
    return n_flips
