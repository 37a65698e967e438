"""Walks on dense and sparse couplings: units are drawn one after the other, with fields in integers.

The path leads to the machine whose couplings are these integers, and has one more step, without a sweep, from there to
the machine itself: rounding costs no bias.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._base import arrays
from ...kernels.energy import energies_dense, energies_sparse
from ...kernels.inference.annealing import anneal_dense, anneal_sparse
from ...kernels.sampling.dense import init_fields_dense, room_of_fields
from ...kernels.sampling.field_energies import room_for_words
from ...kernels.sampling.limits import ROWS
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_bias
from ...sampling.engine.choice import by_units
from ...sampling.engine.dense import dense_room
from ...sampling.engine.fixed_point import dense_integers, sparse_integers
from ...sampling.engine.lanes import LANES
from ..scout.scout import attempt_seconds
from .walk import Walk


class Sums(NamedTuple):
    """Running sums of every lane of a block, as `anneal_dense` keeps them."""

    gains: np.ndarray
    tilts: np.ndarray
    log_w: np.ndarray


class UnitsWalk(Walk):
    """Chains on any couplings; see `fastbm.kernels.inference.annealing`."""

    def __init__(
        self, model: BoltzmannMachine, beta: float, base: np.ndarray, streams: np.ndarray, threads: int
    ) -> None:
        super().__init__(model, beta, base, streams, threads)
        couplings, bias, units = model.couplings, model.flat_bias, model.convention
        self.kernel = by_units(couplings, max(self.n_chains, LANES), "sequential")
        self._dense = self.kernel == "dense"
        widths, spare = self.lanes.widths, model.n_units.bit_length()  # sums are over all units
        self._up = self.lanes.room(model.n_units, np.uint8)
        self._sums = [Sums(np.zeros(n, np.int64), np.zeros(n), np.zeros(n)) for n in widths]
        if self._dense:
            field = up_bias(couplings, bias[None], units)
            point, self._rises, start = dense_integers(couplings, field, units, beta, spare=spare)
            self._start, self._start_row = start[0, : model.n_units], start.astype(np.int64)
            rows = [self.lanes.used(k) for k in range(len(widths))]
            self._fields = [arrays.zeros((used, start.shape[1]), point.dtype) for used in rows]
        else:
            integers = sparse_integers(couplings, bias, units, beta, spare=spare)
            point, self._start = integers.point, integers.start
            self._graph = (*integers.edges, self._start)
        self.step_seconds = max(widths) * model.n_units * attempt_seconds(model)
        self._unit = math.ldexp(beta, -point.exponent)
        self._log_f_down = beta * float((bias * units.lo).sum() + 0.5 * units.lo * self._sum_of_couplings())
        self.log_z0 += self._log_f_down - beta * model.offset
        self.detail = point.detail(self.kernel)

    def _sum_of_couplings(self) -> float:
        """Return the energy that the couplings give at s = (lo, ..., lo), over lo."""
        couplings, lo = self.model.couplings, float(self.model.convention.lo)
        return float(couplings.field(np.full((1, self.model.n_units), lo)).sum()) if lo else 0.0

    def begin(self) -> None:
        """Draw all chains from f_0, with weights 1."""
        self._set(np.zeros((self.n_chains, self.model.n_units), np.uint8))
        self._for_blocks(lambda k: self._run(k, np.array([0.0, 0.0])))

    def load(self, up: np.ndarray) -> None:
        """Take states (n_chains, n_units) of 0 and 1, drawn from f."""
        self._set(up)
        self._correct(-1.0)

    def finish(self) -> None:
        """Turn the weights, at the upper end of the path, into those of the machine as the user gave it."""
        self._correct(1.0)

    def _correct(self, sign: float) -> None:
        """Add what rounding has changed log f by to the weights, with a sign."""
        if self.is_exact:
            for k, rounding in zip(self.mine, self._for_blocks(self._rounding), strict=True):
                self._sums[k].log_w[:] += sign * rounding

    def _set(self, up: np.ndarray) -> None:
        """Take states, with the sums that belong to them and weights 1."""
        for k in self.mine:
            block, n_chains, sums = self.lanes.blocks[k], self.lanes.used(k), self._sums[k]
            self.lanes.write(k, self._up[k], up[block])
            fields = self._make_fields(k, up[block])
            sums.gains[:n_chains] = (up[block] * (fields + self._start)).sum(axis=1) // 2
            sums.tilts[:n_chains] = up[block] @ self.base
            sums.log_w[:] = 0.0

    def _make_fields(self, k: int, up: np.ndarray) -> np.ndarray:
        """Return the fields in int64 of all units (n_chains, n_units); dense couplings keep theirs."""
        if self._dense:
            start = np.zeros_like(self._fields[k])
            start[:, : self.model.n_units] = self._start
            init_fields_dense(self._fields[k], self._up[k], self._rises, start, room_of_fields(start))
            return self._fields[k][:, : self.model.n_units].astype(np.int64)
        from scipy.sparse import csr_array

        indptr, indices, rises, start = self._graph
        matrix = csr_array((rises.astype(np.int64), indices, indptr), shape=(len(start), len(start)))
        fields: np.ndarray = (matrix @ up.T.astype(np.int64)).T + start
        return fields

    def _rounding(self, k: int) -> np.ndarray:
        """Return log f of the user's machine less that of the one in integers, of every lane."""
        model, up, sums = self.model, self._up[k], self._sums[k]
        bias, energies = np.ascontiguousarray(model.flat_bias[:, None]), np.zeros(up.shape[1])
        if self._dense:
            values = model.convention.values(up, np.float64)
            energies_dense(values, model.couplings.matrix(), bias, energies, 0, model.n_units)
        else:
            units = (float(model.convention.lo), float(model.convention.span))
            energies_sparse(up, model.couplings.csr(), bias, units, energies)
        return -self.beta * energies - (self._log_f_down + self._unit * sums.gains)

    def _follow_block(self, k: int, path: np.ndarray) -> None:
        self._run(k, path)

    def _run(self, k: int, path: np.ndarray) -> None:
        """Weigh and sweep; on the way down units come in reversed order."""
        steps = np.diff(path)
        table = np.column_stack([steps, path[1:], np.full(len(steps), self._unit)])
        sites = np.arange(self.model.n_units, dtype=np.int32)
        if steps[0] < 0:
            sites = sites[::-1].copy()
        up, sums, stream = self._up[k], tuple(self._sums[k]), self.lanes.streams[k]
        if self._dense:
            fields = self._fields[k]
            words = room_for_words(up, len(fields))
            room = (dense_room(up, fields), (*words, np.empty(len(fields)), np.empty(ROWS, np.float32)))
            anneal_dense(up, (fields, self._rises, self._start_row), sums, self.base, table, stream, sites, room)
        else:
            anneal_sparse(up, sums, self._graph, self.base, table, stream, sites)

    def _log_weights(self) -> list[np.ndarray]:
        return [sums.log_w for sums in self._sums]
