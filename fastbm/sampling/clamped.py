"""The subject of sampling: a machine, or its free units while others are clamped, one pattern for each group."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..machine.clamping import Clamped
from ..machine.machine import BoltzmannMachine

Clamp = tuple[Any, Any]

WHOLE = 255  # a byte of which all bits are set


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
        n_units, n_bytes, first = self.model.n_units, packed.shape[-1], 0
        is_free, held = np.zeros(n_units, np.uint8), np.zeros((self.n_chains, n_units), np.uint8)
        is_free[self._clamped.free] = 1
        held[:, self._clamped.indices] = self._held
        masks, held = (np.packbits(bits, axis=-1, bitorder="little") for bits in (is_free, held))
        whole = np.empty((*packed.shape[:-1], len(masks)), np.uint8)
        for b, mask in enumerate(masks.tolist()):  # a byte takes as many bits, side by side, as it has free units
            k, shift = divmod(first, 8)
            some = packed[..., min(k, n_bytes - 1)] >> shift
            if shift and k + 1 < n_bytes:
                some |= packed[..., k + 1] << (8 - shift)
            np.bitwise_or(some if mask == WHOLE else _spread(mask)[some], held[:, b], out=whole[..., b])
            first += mask.bit_count()
        return whole


@cache
def _spread(mask: int) -> np.ndarray:
    """Return the byte whose bits at `mask`, from the lowest one on, are the lowest bits of each byte, (256,)."""
    spread, octets = np.zeros(256, np.uint8), np.arange(256, dtype=np.uint8)
    for k, bit in enumerate(bit for bit in range(8) if mask >> bit & 1):
        spread |= (octets >> k & 1) << bit
    return spread


def model_bits(model: BoltzmannMachine, values: np.ndarray) -> np.ndarray:
    """Return checked values of a machine's units as bits."""
    return (values == model.convention.hi).astype(np.uint8)
