"""Sweeps whose temperature is another one at every sweep, many of them in one call.

Between temperatures of small machines there is less work than a call takes.
"""

from ..jit import kernel
from .dense import sweep_dense
from .few import sweep_dense_few, sweep_sparse_few
from .sparse import sweep_sparse


@kernel
def cool_dense(up, fields, rises, scales, scale, streams, sites, ways):
    """Do a sweep at each of `scales` (n_sweeps,). Mutates `up`, `fields`, `scale`, `streams`; returns the flips.

    `sites` is one row of units for all sweeps, or one for each. `ways` is (hold, few, many): one of `few`, for chains
    that are swept one after the other, and `many` is None, and what that one is for is not compiled.
    All else, and the cost, is that of `fastbm.kernels.sampling.dense.sweep_dense`.
    """
    hold, few, many = ways
    n_flips = 0
    for t in range(scales.shape[0]):
        scale[:] = scales[t]
        row = t % sites.shape[0]
        if few is not None:
            n_flips += sweep_dense_few(up, fields, rises, scale, streams, sites[row : row + 1], 1, hold)
        if many is not None:
            n_flips += sweep_dense(up, fields, rises, scale, streams, sites[row : row + 1], 1, hold)
    return n_flips


@kernel
def cool_sparse(up, graph, scales, scale, streams, sites, ways, n_chains):
    """Do what `cool_dense` does, by `fastbm.kernels.sampling.sparse.sweep_sparse` or its form for few chains."""
    hold, few, many = ways
    n_flips = 0
    for t in range(scales.shape[0]):
        scale[:] = scales[t]
        row = t % sites.shape[0]
        if few is not None:
            n_flips += sweep_sparse_few(up, graph, scale, streams, sites[row : row + 1], 1, hold)
        if many is not None:
            n_flips += sweep_sparse(up, graph, scale, streams, sites[row : row + 1], 1, hold, n_chains)
    return n_flips
