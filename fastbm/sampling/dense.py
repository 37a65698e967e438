"""Chains on dense couplings: cached integer fields, one row of couplings at a time for 64 chains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..couplings import Couplings
from ..kernels.dense import gibbs_sweep_dense, init_fields_dense, metropolis_sweep_dense
from ..kernels.energy import energies_dense
from .engine import Engine, up_form
from .orders import sites

LOG_ODDS_ERROR = (
    1e-4  # what fixed point may change a conditional log-odds by, in the worst state, before int64 is taken
)

# One in 16 Metropolis proposals in random order is dropped, each chain for itself. Without it free units, which accept
# every proposal, would follow the order of the sites alone: chains that share it would move in step, and parity would
# be fixed.
HOLD = np.uint32(1 << 28)


class DenseChains(Engine):
    """Single-spin Gibbs or Metropolis updates; see `fastbm.kernels.dense`."""

    kernel = "dense"

    def couple(self, couplings: Couplings, bias: np.ndarray) -> None:
        self._weights, self._bias = couplings.matrix(), np.atleast_2d(bias)
        form, field = up_form(couplings, self._bias, self.units)
        largest = float((form.absolute_sums() + np.abs(field).max(axis=0)).max())
        worst = float(self.beta.max(initial=0.0)) * (self.n_units + 1) / 2
        exponent = _scale(largest, 30)
        dtype: np.dtype[Any] = np.dtype(np.int32)
        if worst * 2.0**-exponent > LOG_ODDS_ERROR:
            exponent, dtype = _scale(largest, 61), np.dtype(np.int64)
        width = -(-self.n_units // 64) * 64
        self._rises = np.zeros((self.n_units, width), dtype)
        self._rises[:, : self.n_units] = np.rint(np.ldexp(form.matrix(), exponent))
        start = np.zeros((len(self._bias), width), dtype)
        start[:, : self.n_units] = np.rint(np.ldexp(field, exponent))
        self._start = np.broadcast_to(start, (self.n_chains, width))
        self._scale = [self._thresholds(k, exponent) for k in range(len(self.blocks))]
        self._fields: list[np.ndarray] = []
        self.detail = {
            "kernel": self.kernel,
            "fields": f"{dtype.name} in units of 2^-{exponent}",
            "largest log-odds error": worst * 2.0**-exponent,
        }

    def _thresholds(self, k: int, exponent: int) -> np.ndarray:
        """log-odds to integer fields, per lane; at beta = 0 the largest number, so that the sign decides."""
        scale = np.full(self.up[k].shape[1], np.finfo(np.float32).max, np.float32)
        beta = self.beta[self.blocks[k]]
        with np.errstate(divide="ignore", over="ignore"):
            scale[: len(beta)] = np.minimum(np.ldexp(1.0, exponent) / beta, np.finfo(np.float32).max)
        return scale

    def _prepare(self) -> None:
        if self._fields:
            return
        width, dtype = self._rises.shape[1], self._rises.dtype
        self._fields = [np.empty((block.stop - block.start, width), dtype) for block in self.blocks]

        def fill(k: int) -> None:
            start = np.ascontiguousarray(self._start[self.blocks[k]])
            init_fields_dense(self._fields[k], self.up[k], self._rises, start)

        self._for_blocks(fill, self.n_units)

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        up, fields, scale, streams = self.up[k], self._fields[k], self._scale[k], self.streams[k]
        hold = HOLD if self.order == "random" else np.uint32(0)
        for rows, count in sites(self.order, self.n_units, self.seed, first, n_sweeps):
            if self.rule == "metropolis":
                metropolis_sweep_dense(up, fields, self._rises, scale, streams, rows, count, hold)
            else:
                gibbs_sweep_dense(up, fields, self._rises, scale, streams, rows, count)

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._fields = []

    def _energies_block(self, k: int) -> np.ndarray:
        block = self.blocks[k]
        values = self.units.values(self.up[k], np.float64)
        bias = self._bias.T
        if len(self._bias) > 1:
            bias = np.zeros_like(values)
            bias[:, : block.stop - block.start] = self._bias[block].T
        energies = np.empty(values.shape[1])
        energies_dense(values, self._weights, np.ascontiguousarray(bias), energies)
        return energies[: block.stop - block.start]


def _scale(largest: float, bits: int) -> int:
    """The largest exponent with largest * 2^exponent < 2^bits."""
    return bits - math.frexp(max(largest, 1e-300))[1]
