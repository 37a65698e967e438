"""Sampling as a run: burn-in, then every `thin`-th sweep recorded, one block of rows at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..store import Stream
from .best import Best
from .blocks import BLOCK_BYTES, BLOCK_SECONDS, SWAP_SECONDS, Breakable, Pace, of_whole, sample_streams
from .conditioned import Conditioned
from .monitor import Grouped, Relaxation, Rule, look_after
from .observables import Function, Observables
from .samplers import SAMPLERS
from .settings import SampleSettings

Rows = dict[str, np.ndarray]


class SampleTask(Breakable):
    """One sampling run that goes on for as many sweeps as it is told, or until its stopping rule is met."""

    unit = "sweep"
    atomic = False

    def __init__(
        self,
        subject: Conditioned,
        settings: SampleSettings,
        *,
        functions: Mapping[str, Function],
        initial: Any,
        threads: int,
    ) -> None:
        s = self.settings = settings
        self._subject = subject
        super().__init__(SAMPLERS[s.sampler].make(s, subject, initial, threads))
        n_groups = math.lcm(len(s.beta), subject.n_patterns)
        self._observables = Observables(
            subject.model, s.n_chains, s.observables, functions, subject.complete(self.chains.packed()), n_groups
        )
        grouped = Grouped({"energy": s.n_chains} | self._observables.scalars, n_groups)
        self._rule = Rule(s.until, grouped) if s.until else None
        self._relaxation = Relaxation(grouped) if s.burn_in == "auto" else None
        self._n_bytes = -(-subject.model.n_units // 8)
        self._best = Best(int(s.k or 0), self._n_bytes) if s.keep == "best" else None
        self._first = -1 if s.burn_in == "auto" else int(s.burn_in)  # the sweep after which samples begin, once known
        self._end = -1  # that at which the stopping rule was met
        self._settled = False  # whether the end of the burn-in was found
        overhead = SWAP_SECONDS / s.swap_every if s.swap_every else 0.0
        self._pace = Pace(self.chains.sweep_seconds + overhead)
        self._sample_pace = Pace(max(s.thin * self._pace.seconds, BLOCK_SECONDS))

    @property
    def detail(self) -> dict[str, Any]:
        """Which kernel runs, and in which numbers."""
        return dict(self.chains.detail)

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        return {**sample_streams(self._subject, self.settings.keep), **self.chains.streams, **self._observables.streams}

    @property
    def _last(self) -> int:
        """The sweep after which the run ends, as far as is known."""
        if self._end >= 0:
            return self._end
        return (self.settings.most_burn_in if self._first < 0 else self._first) + self.settings.n_sweeps

    @property
    def done(self) -> bool:
        """Whether all sweeps are done."""
        return self._first >= 0 and self.n_swept >= self._last

    @property
    def progress(self) -> tuple[int, int]:
        """Sweeps done, and all."""
        return self.n_swept, self._last

    def advance(self) -> Rows | None:
        """Do some sweeps; return the samples that fell among them, None if a stop broke them off."""
        s, n_swept = self.settings, self.n_swept
        if self._first < 0:
            return self._relax()
        if n_swept < self._first:
            return self._sweep(self._first - n_swept)
        n_done, odd = divmod(n_swept - self._first, s.thin)
        if n_done == s.n_samples:
            return self._sweep(self._last - n_swept)
        left = s.thin - odd  # sweeps to the next sample
        if left > max(1, self._pace.count):
            return self._sweep(left - 1)
        most = 1 if odd else s.n_samples - n_done
        if self._rule is not None:
            most = min(most, look_after(n_done) - n_done)
        rows = self._record(most, left)
        if rows is None:
            return None
        n_new = len(rows["samples/energy"])
        rows["samples/sweep"] = self._first + s.thin * np.arange(n_done + 1, n_done + n_new + 1)
        if self._rule is not None and self._rule.met(_watched(rows)):
            self._end = self.n_swept
        return rows

    def _sweep(self, n_sweeps: int) -> Rows | None:
        """Go on without a sample, for at most a block."""
        count = min(self._pace.count, n_sweeps)

        def act() -> Rows:
            self.chains.sweep(count)
            return {}

        return self.work(act, count, self._pace)

    def _record(self, most: int, step: int) -> Rows | None:
        """Go on to up to `most` samples, `step` sweeps from one to the next, and measure them."""
        row_bytes = sum(stream.row_bytes for stream in self.streams.values()) + self._subject.n_chains * self._n_bytes
        count = min(most, self._sample_pace.count, max(1, BLOCK_BYTES // row_bytes))
        if self._best is not None and "tempering/energy" in self.chains.streams:
            count = 1  # replicas at other temperatures are not recorded: they are looked at where they stand

        def act() -> Rows:
            rows = of_whole(self.chains.record(count, step), self._subject)
            return rows | self._observables.measure(rows["samples/states"])

        rows = self.work(act, count, self._sample_pace)
        if rows is not None and self._best is not None:
            self._show(self._best, rows.pop("samples/states"), rows)
        return rows

    def _show(self, best: Best, states: np.ndarray, rows: Rows) -> None:
        """Show the states of a block, at all temperatures."""
        energies = rows["samples/energy"]
        if "tempering/energy" in rows:
            energies = rows["tempering/energy"][0].T
            states = self._subject.complete(self.chains.engine.packed()[self.chains.lanes.T])
        best.show(states, energies)

    def _relax(self) -> Rows | None:
        """Burn in up to the next look at most; samples begin where the run looks stationary, or at the limit."""
        assert self._relaxation is not None
        most = max(1, self.settings.n_samples)
        left = min(self._relaxation.rows_to_look(), most - self._relaxation.n_rows)
        rows = self._record(left, self.settings.thin)
        if rows is None:
            return None
        self._settled = self._relaxation.over(_watched(rows))
        if self._settled or self._relaxation.n_rows >= most:
            self._first = self.n_swept
        return {}

    def state(self) -> Rows:
        """All that is needed to go on, bit for bit."""
        found = self.chains_state()
        if self._relaxation is not None:
            found |= {"first_sweep": np.array(self._first), "settled": np.array(self._settled)}
            found |= self._relaxation.state() if self._first < 0 else {}
        if self._rule is not None:
            found |= self._rule.state() | {"last_sweep": np.array(self._end)}
        if self._best is not None:
            found |= self._best.state()
        return found

    def restore(self, state: Rows) -> None:
        """Go back to what `state` returned."""
        self.chains.restore({"n_flips": np.array(0), **state})  # version 0.1 counted no flips
        if self._relaxation is not None:
            self._first, self._settled = int(state["first_sweep"]), bool(state["settled"])
            if self._first < 0:
                self._relaxation.restore(state)
        if self._rule is not None:
            self._rule.restore(state)
            self._end = int(state["last_sweep"])
        if self._best is not None:
            self._best.restore(state)


def _watched(rows: Mapping[str, np.ndarray]) -> Rows:
    """Rows by the names of what is watched."""
    found = {name.removeprefix("observables/"): array for name, array in rows.items()}
    return found | {"energy": rows["samples/energy"]}
