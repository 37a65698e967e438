"""Samplers that have an end of their own as runs: annealing, and annealing of a population."""

from __future__ import annotations

from typing import Any

import numpy as np

from .blocks import SWAP_SECONDS, Pace, SamplingTask, of_whole
from .conditioned import Conditioned
from .settings import SampleSettings

Rows = dict[str, np.ndarray]
COLD = 0.75  # of an annealing schedule is over when states are first looked at for the best


class ScheduleTask(SamplingTask):
    """One run down a schedule; it records one sample of each chain, at its end.

    Best states are looked for after every `thin`-th sweep of the last quarter of an annealing schedule, after each
    temperature of a population, and at the end.
    """

    def __init__(self, subject: Conditioned, settings: SampleSettings, **options: Any) -> None:
        super().__init__(subject, settings, **options)
        s = settings
        annealing = s.sampler == "annealing"
        self.unit = "sweep" if annealing else "part of the way"
        self._every = s.thin if annealing else s.n_sweeps
        self._from = int(COLD * s.n_sweeps) if annealing else 0
        self._pace = Pace(self.chains.sweep_seconds + SWAP_SECONDS)

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

        def act() -> tuple[Rows, tuple[np.ndarray, np.ndarray] | None]:
            rows = of_whole(self.chains.advance(count), self._subject)
            if "samples/states" in rows:
                rows |= self._observables.measure(rows["samples/states"])
            return rows, self._seen()

        found = self.work(act, count, self._pace)
        if found is None:
            return None
        rows, seen = found
        if self._best is not None:
            rows.pop("samples/states", None)
            if seen is not None:
                self._best.show(*seen)
        return rows

    def _seen(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The states among which the best are looked for, and their energies; None where it is no time for a look."""
        n_swept = self.chains.n_swept
        in_time = n_swept % self._every == 0 and n_swept > self._from
        if self._best is None or not (self.chains.finished or in_time):
            return None
        return self._subject.complete(self.chains.packed()), self.chains.energies() + self._subject.offset

    def state(self) -> Rows:
        """All that is needed to go on, bit for bit."""
        return self.chains_state() | ({} if self._best is None else self._best.state())

    def restore(self, state: Rows) -> None:
        """Go back to what `state` returned."""
        self.chains.restore(state)
        if self._best is not None:
            self._best.restore(state)
