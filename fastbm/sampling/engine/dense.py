"""Chains on dense couplings: cached integer fields, one row of couplings at a time for 64 chains."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ..._base import arrays
from ...kernels.energy import energies_dense
from ...kernels.sampling.dense import (
    energies_of_fields_dense,
    gibbs_sweep_dense,
    init_fields_dense,
    metropolis_sweep_dense,
)
from ...machine.couplings import row_blocks
from ...machine.up_form import up_form
from . import fixed_point
from .engine import HOLD, PIECE_SECONDS, Engine

ADDITION_SECONDS = 1e-10  # about what adding a coupling to a field takes


class DenseChains(Engine):
    """Single-spin Gibbs or Metropolis updates; see `fastbm.kernels.sampling.dense`."""

    kernel = "dense"

    def _couple(self) -> None:
        self._weights = self.couplings.matrix()
        form, field = up_form(self.couplings, self.bias, self.units)
        rises = form.matrix()
        self._point = fixed_point.choose(form, field, self.highest_beta)
        width = -(-self.n_units // 64) * 64
        self._rises = arrays.zeros((self.n_units, width), self._point.dtype)
        for rows in row_blocks(self.n_units, self.n_units):
            self._rises[rows, : self.n_units] = self._point.integers(rises[rows])
        start = np.zeros((len(self.bias), width), self._point.dtype)
        start[:, : self.n_units] = self._point.integers(field)
        self._start = np.broadcast_to(start, (self.n_chains, width))
        self._all_down = np.broadcast_to(self._energy_all_down(), (self.n_chains,))
        self._scale = [arrays.zeros((up.shape[1],), np.float32) for up in self.up]
        self._rescale()
        self._forget()
        self.attempt_seconds = 2e-9 + 2e-11 * self.n_units
        self.detail = self._point.detail(self.kernel)

    def _energy_all_down(self) -> np.ndarray:
        lo = float(self.units.lo)
        total = float(self.couplings.field(np.ones((1, self.n_units))).sum())
        found: np.ndarray = -0.5 * lo * lo * total - lo * self.bias.sum(axis=1)
        return found

    def _rescale(self) -> None:
        self._point.fill_scales(self.beta, self.blocks, self._scale)

    def _forget(self) -> None:
        self._fields: list[np.ndarray] = []

    def _prepare(self) -> None:
        if self._fields:
            return
        width, dtype = self._rises.shape[1], self._rises.dtype
        step = max(1, int(PIECE_SECONDS / (ADDITION_SECONDS * self.n_units * width)))
        fields = [arrays.zeros((block.stop - block.start, width), dtype) for block in self.blocks]

        def fill(k: int) -> None:
            start = np.ascontiguousarray(self._start[self.blocks[k]])
            for c in range(0, len(start), step):
                if c and self._stopped():
                    return
                init_fields_dense(fields[k][c : c + step], self.up[k][:, c:], self._rises, start[c : c + step])

        self._for_blocks(fill, ADDITION_SECONDS * width / self.attempt_seconds)
        self._fields = fields

    def _sweep_block(self, k: int, first: int, n_sweeps: int) -> None:
        up, fields, scale, streams = self.up[k], self._fields[k], self._scale[k], self.lane_streams[k]
        hold = HOLD if self.order == "random" else np.uint32(0)
        for rows, count in self._pieces(k, first, n_sweeps):
            if self.rule == "metropolis":
                self._flips[k] += metropolis_sweep_dense(up, fields, self._rises, scale, streams, rows, count, hold)
            else:
                self._flips[k] += gibbs_sweep_dense(up, fields, self._rises, scale, streams, rows, count)

    def _energies_block(self, k: int) -> np.ndarray:
        block = self.blocks[k]
        values = self.units.values(self.up[k], np.float64)
        bias = self.bias.T
        if len(self.bias) > 1:
            bias = np.zeros_like(values)
            bias[:, : block.stop - block.start] = self.bias[block].T
        energies, bias = np.zeros(values.shape[1]), np.ascontiguousarray(bias)
        for rows in self._energy_pieces(k):
            energies_dense(values, self._weights, bias, energies, *rows)
        return energies[: block.stop - block.start]

    def _energy_pieces(self, k: int) -> Iterator[tuple[int, int]]:
        """Yield (first unit, last unit + 1), of about as much work each, until a stop is asked for."""
        pairs = self.n_units**2 / 2
        n_pieces = 1 + int(pairs * self._lanes() * ADDITION_SECONDS / PIECE_SECONDS)
        ends = np.rint(self.n_units * np.sqrt(np.linspace(0.0, 1.0, n_pieces + 1))).astype(int).tolist()
        for piece in itertools.pairwise(ends):
            if n_pieces > 1 and self._stopped():
                return
            yield piece

    def quick_energies(self) -> np.ndarray:
        """Return energies without offset, (n_chains,), from the fields that are kept."""
        self._prepare()
        energies = np.empty(self.n_chains)
        for k, block in enumerate(self.blocks):
            energies_of_fields_dense(self.up[k], self._fields[k], self._start[block], energies[block])
        return self._all_down + np.ldexp(energies, -self._point.exponent)

    def gather(self, index: np.ndarray) -> None:
        """Give chain c the state and the fields of chain index[c]; streams and temperatures stay."""
        fields = np.concatenate(self._fields)[index] if self._fields else None
        if fields is not None and len(self.bias) > 1:  # couplings pull as before, biases stay with the chains
            fields += self._start - self._start[index]
        super().gather(index)
        if fields is not None:
            self._fields = [arrays.copy(fields[block]) for block in self.blocks]
