"""Parallel tempering along the path from a product model to a machine.

Lanes keep their levels and states move, as the biases of levels differ; t = 0 is drawn anew at every sweep.
"""

from __future__ import annotations

import numpy as np

from ..._base import rng
from ...kernels.sampling.tempering import count_round_trips, swap_neighbours
from ...sampling.adapter import Adapter
from ..scout.product_path import ProductPath


class BasedChains(Adapter):
    """Ladders of replicas along a path; the chains are those at the machine, the last level.

    Parameters
    ----------
    path : ProductPath
    n_chains : int
        Independent ladders.
    levels : (n_levels,) array
        Increasing from 0.0 to 1.0.
    seed, threads, swap_every
        As for `fastbm.sampling.tempering.TemperedChains`.

    Attributes
    ----------
    engine : Engine
        Lane ``(n_levels - 1) * ladder + k - 1`` stands at level k; those at t = 0 are in none.
    level, accepted, attempted, round_trips
        As of `TemperedChains`.
    """

    def __init__(
        self, path: ProductPath, n_chains: int, levels: np.ndarray, *, seed: int, threads: int, swap_every: int
    ) -> None:
        self.path, self.betas, self.n_chains, self.n_units = path, levels, n_chains, path.model.n_units
        self.swap_every = swap_every
        self._at = np.tile(levels[1:], n_chains)
        self.engine = path.chains(len(self._at), self._at, seed, threads)
        self._free = rng.keyed(seed, rng.STARTS)
        self._up = path.draw(self._free, n_chains * len(levels)).reshape(n_chains, len(levels), -1)
        self._load()
        self._swaps = rng.streams(seed, n_chains, purpose=rng.SWAPS)
        self._counts = np.zeros((2, len(levels) - 1), np.int64)
        self.round_trips, self._end = np.zeros(n_chains, np.int64), np.zeros((n_chains, len(levels)), np.uint8)
        self.level = np.tile(np.arange(len(levels)), (n_chains, 1))
        count_round_trips(self._end, self.round_trips, self.level)
        self._measure()

    def _load(self) -> None:
        self.engine.load_bits(self._up[:, 1:].reshape(-1, self.n_units))

    @property
    def attempted(self) -> np.ndarray:
        """Numbers of swaps that were tried."""
        return self._counts[0]

    @property
    def accepted(self) -> np.ndarray:
        """Numbers of swaps that were accepted."""
        return self._counts[1]

    def sweep(self, n_sweeps: int) -> None:
        """Advance every replica by `n_sweeps` sweeps, with the swaps that fall among them."""
        end = self.n_swept + n_sweeps
        while self.n_swept < end:
            to_swap = self.swap_every - self.n_swept % self.swap_every
            self.engine.sweep(min(to_swap, end - self.n_swept))
            self._up[:, 0] = self.path.draw(self._free, self.n_chains)
            self._up[:, 1:] = self.engine.bits().reshape(self.n_chains, -1, self.n_units)
            self._measure()
            if self.n_swept % self.swap_every == 0:
                self._swap()

    def _measure(self) -> None:
        """Record energies in the machine, without offset, and D, of every level."""
        shape = self.n_chains, len(self.betas) - 1
        energies, rises = self.path.measure(self.engine.energies(), self._up[:, 1:].reshape(-1, self.n_units), self._at)
        free = self.path.model.energy_of_bits(self._up[:, 0]) - self.path.model.offset
        free, rise = self.path.measure(free, self._up[:, 0], np.zeros(1))
        self._energies = np.column_stack([free, energies.reshape(shape)])
        self._rises = np.column_stack([rise, rises.reshape(shape)])

    def _swap(self) -> None:
        """Try to swap every second pair of neighbours."""
        before, parity = self.level.copy(), (self.n_swept // self.swap_every - 1) % 2
        of_replicas = np.take_along_axis(self._rises, before, axis=1)
        if not swap_neighbours(self.level, self._swaps, self._counts, self.betas, of_replicas, parity):
            return
        count_round_trips(self._end, self.round_trips, self.level)
        source = np.take_along_axis(before, np.argsort(self.level, axis=1), axis=1)
        self._up = np.take_along_axis(self._up, source[..., None], axis=1)
        self._energies = np.take_along_axis(self._energies, source, axis=1)
        self._rises = np.take_along_axis(self._rises, source, axis=1)
        self._load()

    def record(self, n_samples: int, thin: int) -> dict[str, np.ndarray]:
        """Advance by `n_samples` times `thin` sweeps, and return rows of every stream after every `thin`.

        Returns
        -------
        dict
            ``samples/states`` and ``samples/energy`` at the machine as `TemperedChains.record` has them, and in
            ``tempering/energy`` (n_samples, n_chains, n_levels), in place of the energy, D at every level.
        """
        rows: dict[str, np.ndarray] = {
            "samples/states": np.empty((n_samples, self.n_chains, -(-self.n_units // 8)), np.uint8),
            "samples/energy": np.empty((n_samples, self.n_chains)),
            "tempering/energy": np.empty((n_samples, self.n_chains, len(self.betas))),
        }
        for t in range(n_samples):
            self.sweep(thin)
            rows["samples/states"][t] = np.packbits(self._up[:, -1], axis=1, bitorder="little")
            rows["samples/energy"][t] = self._energies[:, -1]
            rows["tempering/energy"][t] = self._rises
        return rows

    def energies(self) -> np.ndarray:
        """Return D at the machine, (n_chains,), by which the product model's valley differs from others."""
        return self._rises[:, -1]

    def bits(self) -> np.ndarray:
        """Return the bits at the machine, (n_chains, n_units) uint8."""
        return self._up[:, -1]
