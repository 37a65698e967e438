"""Samples of chains in the bits of words: sweeps, and the states after them, many samples in one call."""

from __future__ import annotations

from ..arrays import copy_row
from ..jit import kernel
from ..patterns import WORDS
from ..words import LINE, write_rows
from .lookup import sweep_lookup


@kernel
def record_lookup(up, model, chains, visits, ways, ups, room, rows):
    """Take samples, as words of every unit and as rows of bits of every chain.

    Mutates `ups` (n_samples, n_units + 1, 4) uint32, `room` (128, n_bytes) uint8, the chains from the first on in
    `rows` (n_samples, chains, n_bytes = ceil(n_units / 8)) uint8, `up` and the streams; returns the number of flips.
    `model` is (graph, table) and `chains` as for `sweep_lookup`; `visits` (sites, thin, first chain in `rows`, chain
    after the last), `sites` being one row for all sweeps or one for each; `ways` (many, own) are as kernels take them.
    Cost: that of the sweeps, and of `write_rows`.
    """
    graph, table = model
    sites, thin, begin, end = visits
    n_flips, n_bytes = 0, rows.shape[2]
    for k in range(ups.shape[0]):
        some = sites[k * thin : (k + 1) * thin] if sites.shape[0] > 1 else sites
        n_flips += sweep_lookup(up, graph, table, chains, some, thin, ways[0], ways[1])
        kept = ups[k]
        for i in range(up.shape[0]):
            for w in range(WORDS):
                kept[i, w] = up[i, w]
        direct = n_bytes % LINE == 0 or n_bytes < LINE
        write_rows(up[:-1], rows[k, begin:end] if direct else room[: end - begin], direct)
        if not direct:
            for c in range(begin, end):  # memory that is not in the cache is best written from one end to the other
                copy_row(rows[k, c], room[c - begin])
    return n_flips
