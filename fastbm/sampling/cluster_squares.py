"""Samples of chains of cluster updates, many in one call, side by side in squares of bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.ahead import leaps
from ..kernels.sampling.record_clusters import record_clusters
from ..kernels.sampling.record_sparse import room_of_samples
from ..kernels.words import QUAD, SIDE
from ..machine.couplings import Couplings
from ..machine.units import Units
from .engine.edges import numbers_of

LARGEST = 1 << 14  # units, of more of which a call has too few samples to fill the lanes of a square


class Squares:
    """Takes samples of chains that all have one bias, (n_units,), and whose states are turned where `turned` is 1.

    Energies are by whole numbers where roundings are small, else sums in float64 of the user's couplings. `single` is
    whether updates are of single clusters.
    """

    def __init__(
        self, couplings: Couplings, bias: np.ndarray, units: Units, turned: np.ndarray, *, single: bool
    ) -> None:
        numbers, self._graph = numbers_of(couplings, bias, binary=units.lo == 0), couplings.csr()
        self._numbers = numbers if numbers.exact else None
        edges, machine = None, None
        if numbers.exact:
            edges = numbers.of_samples, numbers.many_digits
        else:
            machine = self._graph, bias[:, None], (float(units.lo), float(units.span))
        self._n_units, self._single = len(bias), single or None
        bits = np.packbits(np.pad(turned, (0, -len(bias) % SIDE)), bitorder="little").view("<u4")
        gauge = bits.astype(np.uint32).reshape(-1, SIDE // 32)[: None if turned.any() else 0]
        self._energy = np.arange(len(bias), dtype=np.int32), gauge, edges, machine

    def room(self) -> tuple[Any, np.ndarray]:
        """Return the room that a thread needs to take samples."""
        of_sums = None if self._numbers is None else self._numbers.room(1)
        room = room_of_samples(1, self._n_units, self._n_units, of_sums)
        return room, np.empty(self._n_units + 1, np.int32)

    def take(
        self, chains: tuple[np.ndarray, ...], thin: int, room: tuple[Any, np.ndarray], packed: np.ndarray,
        energies: np.ndarray, sums: np.ndarray,
    ) -> None:  # fmt: skip
        """Take a sample after every `thin` updates of chains that are alike, (states, streams, cuts, pull).

        Mutates the states, the streams, `packed` (n_samples, n_chains, n_bytes), `energies` (n_samples, n_chains), and
        `sums`, as many of what updates return.
        """
        (up, streams, cuts, pull), (own, queue) = chains, room
        rows = np.empty((*sums.shape, -(-self._n_units // SIDE) * QUAD), np.uint32)
        found, graph = (rows, np.empty(sums.shape), np.empty(sums.shape)), (*self._graph[:2], cuts)
        record_clusters(up, queue, graph, pull, (streams, leaps()), thin, self._single, self._energy, own, found)
        energies[:], sums[:] = found[1:]
        packed[:] = rows.astype("<u4", copy=False).view(np.uint8)[:, :, : packed.shape[2]]
