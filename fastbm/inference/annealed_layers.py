"""Walks on layered machines, the layers of odd number summed out.

Salakhutdinov and Murray, ICML (2008), p. 872, doi:10.1145/1390156.1390266. log f_t(s) is then a function of the layers
of even number: with log-odds (1 - t) base + t field of the summed units, log w rises by the change of
sum_i log(1 + exp(log-odds_i)) and by that of the bias of the even layers. Drawing the odd layers and then the even ones
is its own reversal.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from .. import aligned
from ..couplings import Layered
from ..couplings.up import up_form
from ..kernels.anneal_layers import draw_tempered_layer
from ..kernels.layered import anneal_layer
from ..kernels.row_sums import TILE, add_rows, fill_tiles, list_units
from ..model import BoltzmannMachine
from .annealed_walk import Walk

FLOAT32_LIMIT = 1e-4  # what float32 fields may change a log-odds by before float64 is taken
FEW = 0.25  # part of the rows up to which sums of rows are faster than a matrix product


class LayersWalk(Walk):
    """Chains on layered couplings; see `fastbm.kernels.layered.anneal_layer`."""

    def __init__(
        self, model: BoltzmannMachine, beta: float, base: np.ndarray, streams: np.ndarray, threads: int
    ) -> None:
        super().__init__(model, beta, base, streams, threads)
        assert isinstance(model.couplings, Layered)
        form, field = up_form(model.couplings, model.flat_bias, model.convention)
        worst = beta * float((form.absolute_sums() + np.abs(field)).max())
        dtype = np.dtype(np.float32 if worst * 2.0**-22 <= FLOAT32_LIMIT else np.float64)
        self._layers = model.couplings.layers
        self._evens, self._odds = range(0, len(self._layers), 2), range(1, len(self._layers), 2)
        blocks = [(beta * block).astype(dtype) for block in form.arrays]
        self._pulls = [_Product(block) for block in blocks]
        self._pushes = [_Product(np.ascontiguousarray(block.T)) for block in blocks]
        self._field = (beta * field).astype(dtype)[:, None]
        self._low = self.base.astype(dtype)
        self._tilt = beta * field - self.base
        lanes = [stream.shape[1] for stream in self.streams]
        self._up = [aligned.zeros((model.n_units, n), dtype) for n in lanes]
        self._totals = [np.zeros(n) for n in lanes]
        self._tilts = [np.zeros(n) for n in lanes]
        self.step_seconds = max(lanes) * (1e-9 * model.n_units + 5e-11 * sum(block.size for block in blocks))
        down = np.full((1, model.n_units), model.convention.lo)
        self.log_z0 -= beta * float(model.energy(down)[0])
        self.detail = {"kernel": "layered", "fields": dtype.name}

    def begin(self) -> None:
        for k, totals in enumerate(self._totals):
            totals[:] = 0.0
            self._draw_evens(k, 0.0)

    def load(self, up: np.ndarray) -> None:
        for k, block in enumerate(self.blocks):
            mine = self._up[k]
            mine[:, : block.stop - block.start] = up[block].T
            self._totals[k][:] = 0.0
            self._tilts[k][:] = 0.0
            for rows in (self._layers[layer] for layer in self._evens):
                self._tilts[k] += self._tilt[rows] @ mine[rows]

    def _follow_block(self, k: int, path: np.ndarray) -> None:
        up, totals = self._up[k], self._totals[k]
        for before, after in itertools.pairwise(path.tolist()):
            totals += (after - before) * self._tilts[k]
            for layer in self._odds:
                rows = self._layers[layer]
                fields = self._fields(layer, up)
                anneal_layer(up[rows], fields, self._low[rows], before, after, self.streams[k], totals)
            self._draw_evens(k, after)

    def _draw_evens(self, k: int, t: float) -> None:
        up, tilts = self._up[k], self._tilts[k]
        tilts[:] = 0.0
        for layer in self._evens:
            rows = self._layers[layer]
            draw_tempered_layer(
                up[rows], self._fields(layer, up), self.base[rows], t, self._tilt[rows], self.streams[k], tilts
            )

    def _fields(self, layer: int, up: np.ndarray) -> np.ndarray:
        """Log-odds under f of a layer, given its neighbours."""
        rows = self._layers[layer]
        parts = [self._pulls[layer - 1].of(up[self._layers[layer - 1]])] if layer > 0 else []
        if layer < len(self._pushes):
            parts.append(self._pushes[layer].of(up[self._layers[layer + 1]]))
        return _sum(parts, self._field[rows])

    def _log_w_block(self, k: int) -> np.ndarray:
        return self._totals[k]

    def _up_block(self, k: int) -> np.ndarray:
        return self._up[k]


def _sum(parts: Sequence[np.ndarray], start: np.ndarray) -> np.ndarray:
    total = parts[0]
    for part in [*parts[1:], start]:
        total += part
    return total


class _Product:
    """Weights (n, m), transposed, times bits (n, lanes): a sum of rows where few are on (or few off)."""

    def __init__(self, weights: np.ndarray) -> None:
        n, m = weights.shape
        self._transposed = weights.T
        self._whole = weights.sum(axis=0)
        self._tiles = aligned.zeros((-(-m // TILE), n, TILE), weights.dtype)
        fill_tiles(self._tiles, weights)

    def of(self, up: np.ndarray) -> np.ndarray:
        n, lanes = up.shape
        on = up.sum(axis=0)
        if float(np.minimum(on, n - on).mean()) > FEW * n:
            product: np.ndarray = self._transposed @ up
            return product
        rows, counts = np.empty((lanes, n + 1), np.int32), np.empty(lanes, np.int64)
        turned = np.empty(lanes, np.uint8)
        list_units(rows, counts, turned, up)
        fields = np.zeros((len(self._whole), lanes), up.dtype)
        sums = aligned.zeros((lanes, TILE), up.dtype)
        add_rows(fields, sums, self._tiles, self._whole, rows, counts, turned)
        return fields
