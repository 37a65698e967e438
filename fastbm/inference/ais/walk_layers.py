"""Walks on layered machines, the layers of odd number summed out.

Salakhutdinov and Murray, ICML (2008), p. 872, doi:10.1145/1390156.1390266. log f_t(s) is then a function of the layers
of even number: with log-odds (1 - t) base + t field of the summed units, log w rises by the change of
sum_i log(1 + exp(log-odds_i)) and by that of the bias of the even layers. Drawing the odd layers and then the even ones
is its own reversal.
"""

from __future__ import annotations

import itertools

import numpy as np

from ...kernels.inference.annealing import draw_tempered_layer
from ...kernels.sampling.layered import anneal_layer
from ...machine.couplings import Layered
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_form
from ...sampling.engine.lanes import BLOCK
from ...sampling.engine.layered import LOG_ODDS_ERROR, BitProduct
from ..scout.scout import attempt_seconds
from .walk import Walk

ENTRIES = 1 << 15  # units times chains of a block, up to which Python's share of the work is kept small


class LayersWalk(Walk):
    """Chains on layered couplings; see `fastbm.kernels.sampling.layered.anneal_layer`."""

    def __init__(
        self, model: BoltzmannMachine, beta: float, base: np.ndarray, streams: np.ndarray, threads: int
    ) -> None:
        self.most_chains = max(BLOCK, ENTRIES // model.n_units)
        super().__init__(model, beta, base, streams, threads)
        assert isinstance(model.couplings, Layered)
        form, field = up_form(model.couplings, model.flat_bias, model.convention)
        worst = beta * float((form.absolute_sums() + np.abs(field)).max())
        dtype = np.dtype(np.float32 if worst * 2.0**-22 <= LOG_ODDS_ERROR else np.float64)
        self._layers = model.couplings.layers
        self._evens, self._odds = range(0, len(self._layers), 2), range(1, len(self._layers), 2)
        blocks = [(beta * block).astype(dtype) for block in form.arrays]
        self._pulls = [BitProduct(block) for block in blocks]
        self._pushes = [BitProduct(block.T) for block in blocks]
        self._field = (beta * field).astype(dtype)[:, None]
        self._low = self.base.astype(dtype)
        self._tilt = beta * field - self.base
        self._up = self.lanes.room(model.n_units, dtype)
        self._totals, self._tilts = ([row[0] for row in self.lanes.room(1, np.float64)] for _ in range(2))
        self.step_seconds = max(self.lanes.widths) * model.n_units * attempt_seconds(model)
        down = np.full((1, model.n_units), model.convention.lo)
        self.log_z0 -= beta * float(model.energy(down)[0])
        self.detail = {"kernel": "layered", "fields": dtype.name}

    def begin(self) -> None:
        """Draw all chains from f_0, with weights 1."""
        for k in self.mine:
            self._totals[k][:] = 0.0
            self._draw_evens(k, 0.0)

    def load(self, up: np.ndarray) -> None:
        """Take states (n_chains, n_units) of 0 and 1, drawn from f, with weights 1."""
        for k in self.mine:
            mine = self._up[k]
            self.lanes.write(k, mine, up[self.lanes.blocks[k]])
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
                fields = self._fields(k, layer)
                anneal_layer(up[rows], fields, self._low[rows], before, after, self.lanes.streams[k], totals)
            self._draw_evens(k, after)

    def _draw_evens(self, k: int, t: float) -> None:
        up, tilts = self._up[k], self._tilts[k]
        tilts[:] = 0.0
        for layer in self._evens:
            rows = self._layers[layer]
            draw_tempered_layer(
                up[rows], self._fields(k, layer), self.base[rows], t, self._tilt[rows], self.lanes.streams[k], tilts
            )

    def _fields(self, k: int, layer: int) -> np.ndarray:
        """Return the log-odds under f of a layer, given its neighbours, for the chains of block `k`."""
        up, rows = self._up[k], self._layers[layer]
        fields = np.empty((rows.stop - rows.start, up.shape[1]), up.dtype)
        fields[:] = self._field[rows]
        if layer > 0:
            self._pulls[layer - 1].add(fields, up[self._layers[layer - 1]])
        if layer < len(self._pushes):
            self._pushes[layer].add(fields, up[self._layers[layer + 1]])
        return fields

    def _log_weights(self) -> list[np.ndarray]:
        return self._totals
