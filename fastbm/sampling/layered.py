"""Chains on layered couplings: block Gibbs (or Metropolis), a layer drawn at once given its neighbours.

Units are on or off, so a product with the weights is a sum of rows; see `fastbm.kernels.bit_products`.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from ..couplings import Layered
from ..couplings.up import up_form
from ..kernels.layered import gibbs_layer, metropolis_layer
from .bit_product import BitProduct
from .engine import BLOCK, LANES, Engine, lanes_of

ENTRIES = 1 << 15  # units times chains of a block, up to which it stays in the cache
LOG_ODDS_ERROR = 1e-4  # what float32 may change a conditional log-odds by, in the worst state, before float64 is taken


class LayeredChains(Engine):
    """Layers in order, each drawn given its neighbours.

    In coloured order all layers of even number come first, then those of odd number.
    """

    kernel = "layered"

    @classmethod
    def _block_size(cls, n_chains: int, n_units: int, threads: int) -> int:
        """Chains of a block: the more, the fewer units there are, so that Python's share of the work is small."""
        n_blocks = max(-(-n_chains // lanes_of(max(BLOCK, ENTRIES // n_units))), min(threads, -(-n_chains // LANES)))
        return lanes_of(-(-n_chains // n_blocks))

    def _couple(self) -> None:
        assert isinstance(self.couplings, Layered)
        form, field = up_form(self.couplings, self.bias, self.units)
        largest = float((form.absolute_sums() + np.abs(field).max(axis=0)).max(initial=0.0))
        worst = min(self.highest_beta * largest, sys.float_info.max)
        # fields of at most 1, so that float32 holds them whatever the scale of the couplings; betas make up for it
        self._exponent = math.frexp(largest)[1]
        single = worst * 2.0**-22 <= LOG_ODDS_ERROR
        self.dtype = np.dtype(np.float32 if single else np.float64)
        weights = [np.ldexp(block, -self._exponent).astype(self.dtype) for block in form.arrays]
        self._pulls = [BitProduct(block) for block in weights]
        self._pushes = [BitProduct(block.T) for block in weights]
        self._user_pulls_made: list[BitProduct] | None = None
        field = np.ldexp(field, -self._exponent)
        self._start = [self._start_of(k, field) for k in range(len(self.blocks))]
        self._layers = self.couplings.layers
        numbers = range(len(self._layers))
        self._visited = [*numbers[::2], *numbers[1::2]] if self.order == "coloured" else list(numbers)
        self._rescale()
        self._forget()
        products = sum(block.size for block in form.arrays) / max(self.n_units, 1)
        self.attempt_seconds = 1e-9 + 3e-11 * products
        self.detail = {
            "kernel": self.kernel,
            "fields": self.dtype.name,
            "largest log-odds error": worst * (2.0**-22 if single else 2.0**-51),
        }

    def _rescale(self) -> None:
        self._scale = []
        with np.errstate(over="ignore"):
            betas = np.minimum(np.ldexp(self.beta, self._exponent), float(np.finfo(self.dtype.type).max))
        for block, up in zip(self.blocks, self.up, strict=True):
            scale = np.zeros(up.shape[1], self.dtype)
            scale[: block.stop - block.start] = betas[block]
            self._scale.append(scale)

    def _forget(self) -> None:
        self._values = [lanes.astype(getattr(self, "dtype", np.float32)) for lanes in self.up]

    def _start_of(self, k: int, field: np.ndarray) -> np.ndarray:
        """The field with all units down: one column, or one for each chain of the block."""
        if len(field) == 1:
            return field.T.astype(self.dtype)
        block = self.blocks[k]
        start = np.zeros((self.n_units, self.up[k].shape[1]), self.dtype)
        start[:, : block.stop - block.start] = field[block].T
        return start

    def layer_field(self, k: int, layer: int) -> np.ndarray:
        """The field of a layer for the chains of block `k`: log-odds at beta = 1, times 2^-exponent."""
        values, rows = self._values[k], self._layers[layer]
        field = np.empty((rows.stop - rows.start, values.shape[1]), self.dtype)
        field[:] = self._start[k][rows]
        if layer > 0:
            self._pulls[layer - 1].add(field, values[self._layers[layer - 1]])
        if layer < len(self._pushes):
            self._pushes[layer].add(field, values[self._layers[layer + 1]])
        return field

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        draw = metropolis_layer if self.rule == "metropolis" else gibbs_layer
        values, used = self._values[k], self.blocks[k].stop - self.blocks[k].start
        for _ in range(n_sweeps):
            if self._must_stop(k, self.n_units):
                return
            for layer in self._visited:
                rows = self._layers[layer]
                self._flips[k] += draw(
                    values[rows], self.layer_field(k, layer), self._scale[k], self.lane_streams[k], used
                )
        self.up[k][:] = values

    def draw_layer(self, layer: int) -> None:
        """Draw one layer given its neighbours, the others staying as they are."""

        def draw(k: int) -> None:
            rows, used = self._layers[layer], self.blocks[k].stop - self.blocks[k].start
            self._flips[k] += gibbs_layer(
                self._values[k][rows], self.layer_field(k, layer), self._scale[k], self.lane_streams[k], used
            )
            self.up[k][:] = self._values[k]

        self._for_blocks(draw, 1)

    def _energies_block(self, k: int) -> np.ndarray:
        block, lo, span = self.blocks[k], float(self.units.lo), float(self.units.span)
        up, values = self.up[k].astype(np.float64), self.units.values(self.up[k], np.float64)
        bias = np.zeros_like(values) if len(self.bias) > 1 else self.bias.T
        if len(self.bias) > 1:
            bias[:, : block.stop - block.start] = self.bias[block].T
        energies = -(bias * values).sum(axis=0)
        for layer, pull in enumerate(self._user_pulls):
            rows = self._layers[layer + 1]
            field = np.zeros((rows.stop - rows.start, up.shape[1]))
            pull.add(field, up[self._layers[layer]])
            energies -= ((span * field + lo * pull.whole[:, None]) * values[rows]).sum(axis=0)
        return energies[: block.stop - block.start]

    @property
    def _user_pulls(self) -> list[BitProduct]:
        """The user's couplings in float64, from which energies are told; made when first asked for."""
        if self._user_pulls_made is None:
            self._user_pulls_made = [BitProduct(np.array(block)) for block in self.couplings.arrays]
        return self._user_pulls_made
