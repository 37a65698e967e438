"""Independent draws from the exact distribution of a layered machine.

The state of the enumerated units is looked up in the running sums of all their weights; the other units are independent
given it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..._base.halting import Halt, never, stop_if_asked
from ..._base.threads import fan_out
from ...kernels.exact.layers import draw_layers
from ...machine.machine import BoltzmannMachine
from ..plan import Forecast, Speeds
from .form import LayerForm, StateWeights
from .sum import BATCH, MOST_SUMMED, block_rows, in_batches, low_units, state_terms, table_bytes

SECONDS_PER_UNIT = 1.5e-8  # two words of a stream and an exponential
SECONDS_PER_ADDITION = 3e-10
CHECK_SECONDS = 0.05


@dataclass
class LayerSource:
    """Draws by the weights of all states of the enumerated units; see `fastbm.exact.plan.Source`.

    A draw takes two words of a chain's stream for the enumerated units and two for each other unit.
    """

    form: LayerForm
    beta: float
    n_low: int
    forecast: Forecast
    draw_seconds: float
    _tables: tuple[np.ndarray, ...] = field(default=(), repr=False)

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        """Return bits (n_draws, n_chains, n_units) uint8; mutates `streams`; tables are made on the first call."""
        if not self._tables:
            self._tables = self._make_tables(threads, halt)
        n_chains = streams.shape[1]
        up = np.empty((n_draws, n_chains, self.form.n_units), np.uint8)
        order = np.concatenate([self.form.summed, self.form.closed])
        width = max(-(-n_chains // (4 * threads)), 1)
        blocks = [slice(first, min(first + width, n_chains)) for first in range(0, n_chains, width)]
        moved = [np.ascontiguousarray(streams[:, block]) for block in blocks]
        step = max(int(CHECK_SECONDS / (4 * width * self.draw_seconds)), 1)

        def draw_block(b: int) -> None:
            found = np.empty((len(rows), moved[b].shape[1], len(order)), np.uint8)
            draw_layers(found, moved[b], *self._tables)
            up[rows.start : rows.stop, blocks[b], order] = found

        for first in range(0, n_draws, step):
            stop_if_asked(halt)
            rows = range(first, min(first + step, n_draws))
            fan_out(draw_block, range(len(blocks)), threads)
        for block, stream in zip(blocks, moved, strict=True):
            streams[:, block] = stream
        return up

    def _make_tables(self, threads: int, halt: Halt) -> tuple[np.ndarray, ...]:
        """Return running sums of the weights of all states, and log-odds of the other units."""
        form, beta = self.form, self.beta
        states = StateWeights(form, beta, self.n_low)
        n_high = 1 << (form.n_summed - self.n_low)
        rows = min(block_rows(states.cost, states.n_low_states), n_high)
        sums = np.empty((n_high, states.n_low_states))

        def fill(start: int) -> float:
            top, sums[start : start + rows] = states.weigh(start, rows)
            return top

        tops = np.array(in_batches(fill, range(0, n_high, rows), BATCH, threads, halt))
        scales = np.exp(tops - tops.max())
        before = 0.0
        for start, scale in zip(range(0, n_high, rows), scales, strict=True):
            block = sums[start : start + rows]
            block *= scale
            np.cumsum(block, axis=1, out=block)  # by rows: one running sum of all states would round more
            ends = before + np.cumsum(block[:, -1])
            block += np.concatenate([[before], ends[:-1]])[:, None]
            before = float(ends[-1])
        high = form.weights[self.n_low :]
        base = beta * (form.gaps + form.lo * high.sum(axis=0))
        return sums.ravel(), beta * states.low_gaps, beta * (form.hi - form.lo) * high, base


def source(
    model: BoltzmannMachine, beta: float, *, threads: int, max_bytes: float, speeds: Speeds
) -> LayerSource:  # fmt: skip
    """Plan draws from the exact distribution; the forecast is inf where the table of weights has no room."""
    form = LayerForm.of(model)
    n_low, n_summed = low_units(form), form.n_summed
    cost = state_terms(form, n_low, beta)
    n_states = 2.0 ** min(n_summed, 1000)
    n_bytes = 8.0 * n_states + table_bytes(form, n_low, cost, threads)
    seconds = n_states * (cost * speeds.layer_term / threads + speeds.table_entry)
    if not (form.n_closed and n_summed <= MOST_SUMMED and n_bytes <= max_bytes):
        seconds = math.inf
    draw = form.n_closed * (SECONDS_PER_UNIT + SECONDS_PER_ADDITION * (n_summed - n_low)) + 1e-6
    size = f"2^{n_summed} weights of layers with {n_summed} of {form.n_units} units"
    return LayerSource(form, beta, n_low, Forecast(seconds, n_bytes, size), draw)
