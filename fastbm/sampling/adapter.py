"""The part that samplers around one engine have in common: they pass on what is the engine's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .engine.engine import Engine


class Adapter:
    """A sampler that drives one engine, `engine`."""

    engine: Engine

    @property
    def detail(self) -> dict[str, Any]:
        """Name of the kernel, and the numbers that it computes in."""
        return self.engine.detail

    @property
    def halt(self) -> Callable[[], bool]:
        """Function that is asked between pieces of long sweeps whether a stop is wanted."""
        return self.engine.halt

    @halt.setter
    def halt(self, wanted: Callable[[], bool]) -> None:
        self.engine.halt = wanted

    @property
    def n_swept(self) -> int:
        """Sweeps done since the start; one of them sweeps all replicas."""
        return self.engine.n_swept

    @property
    def n_flips(self) -> int:
        """Flips of all replicas since the start."""
        return self.engine.n_flips

    @property
    def sweep_seconds(self) -> float:
        """About how many seconds a sweep of all replicas takes."""
        return self.engine.sweep_seconds

    def energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), in float64 from the user's couplings."""
        return self.engine.energies()

    def bits(self) -> np.ndarray:
        """Return the bits of all chains, (n_chains, n_units) uint8."""
        return self.engine.bits()

    def packed(self) -> np.ndarray:
        """Return the bits of all chains, (n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        return self.engine.packed()
