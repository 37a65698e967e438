"""A sampling run in parts: others compute chains apart, and what they record is joined to the bytes of the whole.

Nothing is joined before all parts are there. The state says so that far, and which rows are joined the writer knows, so
that a run that was killed goes on from its parts, by workers or here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..._base.halting import never
from ..._base.streams import Stream
from ...data.rows import pack
from ...sampling.chains import start_bits
from ...sampling.clamped import Conditioned
from ...sampling.observables import Function, Observables, check_given
from ...sampling.parts import cuts, join_rows, join_states, streams_of_whole
from ...store import Memory, Writer
from ..spec import APART, Given
from ..stop import Stop
from .part import make_part, spec_of_part
from .sources import InFiles, InMemory
from .task import subject_of

HEARTBEAT = 30.0  # seconds between two blocks while others work, so that commits tell that the run lives
Rows = dict[str, np.ndarray]


class PartsTask:
    """The task of a run in parts; `spec`, `inputs` and `given` are those of the whole.

    Attributes
    ----------
    n_written : function
        How many rows of each stream are written; the loop of the run sets it.
    """

    unit = "chain"
    atomic = False

    def __init__(self, spec: Mapping[str, Any], inputs: Mapping[str, np.ndarray], threads: int, given: Given) -> None:
        self.halt = never
        _, self.settings, subject = subject_of(spec, inputs, given)
        self._cuts = cuts(self.settings)
        functions = check_given(self.settings.observables, given.observables)
        self._functions = self._check_observables(subject, spec["initial"], inputs, functions)
        probe = make_part(*spec_of_part(spec, inputs, *self._cuts[-1]), threads)
        self.detail = probe.detail
        self._best = {} if self.settings.keep == "all" else {n: a for n, a in probe.state().items() if "best" in n}
        n_last = self._cuts[-1][1] - self._cuts[-1][0]
        self.streams = streams_of_whole(probe.streams, n_last, self.settings.n_chains)
        self._of_parts = list(self.streams)
        self.streams |= self._streams_of_functions()
        self._shared = (dict(spec), {name: np.asarray(array) for name, array in inputs.items()}, self._cuts)
        self._threads = threads if given.executor is None else given.worker_threads
        self._executor = given.executor
        self._stop = Stop(())
        self._source: InFiles | InMemory | None = None
        self._begun = self._done = False
        self.n_written = lambda: dict.fromkeys(self.streams, 0)

    def _check_observables(
        self, subject: Conditioned, initial: str, inputs: Mapping[str, np.ndarray], functions: Mapping[str, Function]
    ) -> Observables | None:
        """Try the observables on first states; return those that are functions, which are of all chains."""
        s = self.settings
        if not s.observables:
            return None
        if "initial" in inputs:
            first = inputs["initial"]
        else:
            units, n_units = subject.model.convention, subject.machine.n_units
            first = subject.complete(pack(start_bits(initial, n_units, s.n_chains, s.seed, s.first_chain, units)))
        Observables(subject.model, s.n_chains, s.observables, functions, first, len(s.beta))
        if not functions:
            return None
        return Observables(subject.model, s.n_chains, dict.fromkeys(functions), functions, first)

    def _streams_of_functions(self) -> dict[str, Stream]:
        if self._functions is None:
            return {}
        n_levels = self.settings.own.n_levels
        of_levels = self._functions.level_streams(n_levels, functions=True) if n_levels else {}
        return self._functions.streams | of_levels

    @property
    def done(self) -> bool:
        """Whether all rows are joined."""
        return self._done

    @property
    def progress(self) -> tuple[int, int]:
        """Chains done, and chains in all."""
        return (0 if self._source is None else self._source.n_done), self.settings.n_chains

    def enter(self, stop: Stop, writer: Writer | Memory) -> None:
        """Take the stop of this process, and the place where the run is written."""
        self._stop = stop
        spec, inputs, places = self._shared
        if isinstance(writer, Writer):
            self._source = InFiles(writer, places, self._threads, self._executor, stop)
        else:
            assert self._executor is not None
            self._source = InMemory((spec, inputs, places, self._threads), self._executor, stop)

    def leave(self) -> None:
        """Have others stop."""
        if self._source is not None:
            self._source.leave()

    def advance(self) -> Rows | None:
        """Wait for a part, or join some rows; return None where a stop was asked for."""
        assert self._source is not None
        if not self._begun:  # the first block may be broken off anywhere: there is nothing in it
            self._begun = True
            return {}
        if not self._source.ready:
            return self._wait(self._source)
        return self._join(self._source)

    def _wait(self, source: InFiles | InMemory) -> Rows | None:
        before, until = source.n_done, time.monotonic() + HEARTBEAT
        for _ in source.rounds:
            if self._stop.due():
                break
            if source.n_done > before or time.monotonic() > until:
                return {}
        if self._stop.due():
            source.leave()
            return None
        source.check()
        return {}

    def _join(self, source: InFiles | InMemory) -> Rows:
        """Join the next rows of all streams that go together."""
        there = self.n_written()
        totals = {name: source.n_rows(name) for name in self._of_parts}
        lacking = [name for name in self._of_parts if there[name] < totals[name]]
        if not lacking:
            self._done = True
            return {}
        first, total = there[lacking[0]], totals[lacking[0]]
        some = [name for name in lacking if (there[name], totals[name]) == (first, total)]
        end = min(total, first + max(1, source.block_bytes // sum(self.streams[name].row_bytes for name in some)))
        rows = {name: join_rows(name, source.read(name, first, end)) for name in some}
        if self._functions is not None and "samples/states" in rows:
            rows |= self._functions.measure(rows["samples/states"])
            if self.settings.own.n_levels:
                levels = np.swapaxes(rows["ladder/states"], 1, 2)
                rows |= self._functions.measure_levels(levels, functions=True)
        self._done = len(lacking) == len(some) and end == total
        return rows

    def state(self) -> Rows:
        """Return all arrays that continue the run."""
        if not self._done:
            return {APART: np.array(1), "n_swept": np.array(0), **self._best}
        assert self._source is not None
        return join_states(self.settings, self._source.states())

    def restore(self, state: Rows) -> None:
        """Do nothing: parts say how far they are, and the writer which rows are joined."""
