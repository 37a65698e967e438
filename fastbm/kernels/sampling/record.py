"""Samples of chains: sweeps, packed states and energies in one call for many samples.

Between samples of small machines there is less work than a call takes.
"""

import numpy as np

from ..bits import pack_units
from ..energy import energies_dense, energies_sparse
from ..jit import kernel
from .dense import sweep_dense
from .few import sweep_sparse_few
from .few_dense import sweep_dense_few
from .field_energies import refined_energies
from .sparse import sweep_sparse


@kernel
def _advance(up, chains, visits, t, hold, few, many):
    """Do the sweeps before sample `t`; return the number of flips. Mutates `up` and what `chains` has."""
    fields, rises, scale, streams = chains
    sites, thin = visits
    rows = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
    n_flips = 0
    if few is not None:
        n_flips = sweep_dense_few(up, fields, rises, scale, streams, rows, thin, hold)
    if many is not None:
        n_flips = sweep_dense(up, fields, rises, scale, streams, rows, thin, hold)
    return n_flips


@kernel
def record_refined(up, chains, visits, hold, few, many, start, remainders, packed, energies):
    """Take samples, with energies above that of all units down as `refined_energies` has them.

    Mutates `packed` (n_samples, n_chains, ceil(n_units / 8)) uint8, `energies` (n_samples, n_chains), `up`, fields and
    streams; returns the number of flips. `chains` is (fields, rises, scale, streams) and `visits` (sites, thin), the
    kernels' arguments as `hold` is, `sites` being one row for all sweeps or one for each; one of `few`, for
    chains that are swept one after the other, and `many` is None, and what that one is for is not compiled.
    `remainders` is (seen, fine, fine_start, rest, moved).
    Cost: that of the sweeps, and O(n_units) a chain, sample and net flip.
    """
    seen, fine, fine_start, rest, moved = remainders
    n_flips = 0
    for t in range(packed.shape[0]):
        n_flips += _advance(up, chains, visits, t, hold, few, many)
        pack_units(up, packed[t])
        refined_energies(up, chains[0], start, seen, fine, fine_start, rest, moved, energies[t])
    return n_flips


@kernel
def record_summed(up, chains, visits, hold, few, many, values, weights, bias, units, packed, energies):
    """Take samples, with energies that are summed anew from `weights` and `bias` as `energies_dense` does.

    As `record_refined`; `values` (n_units, lanes) float64, lanes a multiple of 16, is room, `units` is (lo, span).
    Cost: that of the sweeps, and O(n_units^2) a chain and sample.
    """
    lo, span = units
    total = np.empty(values.shape[1])
    n_flips = 0
    for t in range(packed.shape[0]):
        n_flips += _advance(up, chains, visits, t, hold, few, many)
        pack_units(up, packed[t])
        for i in range(up.shape[0]):
            for lane in range(up.shape[1]):
                values[i, lane] = lo + span * up[i, lane]
        total[:] = 0.0
        energies_dense(values, weights, bias, total, 0, up.shape[0])
        for c in range(packed.shape[1]):
            energies[t, c] = total[c]
    return n_flips


@kernel
def record_sparse(up, chains, visits, hold, few, many, graph, bias, units, packed, energies):
    """Take samples of chains on sparse couplings, with energies as `energies_sparse` has them.

    As `record_refined`; `chains` is (edges, start, scale, streams), with edges (indptr, indices, rises) in fours where
    chains are few; `graph` (indptr, indices, weights) and `bias` are the user's, `units` is (lo, span).
    Cost: that of the sweeps, and O(n_edges) a chain and sample.
    """
    (indptr, indices, rises), start, scale, streams = chains
    sites, thin = visits
    n_chains, n_flips = packed.shape[1], 0
    total = np.empty(up.shape[1])
    for t in range(packed.shape[0]):
        rows = sites[t * thin : (t + 1) * thin] if sites.shape[0] > 1 else sites
        rises_of = (indptr, indices, rises, start)
        if few is not None:
            n_flips += sweep_sparse_few(up, rises_of, scale, streams, rows, thin, hold)
        if many is not None:
            n_flips += sweep_sparse(up, rises_of, scale, streams, rows, thin, hold, n_chains)
        pack_units(up, packed[t])
        energies_sparse(up, graph, bias, units, total)
        for c in range(n_chains):
            energies[t, c] = total[c]
    return n_flips
