"""The order in which a sweep visits the units, the same for all chains of a run.

Random orders come in chunks keyed by the sweep's number, so that nothing need be stored and a sweep's order does not
depend on how a run was cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ..._base import rng
from ...kernels.graph import colour_units
from ...machine.couplings.protocol import Couplings

ORDERS = ("sequential", "permuted", "random", "coloured")
DRAWN = ("permuted", "random")  # anew for each sweep, from the seed of the run
HOLD = np.uint32(1 << 28)


def hold_of(rule: str, order: str) -> np.uint32 | None:
    """Return the number of words, of 2^32, at which a Metropolis proposal is dropped; None by Gibbs.

    In random order that is one in 16, each chain for itself. Without it free units, which accept every proposal, would
    follow the order of the sites alone: chains that share it would move in step, and parity would be fixed.
    """
    if rule == "gibbs":
        return None
    return HOLD if order == "random" else np.uint32(0)


def visit_order(order: str, couplings: Couplings) -> np.ndarray:
    """Return the units in the order of every sweep: one colour after the other if `order` is "coloured"."""
    units = np.arange(couplings.n_units, dtype=np.int32)
    if order != "coloured":
        return units
    colours = np.empty_like(units)
    indptr, indices, _ = couplings.csr()
    colour_units(indptr, indices, colours)
    return units[np.argsort(colours, kind="stable")]


def sites(order: str, visit: np.ndarray, seed: int, first: int, n_sweeps: int) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (rows of units to visit, number of sweeps) for sweeps `first` to `first + n_sweeps`."""
    if order not in DRAWN:
        yield visit[None], n_sweeps
        return
    n_units = len(visit)
    length = max(1, 65_536 // n_units)
    for chunk in range(first // length, -(-(first + n_sweeps) // length)):
        rows = _chunk(order, n_units, length, seed, chunk)
        start, stop = max(first, chunk * length), min(first + n_sweeps, (chunk + 1) * length)
        yield rows[start - chunk * length : stop - chunk * length], stop - start


@lru_cache(maxsize=8)
def _chunk(order: str, n_units: int, length: int, seed: int, chunk: int) -> np.ndarray:
    """Return the order of `length` sweeps; the last few are kept, as threads and samples come back to them."""
    generator = rng.keyed(seed, rng.ORDERS, chunk)
    if order == "permuted":
        return generator.permuted(np.tile(np.arange(n_units, dtype=np.int32), (length, 1)), axis=1)
    return generator.integers(0, n_units, (length, n_units), dtype=np.int32)
