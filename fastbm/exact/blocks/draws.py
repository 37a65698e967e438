"""Independent states from the exact distribution, drawn by the tables of three blocks.

The formulas are those of `fastbm.kernels.exact.blocks`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..._base.halting import Halt, never, stop_if_asked
from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.exact.blocks import draw_blocks, draw_uniforms, form_blocks
from ...machine.machine import BoltzmannMachine
from ..integers import IntegerMachine
from ..plan import Forecast, Speeds
from .passes import Passes
from .sum import SMALL, fewest_held, table_bytes
from .tree import Leaf, cut, held_order, split

N_TABLES = 6  # tables of a leaf that are held at a time, while they are made
MOST_HELD = 10
DRAWS = 8192  # states of a block
ROWS = 512  # states that one thread draws at a time


class Tables(NamedTuple):
    """What draws from one leaf need."""

    log_z: float  # beside the energy of the whole machine with all units down
    by_a: np.ndarray
    by_ac: np.ndarray
    left: np.ndarray
    right: np.ndarray
    sizes: tuple[int, int, int]
    free: np.ndarray
    up: np.ndarray  # (n_units,) uint8: the units that are held


class BlocksSource:
    """Draws of a machine in three blocks; its tables are made on the first draw."""

    def __init__(self, form: IntegerMachine, beta: float, leaves: tuple[Leaf, ...], forecast: Forecast) -> None:
        self._form, self._beta, self._leaves, self.forecast = form, beta, leaves, forecast
        self._tables: list[Tables] = []
        self._shares = np.empty(0)
        longest = max((split(form.n_units - len(leaf.up))[1] for leaf in leaves), default=0)
        self.draw_seconds = 1e-7 + 2e-9 * (1 << longest)

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        """Return bits (n_draws, n_chains, n_units) uint8; as `fastbm.exact.plan.Source` says."""
        if not self._tables:
            self._prepare(threads, halt)
        after = streams.copy()
        n_chains = streams.shape[1]
        drawn = np.empty((n_draws, n_chains, self._form.n_units), np.uint8)
        step = max(1, DRAWS // n_chains)
        for first in range(0, n_draws, step):
            stop_if_asked(halt)
            some = drawn[first : first + step]
            uniforms = np.empty((len(some), n_chains, 4))
            draw_uniforms(after, uniforms)
            some[:] = self._states(uniforms.reshape(-1, 4), threads, halt).reshape(some.shape)
        streams[:] = after
        return drawn

    def _states(self, uniforms: np.ndarray, threads: int, halt: Halt) -> np.ndarray:
        """Return the states (m, n_units) that uniform numbers (m, 4) lead to."""
        levels = uniforms[:, 0] * self._shares[-1]
        last = np.searchsorted(self._shares, self._shares[-1])  # of some weight: a level may round to the whole
        leaf_of = np.minimum(np.searchsorted(self._shares, levels, side="right"), last)
        states = np.empty((len(uniforms), self._form.n_units), np.uint8)
        for k in np.unique(leaf_of).tolist():
            tables = self._tables[k]
            mine = np.flatnonzero(leaf_of == k)
            levels = np.ascontiguousarray(uniforms[mine, 1:])
            settings = np.empty(levels.shape, np.int64)

            _draw(tables, levels, settings, threads, halt)
            found = np.empty((len(levels), self._form.n_units), np.uint8)
            found[:] = tables.up
            start = 0
            for block, size in enumerate(tables.sizes):
                places = tables.free[start : start + size]
                found[:, places] = settings[:, block, None] >> np.arange(size) & 1
                start += size
            states[mine] = found
        return states

    def _prepare(self, threads: int, halt: Halt) -> None:
        tables = []
        with single_threaded_blas():
            for leaf in self._leaves:
                stop_if_asked(halt)
                tables.append(self._tables_of(leaf, threads, halt))
        top = max(one.log_z for one in tables)
        self._shares = np.cumsum([math.exp(one.log_z - top) for one in tables])
        self._tables = tables

    def _tables_of(self, leaf: Leaf, threads: int, halt: Halt) -> Tables:
        held, up = held_order(self._form)[: len(leaf.up)], np.array(leaf.up, np.int64)
        form, free, added = self._form.condition(held, up)
        sizes = leaf.sizes(form.n_units)
        beta = min(self._beta * math.ldexp(1.0, 61 - form.exponent), 1e300)
        small = form.n_units <= SMALL
        passes = Passes(1 if small else threads, halt)
        forms = form_blocks(form.rises, form.fields, sizes)
        f, g, h = passes.tables([(form, 0.0, 0.0) for form in forms], beta)
        by_ac = f @ g if small else passes.product(f, g)
        by_ac *= h
        del h
        np.cumsum(by_ac, axis=1, out=by_ac)
        by_a = np.cumsum(by_ac[:, -1])
        lowest = added + sum(int(one[3]) for one in forms)
        log_z = math.log(by_a[-1]) - self._form.unit(self._beta) * lowest
        whole = np.zeros(self._form.n_units, np.uint8)
        whole[held] = up
        return Tables(log_z, by_a, by_ac, f, np.ascontiguousarray(g.T), sizes, free, whole)


def _draw(tables: Tables, levels: np.ndarray, settings: np.ndarray, threads: int, halt: Halt) -> None:
    """`draw_blocks` on threads."""

    def some(rows: slice) -> None:
        stop_if_asked(halt)
        draw_blocks(levels[rows], tables.by_a, tables.by_ac, tables.left, tables.right, settings[rows])

    fan_out(some, [slice(r, r + ROWS) for r in range(0, len(levels), ROWS)], threads)


def source(model: BoltzmannMachine, beta: float, *, threads: int, max_bytes: float, speeds: Speeds) -> BlocksSource:
    """Plan tables to draw from; `forecast.seconds` is inf where they cannot be had."""
    n = model.n_units
    size = f"2^{n} states"
    nothing = IntegerMachine(np.zeros((0, 0), np.int64), np.zeros(0, np.int64), 0.0, 0)
    n_held = fewest_held(n, N_TABLES, max_bytes, 1)
    leaves = None
    if n_held is not None and n_held <= MOST_HELD:
        form = IntegerMachine.of(model)
        leaves = cut(form, beta, n_held)
        size += "" if leaves else " over too wide a range"
    if leaves is None:
        return BlocksSource(nothing, beta, (), Forecast(math.inf, math.inf, size))
    rests = [n - len(leaf.up) for leaf in leaves]
    entries = [2.0**rest if leaf.direct else table_bytes(rest) / 8.0 for leaf, rest in zip(leaves, rests, strict=True)]
    terms = sum(0.0 if leaf.direct else 2.0**rest for leaf, rest in zip(leaves, rests, strict=True))
    n_bytes = 8.0 * (sum(entries) + max(entries))
    seconds = (terms * speeds.product_term + sum(entries) * speeds.table_entry) / threads
    if n_bytes > max_bytes:
        return BlocksSource(nothing, beta, (), Forecast(math.inf, n_bytes, size))
    return BlocksSource(form, beta, leaves, Forecast(seconds, n_bytes, size))
