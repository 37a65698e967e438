"""Samples of chains in the bits of words: sweeps, packed states and sums for energies, many samples in one call."""

from __future__ import annotations

import numpy as np

from ..jit import inlined, kernel
from ..unlike import sum_unlike
from ..words import pack_words
from .lookup import sweep_lookup

TOGETHER = 1 << 21  # bytes of states whose energies are summed together, with the sums of edges read once
_NATIVE = np.dtype("<u4").isnative
_U = np.uint32


@kernel
def record_lookup(up, model, chains, visits, ways, edges, packed, sums):
    """Take samples, and each chain's sums of numbers of edges whose units are unlike, in these.

    Mutates `packed` (n_samples, chains, ceil(n_units / 8)) uint8, `sums` (n_samples, 128), `up` and the streams;
    returns the number of flips. `model` is (graph, table) and `chains` as for `sweep_lookup`; `visits` (sites, thin,
    first chain in `packed`, chain after the last), `sites` being one row for all sweeps or one for each; `ways` (many,
    own, many digits) and `edges` (edges, numbers, tables) are as kernels take them.
    Cost: that of the sweeps, of `pack_words` and of `sum_unlike`.
    """
    (graph, table), (sites, thin, begin, end), (many, own, digits) = model, visits, ways
    n_samples, n_flips = packed.shape[0], 0
    together = max(1, min(n_samples, TOGETHER // (16 * up.shape[0])))
    ups = np.empty((together, up.shape[0], up.shape[1]), np.uint32)
    for first in range(0, n_samples, together):
        count = min(together, n_samples - first)
        for k in range(count):
            t = (first + k) * thin
            rows = sites[t : t + thin] if sites.shape[0] > 1 else sites
            n_flips += sweep_lookup(up, graph, table, chains, rows, thin, many, own)
            now, kept = up.reshape(-1), ups[k].reshape(-1)
            for i in range(now.shape[0]):
                kept[i] = now[i]
        for k in range(count):
            _pack(ups[k], packed[first + k], begin, end)
        sum_unlike(ups[:count], *edges, digits, sums[first : first + count])
    return n_flips


@inlined
def _pack(up, packed, begin, end):
    """Write the states of chains to rows `begin` to `end` of `packed` (chains, ceil(n_units / 8)) uint8."""
    n_bytes, n_columns, n_chains = packed.shape[1], (packed.shape[1] + 3) >> 2, end - begin
    if _NATIVE and n_bytes % 4 == 0:
        words = packed.reshape(-1).view(np.uint32)
        pack_words(up[:-1], words[begin * n_columns : end * n_columns].reshape((n_chains, n_columns)))
        return
    rows = np.empty((n_chains, n_columns), np.uint32)
    pack_words(up[:-1], rows)
    for c in range(n_chains):
        row = packed[begin + c]
        for byte in range(n_bytes):
            row[byte] = np.uint8(_U(rows[c, byte >> 2] >> _U(8 * (byte & 3))) & _U(0xFF))
