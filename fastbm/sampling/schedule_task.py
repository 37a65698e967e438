"""Samplers that have an end of their own as runs: annealing, and annealing of a population."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..store import Stream
from .best import Best
from .blocks import SWAP_SECONDS, Breakable, Pace, of_whole, sample_streams
from .conditioned import Conditioned
from .observables import Function, Observables
from .samplers import SAMPLERS
from .settings import SampleSettings

Rows = dict[str, np.ndarray]
COLD = 0.75  # of an annealing schedule is over when states are first looked at for the best


class ScheduleTask(Breakable):
    """One run down a schedule; it records one sample of each chain, at its end.

    Best states are looked for after every `thin`-th sweep of the last quarter of an annealing schedule, after each
    temperature of a population, and at the end.
    """

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
        self._observables = Observables(
            subject.model, s.n_chains, s.observables, functions, subject.complete(self.chains.packed()),
            subject.n_patterns,
        )  # fmt: skip
        self._best = Best(int(s.k or 0), -(-subject.model.n_units // 8)) if s.keep == "best" else None
        annealing = s.sampler == "annealing"
        self.unit = "sweep" if annealing else "part of the way"
        self._every = s.thin if annealing else s.n_sweeps
        self._from = int(COLD * s.n_sweeps) if annealing else 0
        self._pace = Pace(self.chains.sweep_seconds + SWAP_SECONDS)

    @property
    def detail(self) -> dict[str, Any]:
        """Which kernel runs, and in which numbers."""
        return dict(self.chains.detail)

    @property
    def streams(self) -> dict[str, Stream]:
        """What the run writes."""
        return {**sample_streams(self._subject, self.settings.keep), **self.chains.streams, **self._observables.streams}

    @property
    def done(self) -> bool:
        """Whether the target has been reached."""
        return self._before is None and bool(self.chains.finished)

    @property
    def progress(self) -> tuple[int, int]:
        """How far it is, and all."""
        done, every = self.chains.progress
        return (self.n_swept if self.settings.sampler == "annealing" else done), every

    def advance(self) -> Rows | None:
        """Do some sweeps; return what fell among them, None if a stop broke them off."""
        count = self._pace.count
        if self._best is not None:  # stop where states are to be looked at
            now = self.n_swept
            count = min(count, (now // self._every + 1) * self._every - now)

        def act() -> Rows:
            rows = of_whole(self.chains.advance(count), self._subject)
            return rows | self._observables.measure(rows["samples/states"]) if "samples/states" in rows else rows

        rows = self.work(act, count, self._pace)
        if rows is None or self._best is None:
            return rows
        n_swept = self.n_swept
        if self.done or (n_swept % self._every == 0 and n_swept > self._from):
            packed = rows.pop("samples/states", None)
            packed = self._subject.complete(self.chains.packed()) if packed is None else packed
            self._best.show(packed, self.chains.energies() + self._subject.offset)
        return rows

    def state(self) -> Rows:
        """All that is needed to go on, bit for bit."""
        return self.chains_state() | ({} if self._best is None else self._best.state())

    def restore(self, state: Rows) -> None:
        """Go back to what `state` returned."""
        self.chains.restore(state)
        if self._best is not None:
            self._best.restore(state)
