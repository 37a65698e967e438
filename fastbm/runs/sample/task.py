"""Sampling as a run: burn-in, then every `thin`-th sweep (or those of a list) recorded, a block of rows at a time.

`ScheduleTask` is for samplers that have an end of their own: annealing, and annealing of a population.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...data.rows import unpack
from ...machine.machine import BoltzmannMachine
from ...sampling.clamped import Conditioned
from ...sampling.memory import check_rows
from ...sampling.observables import check_given
from ...sampling.resolve import of_old_spec
from ...sampling.samplers import read_settings
from ...sampling.settings import SampleSettings
from ...sampling.stopping import AGAIN, Grouped, Relaxation, Rule, check_after
from ...sampling.tempering import Tempering
from ...sampling.times import LOG
from ..spec import Given, read_model
from .pace import BLOCK_BYTES, BLOCK_SECONDS, SAMPLE_SECONDS, SWAP_SECONDS, UNIT_SECONDS, Pace, SamplingTask, of_whole

Rows = dict[str, np.ndarray]
COLD = 0.6  # of an annealing schedule is over when states are first looked at for the best


class SampleTask(SamplingTask):
    """The task of a sampling run, which samples for a number of sweeps, or until its stopping rule is met."""

    unit = "sweep"

    def __init__(self, subject: Conditioned, settings: SampleSettings, **options: Any) -> None:
        super().__init__(subject, settings, **options)
        s = settings
        grouped = Grouped({"energy": s.n_chains} | self._observables.scalars, self._n_groups)
        again = AGAIN if s.own.relaxes else 1.0
        self._rule = Rule(s.until, grouped, again=again) if s.until else None
        self._relaxation = Relaxation(grouped) if s.burn_in == "auto" else None
        self._first = -1 if s.burn_in == "auto" else int(s.burn_in)  # the sweep after which samples begin, once known
        self._end = -1  # that at which the stopping rule was met
        self._times = s.times
        self._settled = False  # whether the end of the burn-in was found
        overhead = SWAP_SECONDS / s.own.swap_every if isinstance(s.own, Tempering) else 0.0
        self._pace = Pace(self.chains.sweep_seconds + overhead)
        # to pack states and to compute their energies takes about as long as a sweep; observables may take any time
        least = SAMPLE_SECONDS + UNIT_SECONDS * subject.model.n_units * s.n_chains
        sample_seconds = BLOCK_SECONDS if s.observables else least
        each = 1 if s.thin == LOG else int(s.thin)
        self._sample_pace = Pace(max((each + 1) * self._pace.seconds, sample_seconds))

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
        """Sweeps done, and sweeps in all."""
        return self.n_swept, self._last

    @property
    def why_no_longer(self) -> str:
        """Why a run with more sweeps would not have begun with these samples; empty if it would."""
        if self._rule is not None and self._end >= 0:
            return f"its stopping rule, until={dict(self._rule.limits)}, was met after sweep {self._end}"
        if self._relaxation is not None and not self._settled:
            return "its burn-in did not settle within n_sweeps, and in a longer run samples would begin later"
        return ""

    def check_room(self) -> None:
        """Refuse samples that memory cannot hold."""
        if self._rule is None:
            check_rows(self.settings, self._subject)

    def advance(self) -> Rows | None:
        """Do some sweeps; return the samples that fell among them, None if a stop broke them off."""
        n_swept, times = self.n_swept, self._times
        if self._first < 0:
            return self._relax()
        if n_swept < self._first:
            return self._sweep(self._first - n_swept)
        n_done = times.passed(n_swept - self._first)
        if n_done == times.n:
            return self._sweep(self._last - n_swept)
        left = int(times.between(n_done, n_done + 1)[0]) - (n_swept - self._first)  # sweeps to the next sample
        if left > max(1, self._pace.count):
            return self._sweep(left - 1)
        most = times.alike(n_done, left)
        if self._rule is not None:
            most = min(most, check_after(n_done) - n_done)
        rows = self._record(most, left)
        if rows is None:
            return None
        sweeps = times.between(n_done, n_done + len(rows["samples/energy"]), since=self._first)
        sweeps.flags.writeable = False  # so that the store need not copy them
        rows["samples/sweep"] = sweeps
        if self._rule is not None and self._rule.met(_watched(rows)):
            self._end = self.n_swept
        return rows

    def _sweep(self, n_sweeps: int) -> Rows | None:
        """Sweep without a sample, for at most a block."""
        count = min(self._pace.count, n_sweeps)

        with self.block(count, self._pace):
            self.chains.sweep(count)
        return None if self.broken else {}

    def _record(self, most: int, step: int) -> Rows | None:
        """Record up to `most` samples, `step` sweeps apart, and measure their observables."""
        row_bytes = sum(stream.row_bytes for stream in self.streams.values())
        own = self.settings.own
        row_bytes += self._subject.n_chains * self._n_bytes * (1 + own.n_observed(self.settings.observables))
        count = min(most, self._sample_pace.count, max(1, BLOCK_BYTES // row_bytes))
        if self._best is not None and "tempering/energy" in self.chains.streams:
            count = 1  # replicas at other temperatures are not recorded: they are looked at where they stand

        with self.block(count, self._sample_pace):
            rows = of_whole(self.chains.record(count, step), self._subject)
            rows |= self._observables.measure(rows["samples/states"])
            if "ladder/states" in rows:
                levels = np.swapaxes(rows["ladder/states"], 1, 2)
                rows |= self._observables.measure_levels(levels, functions=own.n_levels > 0)
                if not own.n_levels:
                    del rows["ladder/states"]
            states = self._seen(rows)
        if self.broken:
            return None
        if self._best is not None:
            del rows["samples/states"]
            energies = rows["tempering/energy"][0].T if "tempering/energy" in rows else rows["samples/energy"]
            self._best.show(states, energies)
        for name in {"samples/states", "samples/energy"} & rows.keys():
            rows[name].flags.writeable = False  # nor these
        return rows

    def _seen(self, rows: Rows) -> np.ndarray:
        """Return the packed states, at all temperatures, from which the best are kept."""
        if self._best is None or "tempering/energy" not in rows:
            return rows["samples/states"]
        return self._subject.complete(self.chains.engine.packed()[self.chains.lanes.T])

    def _relax(self) -> Rows | None:
        """Burn in up to the next test at most; samples begin where the run looks stationary, or at the limit."""
        assert self._relaxation is not None
        most = max(1, self.settings.n_samples)
        left = min(self._relaxation.rows_to_check(), most - self._relaxation.n_rows)
        rows = self._record(left, int(self.settings.thin))
        if rows is None:
            return None
        self._settled = self._relaxation.over(_watched(rows))
        if self._settled or self._relaxation.n_rows >= most:
            self._first = self.n_swept
        return {}

    def state(self) -> Rows:
        """Return all arrays that continue the task bit for bit."""
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
        """Restore what `state` returned."""
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
    """Return the rows of the energy and the observables by the names of the quantities."""
    found = {name.removeprefix("observables/"): array for name, array in rows.items()}
    return found | {"energy": rows["samples/energy"]}


class ScheduleTask(SamplingTask):
    """The task of a run down a schedule, which records one sample of each chain, at its end.

    Best states are looked for after every `thin`-th sweep of the last two fifths of an annealing schedule, after each
    temperature of a population, and at the end.
    """

    def __init__(self, subject: Conditioned, settings: SampleSettings, **options: Any) -> None:
        super().__init__(subject, settings, **options)
        s = settings
        annealing = s.sampler == "annealing"
        self.unit = "sweep" if annealing else "part of the way"
        self._every = int(s.thin) if annealing else s.n_sweeps
        self._from = int(COLD * s.n_sweeps) if annealing else 0
        self._pace = Pace(self.chains.sweep_seconds + SWAP_SECONDS)

    @property
    def done(self) -> bool:
        """Whether the target has been reached."""
        return self._before is None and bool(self.chains.finished)

    @property
    def progress(self) -> tuple[int, int]:
        """Units of work done, and units in all."""
        done, every = self.chains.progress
        return (self.n_swept if self.settings.sampler == "annealing" else done), every

    def advance(self) -> Rows | None:
        """Do some sweeps; return the samples that fell among them, None if a stop broke them off."""
        count = self._pace.count
        if self._best is not None:  # stop where states are to be looked at
            now = self.n_swept
            count = min(count, (max(now, self._from) // self._every + 1) * self._every - now)

        with self.block(count, self._pace):
            rows = of_whole(self.chains.advance(count), self._subject)
            if "samples/states" in rows:
                rows |= self._observables.measure(rows["samples/states"])
            seen = self._seen()
        if self.broken:
            return None
        if self._best is not None:
            rows.pop("samples/states", None)
            if seen is not None:
                self._best.show(*seen)
        return rows

    def _seen(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return packed states from which the best are kept, and their energies; None between the sweeps that count."""
        n_swept = self.chains.n_swept
        in_time = n_swept % self._every == 0 and n_swept > self._from
        if self._best is None or not (self.chains.finished or in_time):
            return None
        return self._subject.complete(self.chains.packed()), self.chains.energies() + self._subject.offset

    def state(self) -> Rows:
        """Return all arrays that continue the task bit for bit."""
        return self.chains_state() | ({} if self._best is None else self._best.state())

    def restore(self, state: Rows) -> None:
        """Restore what `state` returned."""
        self.chains.restore(state)
        if self._best is not None:
            self._best.restore(state)


def subject_of(
    spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], given: Given
) -> tuple[BoltzmannMachine, SampleSettings, Conditioned]:
    """Return the machine of a spec, its settings, and what is sampled."""
    model = read_model(inputs, spec["model"]) if given.model is None else given.model
    settings = given.settings or of_old_spec(read_settings(spec["sample"]), model.couplings)
    clamp = (inputs["clamp/indices"], inputs["clamp/values"]) if settings.n_patterns else None
    return model, settings, Conditioned(model, clamp, settings.n_chains)


def make_task(
    spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given
) -> SampleTask | ScheduleTask:
    """Make the task of chains that are computed together."""
    model, settings, subject = subject_of(spec, inputs, given)
    functions = check_given(settings.observables, given.observables)
    initial = spec["initial"]
    if "initial" in inputs:
        up = subject.restrict(unpack(inputs["initial"], model.n_units))
        initial = model.convention.values(up)
    kind = ScheduleTask if settings.own.ends else SampleTask
    return kind(subject, settings, functions=functions, initial=initial, threads=threads)
