"""Samples of chains in the bits of words: sweeps, states and their energies, many samples in one call."""

from __future__ import annotations

from ..arrays import copy_row
from ..jit import kernel
from ..unlike import sum_unlike
from ..words import LINE, write_rows
from .lookup import sweep_lookup


@kernel
def record_lookup(up, model, chains, visits, ways, edges, room, found):
    """Take samples, as rows of bits of every chain, and their energies.

    Mutates `found`, (rows (n, chains, n_bytes = ceil(n_units / 8)) uint8, energies (n, chains)), of which those of own
    chains are written; `room`, (states (n_together, n_units + 1, 4) uint32, sums (n_together, 128), rows
    (128, n_bytes)); `up` and the streams. Returns the number of flips.
    `model` is (graph, table) and `chains` as for `sweep_lookup`; `visits` (sites, thin, side, first own chain,
    chain after the last), `sites` being one row for all sweeps or one for each: `side` samples that follow one another
    are chains beside each other, in states, rows and energies. `ways` is ((many, own), many digits) and `edges` (edges,
    numbers, tables of sums, unit of these, constant), as `sweep_lookup` and `sum_unlike` take them.
    Cost: that of the sweeps, of `write_rows` and `sum_unlike`.
    """
    graph, table = model
    sites, thin, side, begin, end = visits
    (rows, energies), (ups, sums, room_of_rows) = found, room
    n_flips, n_bytes = 0, rows.shape[2]
    direct = n_bytes % LINE == 0 or n_bytes < LINE
    for first in range(0, rows.shape[0], ups.shape[0]):
        n = min(ups.shape[0], rows.shape[0] - first)
        start, n_sweeps = first * side * thin, n * side * thin
        some = sites[start : start + n_sweeps] if sites.shape[0] > 1 else sites
        n_flips += sweep_lookup(up, graph, table, chains, (some, n_sweeps, thin, side), ways[0], ups)
        for k in range(n):
            to = rows[first + k]
            write_rows(ups[k][:-1], to[begin:end] if direct else room_of_rows[: end - begin], direct)
            if not direct:
                for c in range(begin, end):  # memory that is not in the cache is best written from one end to the other
                    copy_row(to[c], room_of_rows[c - begin])
        sum_unlike(ups[:n], edges[0], edges[1], edges[2], ways[1], sums[:n])
        for k in range(n):
            for c in range(end - begin):
                energies[first + k, begin + c] = edges[4] + edges[3] * sums[k, c]
    return n_flips
