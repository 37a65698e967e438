"""Chains on dense couplings: cached integer fields, one row of couplings at a time for 64 chains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..couplings import Couplings
from ..kernels.dense import init_fields_dense, sweep_dense
from ..kernels.energy import energies_dense
from .engine import Engine, up_form
from .orders import sites

LOG_ODDS_ERROR = (
    1e-4  # what fixed point may change a conditional log-odds by, in the worst state, before int64 is taken
)


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
        self._scale = [self._thresholds(block, exponent) for block in self.blocks]
        self._fields: list[np.ndarray] | None = None
        self.detail = {
            "kernel": self.kernel,
            "fields": f"{dtype.name} in units of 2^-{exponent}",
            "largest log-odds error": worst * 2.0**-exponent,
        }

    def _thresholds(self, block: slice, exponent: int) -> np.ndarray:
        """log-odds to integer fields, per lane; at beta = 0 the largest number, so that the sign decides."""
        lanes = self.up[block.start // 64].shape[1]
        scale = np.full(lanes, np.finfo(np.float32).max, np.float32)
        beta = self.beta[block]
        with np.errstate(divide="ignore", over="ignore"):
            scale[: len(beta)] = np.minimum(np.ldexp(1.0, exponent) / beta, np.finfo(np.float32).max)
        return scale

    def _all_fields(self) -> list[np.ndarray]:
        if self._fields is None:
            self._fields = [np.empty((b.stop - b.start, self._rises.shape[1]), self._rises.dtype) for b in self.blocks]

            def fill(k: int) -> None:
                start = np.ascontiguousarray(self._start[self.blocks[k]])
                init_fields_dense(self._fields[k], self.up[k], self._rises, start)  # type: ignore[index]

            self.for_blocks(fill)
        return self._fields

    def sweep(self, n_sweeps: int) -> None:
        fields = self._all_fields()
        metropolis = self.rule == "metropolis"
        for rows, count in sites(self.order, self.n_units, self.seed, self.n_swept, n_sweeps, holds=metropolis):

            def advance(k: int, rows: np.ndarray = rows, count: int = count) -> None:
                sweep_dense(
                    self.up[k], fields[k], self._rises, self._scale[k], self.streams[k], rows, count, metropolis
                )

            self.for_blocks(advance)
        self.n_swept += n_sweeps

    def set_bits(self, up: np.ndarray) -> None:
        super().set_bits(up)
        self._fields = None

    def restore(self, state: dict[str, np.ndarray]) -> None:
        super().restore(state)
        self._fields = None

    def energies(self) -> np.ndarray:
        out = np.empty(self.n_chains)

        def compute(k: int) -> None:
            block = self.blocks[k]
            values = self.units.values(self.up[k], np.float64)
            bias = np.zeros((self.n_units, values.shape[1] if len(self._bias) > 1 else 1))
            rows = self._bias[block] if len(self._bias) > 1 else self._bias
            bias[:, : len(rows)] = rows.T
            energies = np.empty(values.shape[1])
            energies_dense(values, self._weights, bias, energies)
            out[block] = energies[: block.stop - block.start]

        self.for_blocks(compute)
        return out


def _scale(largest: float, bits: int) -> int:
    """The largest exponent with largest * 2^exponent < 2^bits."""
    return bits - math.frexp(max(largest, 1e-300))[1]
