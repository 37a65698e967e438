"""Walks on layered machines, the layers of odd number summed out.

Salakhutdinov and Murray, ICML (2008), p. 872, doi:10.1145/1390156.1390266. log f_t(s) is then a function of the layers
of even number: with log-odds (1 - t) base + t field of the summed units, log w rises by the change of
sum_i log(1 + exp(log-odds_i)) and by that of the bias of the even layers. Drawing the odd layers and then the even ones
is its own reversal.
"""

from __future__ import annotations

import numpy as np

from ...kernels.inference.annealing import follow_layers
from ...machine.couplings import Layered
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_form
from ...sampling.engine.lanes import BLOCK
from ...sampling.engine.layered import LOG_ODDS_ERROR, BitProduct
from ..scout.scout import attempt_seconds
from .walk import Walk

ENTRIES = 1 << 15  # units times chains of a block, up to which it stays in the cache


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
        blocks = [(beta * block).astype(dtype) for block in form.arrays]
        self._products = [BitProduct(one) for block in blocks for one in (block, block.T)]
        self._starts = np.array([0, *(rows.stop for rows in self._layers)])
        self._most_units = int(np.diff(self._starts).max())
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
            self._follow_block(k, np.zeros(1))

    def load(self, up: np.ndarray) -> None:
        """Take states (n_chains, n_units) of 0 and 1, drawn from f, with weights 1."""
        for k in self.mine:
            mine = self._up[k]
            self.lanes.write(k, mine, up[self.lanes.blocks[k]])
            self._totals[k][:] = 0.0
            self._tilts[k][:] = 0.0
            for rows in self._layers[::2]:
                self._tilts[k] += self._tilt[rows] @ mine[rows]

    def _follow_block(self, k: int, path: np.ndarray) -> None:
        up = self._up[k]
        products = BitProduct.rows(self._products, len(path))
        room = np.empty((self._most_units, up.shape[1]), up.dtype), *BitProduct.room(self._products, up.shape[1])
        follow_layers(
            up,
            (self._totals[k], self._tilts[k]),
            self.lanes.streams[k],
            (self._starts, self._field, products),
            (self._low, self.base, self._tilt),
            room,
            np.array(path),
        )

    def _log_weights(self) -> list[np.ndarray]:
        return self._totals
