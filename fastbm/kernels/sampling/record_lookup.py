"""Samples of chains in the bits of words: sweeps, states and their energies, many samples in one call."""

from __future__ import annotations

from ..jit import kernel
from ..words import SIDE
from .lookup import sweep_lookup
from .record_words import write_samples


@kernel
def record_lookup(up, model, chains, visits, ways, edges, room, found):
    """Take samples, as rows of bits of every chain, and their energies.

    Mutates `found` and `room`, as `write_samples` takes them, `up` and the streams. Returns the number of flips.
    `model` is (graph, table) and `chains` as for `sweep_lookup`; `visits` (sites, thin, samples in a state, first own
    chain, chain after the last), `sites` being one row for all sweeps or one for each. `ways` is ((many, own), many
    digits) and `edges` (edges, unit, constant), as `sweep_lookup` and `write_samples` take them.
    Cost: that of the sweeps and of `write_samples`.
    """
    graph, table = model
    sites, thin, side, begin, after = visits
    ups, n_samples, n_flips = room[0], found[1].shape[0], 0
    for first in range(0, n_samples, side * ups.shape[0]):
        end = min(first + side * ups.shape[0], n_samples)
        start, n_sweeps = first * thin, (end - first) * thin
        some = sites[start : start + n_sweeps] if sites.shape[0] > 1 else sites
        n_flips += sweep_lookup(up, graph, table, chains, (some, n_sweeps, thin, side), ways[0], ups)
        write_samples(first, end, (side, SIDE // side, begin, after), edges, ways[1], room, found)
    return n_flips
