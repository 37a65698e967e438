"""Samples of chains on sparse couplings: sweeps, states and energies in one call for many samples.

Few chains are not enough for vectors of them, but their samples are: as many as a square has rows are turned to words
of units, in which these samples lie side by side.
"""

from typing import Any

import numpy as np

from ..arrays import empty, zeros
from ..bit_vectors import SQUARE, pack_octets
from ..bits import pack_units
from ..energy import PACKED, energies_packed, fill_energies_sparse
from ..jit import kernel
from ..squares import LANES, pick_rows, turn_squares, write_octets, write_rows
from ..vectors import TILED
from ..words import QUAD, SIDE
from .few import advance_sparse_few, room_for_sparse
from .levels import collect_bits, sweep_levels
from .sparse import sweep_sparse


def room_of_samples(n_groups: int, n_bits: int, n_units: int) -> tuple[Any, ...]:
    """Return the room for samples of groups of chains, each with so many bits. It is not compiled."""
    n_squares, n_back = -(-n_bits // SIDE), -(-n_units // SIDE)
    kept, back = np.zeros((n_groups, n_squares, SIDE, QUAD), np.uint32), np.zeros((n_back, SIDE, QUAD), np.uint32)
    turned, turned_back = (np.empty((n, 32 * LANES), np.uint32) for n in (n_squares, n_back))
    return kept, turned, back.reshape(-1, QUAD)[:n_units], back, turned_back, np.empty(SIDE)


def rows_of_samples(n_samples: int, n_chains: int, n_units: int) -> np.ndarray:
    """Return rows of whole squares for the bits of samples. It is not compiled."""
    return np.empty((n_samples, n_chains, -(-n_units // SIDE) * QUAD), np.uint32)


@kernel
def _write_samples(room, group, chains, places, machine, rows, energies):
    """Write samples of chains, from one to before another, and their energies, as `energies_sparse` has them.

    Mutates `rows` (n_samples, n_chains, words), `energies` (n_samples, n_chains) and `room`, which `room_of_samples`
    has made. Of that the first array holds the samples: unit i of the first chain is bit places[i] of the group, and
    those of the others follow.
    """
    (kept, turned, words, back, turned_back, total), (graph, bias, units) = room, machine
    n_samples = energies.shape[0]
    own = total[: (n_samples + PACKED - 1) // PACKED * PACKED]
    turn_squares(kept[group], turned)
    for c in range(chains[0], chains[1]):
        pick_rows(turned, places, c - chains[0], words)
        turn_squares(back, turned_back)
        write_rows(turned_back, rows[:, c])
        energies_packed(words, graph, bias[:, min(c, bias.shape[1] - 1)], units, own)
        for t in range(n_samples):
            energies[t, c] = own[t]


@kernel
def record_few(up, chains, visits, hold, places, machine, room, rows, energies):
    """Take samples of few chains, with energies as `energies_sparse` has them.

    Mutates `rows` (n_samples, n_chains, words) uint32, `energies` (n_samples, n_chains), the streams and `up`, which is
    (bits, the same as a row of bytes); returns the number of flips. `chains` is (edges, start, scale, streams), with
    edges (indptr, indices, rises) in fours, and `visits` (sites, thin), the kernels' arguments as `hold` is, `sites`
    being one row for all sweeps or one for each. `places` and `room` are as for `_write_samples`, `machine` is (graph,
    bias, units), with the user's `graph` (indptr, indices, weights) and `bias`; `units` is (lo, span).
    Cost: that of the sweeps, and O(n_edges) a chain and sample, as of chains in lanes.
    """
    ((indptr, indices, rises), start, scale, streams), (sites, thin), (bits, octets) = chains, visits, up
    room_of_sweeps, n_flips = room_for_sparse(rises), 0
    for first in range(0, energies.shape[0], SIDE):
        end = min(first + SIDE, energies.shape[0])
        for t in range(first, end):
            some = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
            graph = (indptr, indices, rises, start)
            n_flips += advance_sparse_few(bits, graph, scale, streams, some, thin, hold, room_of_sweeps)
            write_octets(octets, t - first, room[0][0])
        _write_samples(room, 0, (0, bits.shape[1]), places, machine, rows[first:end], energies[first:end])
    return n_flips


@kernel
def record_levels(states, chains, thin, hold, machine, room, rows, energies):
    """Take samples as `record_few` does, of chains that are swept by `sweep_levels`.

    `states` is (bits, ranks, up) of `collect_bits`, `chains` (levels, scale, streams). On exit `up` is what `bits` are.
    """
    (bits, ranks, up), (levels, scale, streams) = states, chains
    n_pieces, samples, n_flips = levels[0].shape[0] - 1, (thin, room[0]), 0
    for first in range(0, energies.shape[0], SIDE):
        end = min(first + SIDE, energies.shape[0])
        n_flips += sweep_levels(bits, levels, scale, streams, (0, n_pieces), thin * (end - first), hold, samples)
        for c in range(bits.shape[0]):
            _write_samples(room, c, (c, c + 1), ranks, machine, rows[first:end], energies[first:end])
    collect_bits(bits, ranks, up)
    return n_flips


@kernel
def record_many(up, chains, visits, hold, machine, packed, energies):
    """Take samples of chains in lanes as `record_few` does; `packed` are bytes, and edges are not in fours."""
    ((indptr, indices, rises), start, scale, streams), (sites, thin), (graph, bias, units) = chains, visits, machine
    n_chains, lanes, n_flips = packed.shape[1], up.shape[1], 0
    by_words = TILED and bias.shape[1] == 1 and lanes > PACKED // 2  # else vectors would be empty for the most part
    n_words = (lanes + PACKED - 1) // PACKED * (PACKED // 32)
    field, total, words = (
        empty(lanes, np.float64),
        empty(32 * n_words, np.float64),
        zeros((up.shape[0], n_words), np.uint32),
    )
    for t in range(packed.shape[0]):
        some = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
        n_flips += sweep_sparse(up, (indptr, indices, rises, start), scale, streams, some, thin, hold, n_chains)
        pack_units(up, packed[t])
        if by_words:
            for i in range(up.shape[0]):
                pack_octets(up[i].ctypes.data, lanes, words[i].ctypes.data, SQUARE // 8)
            energies_packed(words, graph, bias[:, 0], units, total)
        else:
            fill_energies_sparse(up, graph, bias, units, field, total[:lanes])
        for c in range(n_chains):
            energies[t, c] = total[c]
    return n_flips
