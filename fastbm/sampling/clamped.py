"""The subject of sampling: a machine, or its free units while others are clamped, one pattern for each group."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..machine.clamping import Clamped
from ..machine.machine import BoltzmannMachine

Clamp = tuple[Any, Any]


class Conditioned:
    """The machine whose chains run, and the map from its states to those of the whole machine.

    Attributes
    ----------
    model : BoltzmannMachine
        The whole machine.
    machine : BoltzmannMachine
        The one that is sampled: the whole, or its free units given the first pattern.
    bias : (n_chains, n_free) array or None
        Biases of the chains, where they differ.
    offset : float or (n_chains,) array
        What an energy of the sampled machine, without its own offset, lacks to that of the whole state.
    """

    def __init__(self, model: BoltzmannMachine, clamp: Clamp | None, n_chains: int) -> None:
        self.model, self.machine, self.n_chains = model, model, n_chains
        self.bias: np.ndarray | None = None
        self.offset: Any = model.offset
        self._clamped: Clamped | None = None
        if clamp is not None:
            self._hold(Clamped.of(model, *clamp))

    def _hold(self, clamped: Clamped) -> None:
        if not clamped.free.size:
            raise ValueError("clamp must leave at least one unit free; it names all of them. Use model.energy instead.")
        if self.n_chains % clamped.n_patterns:
            raise ValueError(
                f"clamp must hold a number of patterns that divides n_chains ({self.n_chains}), so that equal groups "
                f"of chains get one each; got {clamped.n_patterns}."
            )
        each = self.n_chains // clamped.n_patterns
        self._clamped, self.machine = clamped, clamped.machine(0)
        if clamped.n_patterns > 1:
            self.bias = np.repeat(clamped.bias, each, axis=0)
        self.offset = np.repeat(clamped.offset, each)
        self._held = np.repeat(model_bits(self.model, clamped.values), each, axis=0)

    @property
    def n_patterns(self) -> int:
        """Number of clamped patterns; 1 where nothing is clamped."""
        return 1 if self._clamped is None else self._clamped.n_patterns

    def restrict(self, up: np.ndarray) -> np.ndarray:
        """Return the free units' columns of the bits of all units."""
        return up if self._clamped is None else np.ascontiguousarray(up[:, self._clamped.free])

    def complete(self, packed: np.ndarray) -> np.ndarray:
        """Return the packed bits of all units, given those of the sampled ones, (..., n_chains, bytes)."""
        if self._clamped is None:
            return packed
        rows = packed.reshape(-1, *packed.shape[-2:])
        whole = np.empty((*rows.shape[:2], -(-self.model.n_units // 8)), np.uint8)
        up = np.empty((self.n_chains, self.model.n_units), np.uint8)
        up[:, self._clamped.indices] = self._held
        for t, row in enumerate(rows):
            free = np.unpackbits(row, axis=1, count=len(self._clamped.free), bitorder="little")
            up[:, self._clamped.free] = free
            whole[t] = np.packbits(up, axis=1, bitorder="little")
        return whole.reshape(*packed.shape[:-1], -1)


def model_bits(model: BoltzmannMachine, values: np.ndarray) -> np.ndarray:
    """Return checked values of a machine's units as bits."""
    return (values == model.convention.hi).astype(np.uint8)
