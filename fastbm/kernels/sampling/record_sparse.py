"""Samples of chains on sparse couplings: sweeps, states and energies in one call for many samples.

Few chains are not enough for vectors of them, but their samples are: as many as a square has rows are turned to words
of units, in which these samples lie side by side.
"""

from typing import Any

import numpy as np

from ..arrays import empty
from ..bit_vectors import pack_octets, store_half
from ..bits import pack_units
from ..energy import PACKED, energies_packed, fill_energies_sparse
from ..jit import apart_borrowing, borrowing, inlined_borrowing, kernel
from ..squares import LANES, pick_rows, turn_squares, write_octets, write_rows
from ..unlike import sum_unlike
from ..vectors import TILED
from ..words import QUAD, SHORT, SIDE
from .few import advance_sparse_few
from .field_energies import octet_of_units
from .levels import collect_bits, sweep_levels
from .record_words import write_samples
from .sparse import sweep_sparse, sweep_sparse_within


def room_of_samples(n_groups: int, n_bits: int, n_units: int, of_sums: Any) -> tuple[Any, ...]:
    """Return the room for samples of groups of chains, each with so many bits. It is not compiled.

    `of_sums` is that of `sum_unlike`, or None where that is not called.
    """
    n_squares, n_back = -(-n_bits // SIDE), -(-n_units // SIDE)
    kept, back = np.zeros((n_groups, n_squares, SIDE, QUAD), np.uint32), np.zeros((n_back + 1, SIDE, QUAD), np.uint32)
    turned, turned_back = (np.empty((n, 32 * LANES), np.uint32) for n in (n_squares, n_back))
    states = back.reshape(1, -1, QUAD)[:, : n_units + 1]  # with one that is never up
    return kept, turned, states, back, turned_back, np.empty((1, SIDE)), of_sums


@borrowing
def tell_energies(room, n_lanes, column, edges, machine):
    """Have the sums of the room be the energies of the states that lie in its first lanes. Mutates `room`.

    Energies are by whole numbers, as `record_lanes` takes `edges`; or where these are None as `energies_sparse` has
    them, of `machine`, which else is None, with biases of a column.
    """
    states, total, of_sums = room[2], room[5][0], room[6]
    if edges is not None:
        (about, unit, constant), many = edges
        sum_unlike(states, about, many, of_sums, room[5])
        for lane in range(n_lanes):
            total[lane] = constant + unit * total[lane]
    if machine is not None:
        graph, bias, units = machine
        own = total[: (n_lanes + PACKED - 1) // PACKED * PACKED]
        energies_packed(states[0][:-1], graph, bias[:, min(column, bias.shape[1] - 1)], units, own)


@borrowing
def _write_samples(room, group, chains, places, edges, machine, rows, energies):
    """Write samples of chains, from one to before another, and their energies.

    Mutates `rows` (n_samples, n_chains, n_bytes), `energies` (n_samples, n_chains) and `room`, which `room_of_samples`
    has made. Of that the first array holds the samples: unit i of the first chain is bit places[i] of the group, and
    those of the others follow. `edges` and `machine` are as for `tell_energies`.
    """
    kept, turned, states, back, turned_back, sums, _ = room
    turn_squares(kept[group], turned)
    for c in range(chains[0], chains[1]):
        pick_rows(turned, places, c - chains[0], states[0])
        turn_squares(back, turned_back)
        write_rows(turned_back, rows[:, c])
        tell_energies(room, energies.shape[0], c, edges, machine)
        for t in range(energies.shape[0]):
            energies[t, c] = sums[0, t]


@borrowing
def record_few(up, chains, visits, hold, places, energy, rooms, rows, energies):
    """Take samples of few chains.

    Mutates `rows` (n_samples, n_chains, n_bytes) uint8, `energies` (n_samples, n_chains), the streams and `up`, which
    is (bits, the same as a row of bytes); returns the number of flips. `chains` is (edges, start, scale, streams), with
    edges (indptr, indices, rises) in fours, and `visits` (sites, thin), the kernels' arguments as `hold` is, `sites`
    being one row for all sweeps or one for each. `rooms` are that for `_write_samples` and that for sweeps, (words,
    limits). `places` is as for the first, and so is `energy`, (edges, machine): of the two one is None, and the other
    (graph, bias, units), with the user's `graph` (indptr, indices, weights) and `bias`; `units` is (lo, span).
    Cost: that of the sweeps, and O(n_edges) a chain and sample, as of chains in lanes.
    """
    ((indptr, indices, rises), start, scale, streams), (sites, thin), (bits, octets) = chains, visits, up
    (room, room_of_sweeps), n_flips = rooms, 0
    for first in range(0, energies.shape[0], SIDE):
        end = min(first + SIDE, energies.shape[0])
        for t in range(first, end):
            some = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
            graph = (indptr, indices, rises, start)
            n_flips += advance_sparse_few(bits, graph, scale, streams, some, thin, hold, room_of_sweeps)
            write_octets(octets, t - first, room[0][0])
        _write_samples(room, 0, (0, bits.shape[1]), places, *energy, rows[first:end], energies[first:end])
    return n_flips


@kernel
def record_levels(states, chains, thin, hold, energy, room, rows, energies):
    """Take samples as `record_few` does, of chains that are swept by `sweep_levels`.

    `states` is (bits, ranks, up) of `collect_bits`, `chains` (levels, scale, streams). On exit `up` is what `bits` are.
    """
    (bits, ranks, up), (levels, scale, streams) = states, chains
    n_pieces, samples, n_flips = levels[0].shape[0] - 1, (thin, room[0]), 0
    for first in range(0, energies.shape[0], SIDE):
        end = min(first + SIDE, energies.shape[0])
        n_flips += sweep_levels(bits, levels, scale, streams, (0, n_pieces), thin * (end - first), hold, samples)
        for c in range(bits.shape[0]):
            _write_samples(room, c, (c, c + 1), ranks, *energy, rows[first:end], energies[first:end])
    collect_bits(bits, ranks, up)
    return n_flips


@borrowing
def record_lanes(up, chains, visits, hold, edges, pairs, rooms, found):
    """Take samples of chains in lanes, with energies by whole numbers.

    Mutates `found` and the first of `rooms`, as `write_samples` takes them, the second, ((limits, field, moved),
    octets, words), the streams and `up` (n_units, lanes) uint8, at most 128 lanes; returns the number of flips.
    `chains` is (graph, start, scale, streams) and `visits` (sites, thin, first own chain, chain after the last), as for
    `record_few`, but that edges are not in fours. `edges` is (edges of `write_samples`, many digits). `pairs` is None
    or what `EdgeNumbers.pairs` has, of at most `SHORT` units.
    Cost: that of the sweeps and of `write_samples`, or of a look-up for every chain and pair.
    """
    ((indptr, indices, rises), start, scale, streams), (sites, thin, begin, after) = chains, visits
    room, (own, octets, words) = rooms
    ups, lanes, n_samples, n_flips = room[0], up.shape[1], found[1].shape[0], 0
    side, n_chains, is_short = SIDE // lanes, found[1].shape[1], up.shape[0] <= SHORT
    for first in range(0, n_samples, side * ups.shape[0]):
        end = min(first + side * ups.shape[0], n_samples)
        for t in range(first, end):
            some = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
            graph = (indptr, indices, rises, start)
            n_flips += sweep_sparse_within(up, graph, scale, streams, some, thin, hold, after - begin, own)
            if is_short:
                _write_short(up, octets, words, found[0][t * n_chains + begin : t * n_chains + after])
            if pairs is None:
                _write_lanes(up, ups[(t - first) // side], (t - first) % side * lanes)
            else:
                _look_up(words, pairs, edges[0], found[1][t, begin:after])
        if pairs is None:
            left = (found[0][:0] if is_short else found[0]), found[1]
            write_samples(first, end, (side, lanes, begin, after), edges[0], edges[1], room, left)
    return n_flips


@inlined_borrowing
def _write_short(up, octets, words, rows):
    """Write units of lanes, at most `SHORT`, as rows of bytes and as words, unit 0 in the lowest bit.

    Mutates `rows` (n_chains, n_bytes), one after another, `words` (lanes,) uint32, and `octets` (4, lanes), which are
    0 beyond the bytes of rows. What words write beyond a row is written again.
    """
    n, n_bytes = rows.shape
    for b in range(n_bytes):
        octet_of_units(up, b, octets[b])
    for lane in range(words.shape[0]):
        low = np.uint32(np.uint32(octets[0, lane]) | np.uint32(np.uint32(octets[1, lane]) << np.uint32(8)))
        high = np.uint32(np.uint32(octets[2, lane]) | np.uint32(np.uint32(octets[3, lane]) << np.uint32(8)))
        words[lane] = np.uint32(low | np.uint32(high << np.uint32(16)))
    n_whole = max(0, n - 3 // n_bytes) if TILED else 0
    for c in range(n_whole):
        store_half(rows.ctypes.data + c * n_bytes, np.uint64(words[c]))
    for c in range(n_whole, n):
        for b in range(n_bytes):
            rows[c, b] = octets[b, c]


@inlined_borrowing
def _look_up(words, pairs, edges, energies):
    """Write energies of states of few units. Mutates `energies` (n_chains,).

    `words` (lanes,) uint32 are the states, unit 0 in the lowest bit; `pairs` and `edges` are those of `record_lanes`.
    """
    (starts, sums), (_, unit, constant) = pairs, edges
    mask = np.int64(sums.shape[1] - 1)
    if starts.shape[0] == 1:  # of two groups, whose states together are the word
        of_words = sums.reshape(-1)
        for c in range(energies.shape[0]):
            energies[c] = constant + unit * of_words[words[c]]
        return
    for c in range(energies.shape[0]):
        energies[c] = 0.0
    for p in range(starts.shape[0]):
        for c in range(energies.shape[0]):
            word = np.int64(words[c])
            energies[c] += sums[p, (word >> starts[p, 1]) & mask, (word >> starts[p, 0]) & mask]
    for c in range(energies.shape[0]):
        energies[c] = constant + unit * energies[c]


@apart_borrowing
def _write_lanes(up, words, first):
    """Write what is up in lanes as bits from number `first` on, a multiple of 16. Mutates `words` (n_units + 1, 4)."""
    for i in range(up.shape[0]):
        if TILED:
            here = words.ctypes.data + i * words.strides[0] + first // 8
            pack_octets(up.ctypes.data + i * up.strides[0], up.shape[1], here, words.strides[0])
        else:
            _write_bits_plainly(up[i], words[i], first)


def _write_bits_plainly(octets, words, first):
    """Write bytes of 0 and 1 as bits from number `first` on, without compiler. Mutates `words`."""
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    bits[first : first + len(octets)] = octets
    words[:] = np.packbits(bits, bitorder="little").view(np.uint32)


@kernel
def record_many(up, chains, visits, hold, machine, packed, energies):
    """Take samples of chains in lanes as `record_few` does; `packed` are bytes, and edges are not in fours."""
    ((indptr, indices, rises), start, scale, streams), (sites, thin), (graph, bias, units) = chains, visits, machine
    n_chains, lanes, n_flips = packed.shape[1], up.shape[1], 0
    field, total = empty(lanes, np.float64), empty(lanes, np.float64)
    for t in range(packed.shape[0]):
        some = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
        n_flips += sweep_sparse(up, (indptr, indices, rises, start), scale, streams, some, thin, hold, n_chains)
        pack_units(up, packed[t])
        fill_energies_sparse(up, graph, bias, units, field, total)
        for c in range(n_chains):
            energies[t, c] = total[c]
    return n_flips
