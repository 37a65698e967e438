"""Chains on layered couplings: block Gibbs (or Metropolis), a layer drawn at once given its neighbours.

What the units of one layer that are on add to the fields of another is a product of bits with the weights, a sum of
rows (`fastbm.kernels.bits`).
"""

from __future__ import annotations

import math
import sys
from functools import cached_property

import numpy as np

from ..._base import arrays
from ...kernels.bits import (
    MASKS,
    NARROW,
    add_plainly,
    add_with_rows,
    add_with_tables,
    fill_tables,
    pack_lanes,
    room_of_rows,
)
from ...kernels.sampling.layered import gibbs_layer, metropolis_layer
from ...kernels.vectors import COLUMNS, ROWS, has_look_up
from ...machine.couplings import Layered
from ...machine.up_form import up_form
from .engine import Engine
from .lanes import BLOCK, LANES, lanes_of

TABLES_FROM = 4  # products with the same weights, from which on tables of their sums are worth making
TABLES_BYTES = 1 << 24  # most of them: larger ones leave the cache
ENTRIES = 1 << 15  # units times chains of a block, up to which it stays in the cache
LOG_ODDS_ERROR = 1e-4  # what float32 may change a conditional log-odds by, in the worst state, before float64 is taken


class BitProduct:
    """Weights (n, m) whose rows are added up, those of the units that are on.

    Which of the three ways of `fastbm.kernels.bits` is taken changes no bit.
    """

    def __init__(self, weights: np.ndarray) -> None:
        n, m = weights.shape
        self._weights = weights
        self._wide = has_look_up() and weights.dtype == np.float32 and m >= COLUMNS
        self._tables: np.ndarray | None = None
        self._n_left = TABLES_FROM if 64 * (n // 4) * m // COLUMNS <= TABLES_BYTES else -1
        self._tail = weights[n // ROWS * ROWS :]
        if self._wide and len(self._tail):
            self._tail = np.zeros((ROWS, m), np.float32)
            self._tail[: n % ROWS] = weights[n // ROWS * ROWS :]

    def add(self, fields: np.ndarray, up: np.ndarray) -> None:
        """Add to `fields` (m, lanes) what `up` (n, lanes) of 0 and 1 pulls; both of the weights' type, C-contiguous."""
        n, m = self._weights.shape
        if not self._wide or up.shape[1] % NARROW:
            add_plainly(fields, self._weights, up, 0)
            return
        words = np.empty((-(-n // ROWS), up.shape[1]), np.uint32)
        pack_lanes(words, up)
        tables = self._tables if self._tables is not None else self._count()
        if tables is not None:
            add_with_tables(fields, tables, words)
        else:
            whole, room = n // ROWS, arrays.zeros(room_of_rows(len(words)), np.float32)
            if whole:
                add_with_rows(fields, self._weights, words[:whole], MASKS, room)
            if whole < len(words):
                add_with_rows(fields, self._tail, words[whole:], MASKS, room)
        if m % COLUMNS:
            add_plainly(fields, self._weights, up, m - m % COLUMNS)

    @cached_property
    def whole(self) -> np.ndarray:
        """The sum of all rows, (m,)."""
        found: np.ndarray = self._weights.sum(axis=0)
        return found

    def _count(self) -> np.ndarray | None:
        """Count a product, and make the tables once there were enough of them."""
        self._n_left -= 1
        if self._n_left != 0:
            return None
        n, m = self._weights.shape
        padded = np.zeros((-(-n // ROWS) * ROWS, m), np.float32)
        padded[:n] = self._weights
        tables = arrays.zeros((m // COLUMNS, len(padded) // 4, COLUMNS, 16), np.float32)
        fill_tables(tables, padded, MASKS)
        self._tables = tables
        return tables


class LayeredChains(Engine):
    """Chains on layered couplings: layers in order, each drawn given its neighbours.

    In coloured order all layers of even number come first, then those of odd number.
    """

    kernel = "layered"

    def _block_size(self, n_chains: int, n_units: int, threads: int) -> int:
        """Return the chains of a block: the more, the fewer units, so that Python's share of the work is small."""
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
        self._start = [self.lanes.spread(k, field.astype(self.dtype)) for k in range(len(self.blocks))]
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
        for k, block in enumerate(self.blocks):
            self._scale.append(np.zeros(self.lanes.widths[k], self.dtype))
            self.lanes.write(k, self._scale[k], betas[block])

    def _forget(self) -> None:
        self._values = [lanes.astype(getattr(self, "dtype", np.float32)) for lanes in self.up]

    def layer_field(self, k: int, layer: int) -> np.ndarray:
        """Return the field of a layer for the chains of block `k`: log-odds at beta = 1, times 2^-exponent."""
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
        values, used = self._values[k], self.lanes.used(k)
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
            rows, used = self._layers[layer], self.lanes.used(k)
            self._flips[k] += gibbs_layer(
                self._values[k][rows], self.layer_field(k, layer), self._scale[k], self.lane_streams[k], used
            )
            self.up[k][:] = self._values[k]

        self._for_blocks(draw, 1)

    def _energies_block(self, k: int) -> np.ndarray:
        lo, span = float(self.units.lo), float(self.units.span)
        up, values = self.up[k].astype(np.float64), self.units.values(self.up[k], np.float64)
        energies = -(self.lanes.spread(k, self.bias) * values).sum(axis=0)
        for layer, pull in enumerate(self._user_pulls):
            rows = self._layers[layer + 1]
            field = np.zeros((rows.stop - rows.start, up.shape[1]))
            pull.add(field, up[self._layers[layer]])
            energies -= ((span * field + lo * pull.whole[:, None]) * values[rows]).sum(axis=0)
        found: np.ndarray = energies[: self.lanes.used(k)]
        return found

    @property
    def _user_pulls(self) -> list[BitProduct]:
        """Return the user's couplings in float64, from which energies are computed; made when first asked for."""
        if self._user_pulls_made is None:
            self._user_pulls_made = [BitProduct(np.array(block)) for block in self.couplings.arrays]
        return self._user_pulls_made
