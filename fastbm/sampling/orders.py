"""The order in which a sweep visits the units, the same for all chains of a run.

Random orders come in chunks keyed by the sweep's number, so that nothing need be stored and a sweep's order does not
depend on how a run was cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import rng


def sites(
    order: str, n_units: int, seed: int, first: int, n_sweeps: int, *, holds: bool
) -> Iterator[tuple[np.ndarray, int]]:
    """Yield (rows of units to visit, number of sweeps) for sweeps `first` to `first + n_sweeps`.

    With `holds`, random order has one more slot that visits no unit (-1). Without it Metropolis dynamics on free units
    would flip one unit at every attempt, and the parity of the number of units up would be fixed by the number of
    sweeps.
    """
    if order == "sequential":
        yield np.arange(n_units, dtype=np.int32)[None], n_sweeps
        return
    length = max(1, 65_536 // n_units)
    for chunk in range(first // length, -(-(first + n_sweeps) // length)):
        rows = _draw(order, n_units, length, rng.keyed(seed, rng.ORDERS, chunk), holds)
        start, stop = max(first, chunk * length), min(first + n_sweeps, (chunk + 1) * length)
        yield rows[start - chunk * length : stop - chunk * length], stop - start


def _draw(order: str, n_units: int, length: int, generator: np.random.Generator, holds: bool) -> np.ndarray:
    if order == "permuted":
        return generator.permuted(np.tile(np.arange(n_units, dtype=np.int32), (length, 1)), axis=1)
    drawn = generator.integers(0, n_units + holds, (length, n_units), dtype=np.int32)
    return np.where(drawn == n_units, np.int32(-1), drawn)
