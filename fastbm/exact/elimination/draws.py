"""Exact, independent states by elimination: each unit is drawn given the units of its scope, in the reverse order.

Dechter, Artif. Intell. 113, 41 (1999), doi:10.1016/S0004-3702(99)00059-4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..._base import threads as pools
from ..._base.halting import Halt, never, stop_if_asked
from ...kernels.exact.elimination import draw_states, draw_uniforms
from ...machine.machine import BoltzmannMachine
from ..plan import Forecast, Speeds, Wanted
from .sum import CHANCES, plan as plan_sum
from .tables import Steps, Tables

COLUMNS, PLACES = 1024, 1 << 22  # states that one call draws at most, and places it looks at in their cliques
CELLS = 1 << 22  # units of all states that are drawn at a time
DRAWN = 3.0  # cost of a unit's draw, and of each unit of its scope, in entries of messages


class EliminationSource:
    """Draws states of a machine whose tables are `tables`; None where no order is narrow enough.

    Chances that `max_bytes` has room for are kept between calls; others are computed again, segment by segment, for
    every block of draws, which is as large as memory allows.
    """

    def __init__(self, tables: Tables | None, forecast: Forecast, max_bytes: float, entry_seconds: float) -> None:
        self.tables, self.forecast = tables, forecast
        self._kept: np.ndarray | None = None
        self._cells = CELLS
        self.draw_seconds = math.inf
        if tables is not None:
            n_places = len(tables.program.places)
            self.draw_seconds = entry_seconds * DRAWN * n_places
            if len(tables.program.segments) > 1:
                self._cells = max(CELLS, int((max_bytes - forecast.n_bytes) / 16.0))

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        """Return bits (n_draws, n_chains, n_units) uint8.

        Mutates `streams` (4, n_chains) uint32, by two words for every unit and draw; raises `Halted`, with `streams` as
        before, where a stop is asked for.
        """
        if self.tables is None:
            raise ValueError(f"elimination cannot draw from this machine: {self.forecast.size}.")
        n_chains, n_units = streams.shape[1], self.tables.program.n_steps
        bits = np.empty((n_draws, n_chains, n_units), np.uint8)
        running, steps = streams.copy(), self.tables.steps(threads, halt)
        n_together = min(n_chains, max(1, self._cells // n_units))
        most = max(1, self._cells // (n_together * n_units))
        for chain in range(0, n_chains, n_together):
            chains = slice(chain, chain + n_together)
            own = np.ascontiguousarray(running[:, chains])
            for first in range(0, n_draws, most):
                self._draw_block(bits[first : first + most, chains], own, steps)
            running[:, chains] = own
        streams[:] = running
        return bits

    def _draw_block(self, bits: np.ndarray, streams: np.ndarray, steps: Steps) -> None:
        n_draws, n_chains, n_units = bits.shape
        uniforms, up = np.empty((n_units, n_draws * n_chains)), np.empty((n_units, n_draws * n_chains), np.uint8)
        stop_if_asked(steps.halt)
        draw_uniforms(uniforms, streams, n_draws)
        program = steps.program
        size = min(COLUMNS, max(8, PLACES // len(program.places)))
        blocks = [slice(first, first + size) for first in range(0, n_draws * n_chains, size)]
        for first, stop, chances in self._segments(steps):

            def draw(block: slice, first: int = first, stop: int = stop, chances: np.ndarray = chances) -> None:
                columns = np.ascontiguousarray(up[:, block])
                numbers = np.ascontiguousarray(uniforms[:, block])
                draw_states(columns, numbers, chances, program.steps, program.cliques, first, stop)
                up[:, block] = columns

            for group in range(0, len(blocks), 4 * steps.threads):
                stop_if_asked(steps.halt)
                pools.fan_out(draw, blocks[group : group + 4 * steps.threads], steps.threads)
        bits[:] = up.T.reshape(bits.shape)

    def _segments(self, steps: Steps) -> Iterable[tuple[int, int, np.ndarray]]:
        assert self.tables is not None
        shifts = np.zeros((3, steps.program.n_steps))
        if len(steps.program.segments) > 1:
            return self.tables.chances(shifts, 1, steps)
        if self._kept is None:
            self._kept = next(iter(self.tables.chances(shifts, 1, steps)))[2]
        return [(0, steps.program.n_steps, self._kept)]


def source(
    model: BoltzmannMachine, beta: float, *, threads: int, max_bytes: float, speeds: Speeds
) -> EliminationSource:
    """Plan the tables that exact draws are made from."""
    planned = plan_sum(model, beta, Wanted(moments=False), threads=threads, max_bytes=max_bytes, speeds=speeds)
    if planned.tables is None:
        return EliminationSource(None, planned.forecast, max_bytes, speeds.message_entry)
    tables = planned.tables.cut(1, max_bytes - 24.0 * CELLS, kept=math.inf)
    passes = 1.0 + CHANCES + (1.0 if len(tables.program.segments) > 1 else 0.0)
    n_bytes = tables.n_bytes(1) + 24.0 * CELLS
    forecast = Forecast(planned.forecast.seconds * passes, n_bytes, planned.forecast.size)
    return EliminationSource(tables, forecast, max_bytes, speeds.message_entry)
