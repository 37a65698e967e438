"""Chains of independent draws from the exact distribution: a sweep is one draw of every chain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..halting import never
from ..kernels.energy import energies_sparse
from ..model import BoltzmannMachine
from ..store import Stream
from ..threads import fan_out
from .exact_sources import Group

DRAWN_BYTES = 1 << 23  # bits, a byte each, that are drawn at a time
ENERGY_LANES = 256  # states whose energies are computed side by side


class ExactChains:
    """Chains that a sweep leaves in a new state, independent of the one before; from outside, what
    `fastbm.sampling.engine.Engine` is.

    Parameters
    ----------
    machine : BoltzmannMachine
        The units that are sampled.
    bias : (n_units,) or (n_chains, n_units) array
    groups : list of Group
        Equal numbers of consecutive chains, each with the source that it draws from.
    streams : (n_chains, 4) uint32 array
    engine : str
        The name of what makes the sources.
    threads : int

    Attributes
    ----------
    n_swept : int
        Draws of each chain since the start.
    halt : function
        Asked while tables are made and in long draws: true if a stop is wanted. Then `Halted` is raised.

    Notes
    -----
    Draws that `thin` leaves out are drawn all the same: a sample depends on its chain's stream and on its own sweep,
    not on how sweeps are put together. Energies are summed in float64 from the user's couplings.
    """

    def __init__(
        self,
        machine: BoltzmannMachine,
        bias: np.ndarray,
        groups: list[Group],
        streams: np.ndarray,
        *,
        engine: str,
        threads: int,
    ) -> None:
        self._units, self._graph = machine.convention, machine.couplings.csr()
        self._bias = np.ascontiguousarray(np.atleast_2d(bias), dtype=np.float64)
        self._groups, self.threads = groups, threads
        self.n_chains, self.n_units, self.n_swept = len(streams), machine.n_units, 0
        self.halt: Callable[[], bool] = never
        self._tables_made = False
        self._load(streams)
        self.detail: dict[str, Any] = {"kernel": engine, "tables": groups[0].source.forecast.size}

    def _load(self, streams: np.ndarray) -> None:
        """Take streams (n_chains, 4)."""
        self._streams = [np.array(streams[group.chains].T, np.uint32, order="C") for group in self._groups]

    @property
    def streams(self) -> dict[str, Stream]:
        """What `record` returns beside states and energies: nothing."""
        return {}

    @property
    def sweep_seconds(self) -> float:
        """About how long the next draw of all chains takes, the tables of the first included."""
        sources = [group.source for group in self._groups]
        tables = 0.0 if self._tables_made else sum(source.forecast.seconds for source in sources)
        each = self.n_chains / len(sources)
        return tables + sum(source.draw_seconds for source in sources) * each / self.threads

    def _draws(self, k: int, n_draws: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (number of the first, bits) of draws of group `k`, as many at a time as memory allows."""
        source, streams = self._groups[k].source, self._streams[k]
        step = max(1, DRAWN_BYTES // (streams.shape[1] * self.n_units))
        for first in range(0, n_draws, step):
            yield first, source.draw(streams, min(step, n_draws - first), self.threads, self.halt)

    def sweep(self, n_sweeps: int) -> None:
        """Draw `n_sweeps` states of every chain, and keep none."""
        for k in range(len(self._groups)):
            for _ in self._draws(k, n_sweeps):
                pass
        self._count(n_sweeps)

    def record(self, n_samples: int, thin: int) -> dict[str, np.ndarray]:
        """Draw `n_samples` times `thin` states of every chain, and keep the last of every `thin`.

        Returns
        -------
        dict
            ``samples/states`` (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit, and
            ``samples/energy`` (n_samples, n_chains), without offset.
        """
        packed = np.empty((n_samples, self.n_chains, -(-self.n_units // 8)), np.uint8)
        energies = np.empty((n_samples, self.n_chains))
        for k, group in enumerate(self._groups):
            for first, up in self._draws(k, n_samples * thin):
                skipped = -(first + 1) % thin
                kept, start = up[skipped::thin], (first + skipped) // thin
                rows = slice(start, start + len(kept))
                packed[rows, group.chains] = np.packbits(kept, axis=2, bitorder="little")
                energies[rows, group.chains] = self._energies(group, kept)
        self._count(n_samples * thin)
        return {"samples/states": packed, "samples/energy": energies}

    def _count(self, n_sweeps: int) -> None:
        self._tables_made = self._tables_made or n_sweeps > 0
        self.n_swept += n_sweeps

    def _energies(self, group: Group, up: np.ndarray) -> np.ndarray:
        """Energies without offset of bits (n_samples, n_chains, n_units) of one group."""
        row = self._bias[group.chains.start if len(self._bias) > 1 else 0]
        bias, values = np.ascontiguousarray(row[:, None]), (float(self._units.lo), float(self._units.span))
        states = up.reshape(-1, self.n_units)
        energies = np.empty(len(states))

        def compute(first: int) -> None:
            lanes = slice(first, first + ENERGY_LANES)
            energies_sparse(np.ascontiguousarray(states[lanes].T), self._graph, bias, values, energies[lanes])

        fan_out(compute, range(0, len(states), ENERGY_LANES), self.threads)
        return energies.reshape(up.shape[:2])

    def packed(self) -> np.ndarray:
        """States with all units down: there are none before the first draw, and none is kept after it."""
        return np.zeros((self.n_chains, -(-self.n_units // 8)), np.uint8)

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        return {"streams": np.concatenate([s.T for s in self._streams]), "n_swept": np.array(self.n_swept)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        self._load(state["streams"])
        self.n_swept = int(state["n_swept"])
