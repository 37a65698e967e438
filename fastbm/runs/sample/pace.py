"""The base of sampling tasks: streams, blocks short enough for a prompt stop, and work that can be broken off."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from ..._base.halting import Halted, never
from ..._base.streams import Stream
from ...sampling.best import Best
from ...sampling.clamped import Conditioned
from ...sampling.observables import Function, Observables
from ...sampling.settings import SampleSettings

BLOCK_SECONDS = 0.05  # about what a block may take
LONG_SECONDS = 0.1  # a block that may take longer can be broken off, at the price of a copy of the state
BLOCK_BYTES = 1 << 25
GROWTH = 8.0  # of a block over the one before
SAMPLE_SECONDS, UNIT_SECONDS = 2e-6, 2e-9  # what a sample, and a unit of it, takes beside its sweeps, at least
SWAP_SECONDS = 1e-4  # what Python takes for a change of temperatures


class Pace:
    """The size of blocks, from the time that the last one took; it decides no number of a run.

    Attributes
    ----------
    seconds : float
        What one piece of work takes.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1e-9)

    @property
    def count(self) -> int:
        """Number of pieces of work for the next block."""
        return max(1, int(BLOCK_SECONDS / self.seconds))

    def note(self, count: int, seconds: float) -> None:
        """Record how many seconds a block took."""
        self.seconds = max(seconds / count, self.seconds / GROWTH, 1e-9)


class Breakable:
    """A sampler's work in blocks, of which a stop breaks off long ones.

    Attributes
    ----------
    halt : function
        Whether a stop is asked for; the loop of the run sets it.
    """

    def __init__(self, chains: Any) -> None:
        self.chains = chains
        self.halt: Callable[[], bool] = never
        self._before: dict[str, np.ndarray] | None = None  # where chains go back to that were broken off

    def chains_state(self) -> dict[str, np.ndarray]:
        """Return the state of the chains after the last whole block."""
        return dict(self.chains.state() if self._before is None else self._before)

    @property
    def n_swept(self) -> int:
        """Number of sweeps that the chains have done, in whole blocks."""
        return int(self.chains.n_swept if self._before is None else self._before["n_swept"])

    @property
    def broken(self) -> bool:
        """Whether the last block was broken off; it is undone before anything else is done."""
        return self._before is not None

    @contextmanager
    def block(self, count: int, pace: Pace) -> Iterator[None]:
        """Do a block of `count` pieces in the body; a long one is left where a stop is asked for (`broken`)."""
        if self._before is not None:
            self.chains.restore(self._before)
            self._before = None
        started = time.perf_counter()
        if count * pace.seconds < LONG_SECONDS:
            yield
        else:
            before = self.chains.state()
            self.chains.halt = self.halt
            try:
                yield
            except Halted:
                self._before = before  # to go back at once would take seconds where replicas are many
                return
            finally:
                self.chains.halt = never
        pace.note(count, time.perf_counter() - started)


class SamplingTask(Breakable):
    """The base of sampling tasks: the chains of a sampler, observables, and best states where these are kept.

    `initial` is as for `fastbm.sampling.chains.make_chains`, `functions` as for `Observables`.
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
        super().__init__(s.own.chains(s, subject, initial, threads))
        self._n_groups = math.lcm(len(s.beta), subject.n_patterns)
        self._n_bytes = -(-subject.model.n_units // 8)
        first = subject.complete(self.chains.packed()) if s.observables else None
        self._observables = Observables(subject.model, s.n_chains, s.observables, functions, first, self._n_groups)
        self._best = Best(int(s.k or 0), self._n_bytes) if s.keep == "best" else None

    @property
    def multiplies(self) -> bool:
        """Whether blocks may call BLAS."""
        return getattr(self.chains, "multiplies", True) or self._observables.multiply

    @property
    def detail(self) -> dict[str, Any]:
        """Name of the kernel and the numbers that it computes in, by entry of `meta`."""
        return dict(self.chains.detail)

    @cached_property
    def streams(self) -> dict[str, Stream]:
        """Streams that the run writes."""
        own = self.settings.own
        found = {**sample_streams(self._subject, self.settings.keep, own.n_levels), **self.chains.streams}
        found |= self._observables.streams
        n_observed = own.n_observed(self.settings.observables)
        return found | (self._observables.level_streams(n_observed, functions=own.n_levels > 0) if n_observed else {})


def sample_streams(subject: Conditioned, keep: str, n_levels: int = 0) -> dict[str, Stream]:
    """Return the streams of all samplers, and of states at `n_levels` temperatures of each chain."""
    n_units, n_chains = subject.model.n_units, subject.n_chains
    attrs: dict[str, int | float | str] = {"n_units": n_units, "bitorder": "little", "one": subject.model.convention.hi}
    n_bytes = -(-n_units // 8)
    states = {"samples/states": Stream("|u1", (n_chains, n_bytes), attrs)} if keep == "all" else {}
    if states and n_levels:
        states["ladder/states"] = Stream("|u1", (n_chains, n_levels, n_bytes), attrs)
    return {**states, "samples/energy": Stream("<f8", (n_chains,)), "samples/sweep": Stream("<i8")}


def of_whole(rows: dict[str, np.ndarray], subject: Conditioned) -> dict[str, np.ndarray]:
    """Turn rows of a sampler into rows of the whole machine, with clamped units in states and offset in energies.

    Mutates the energies.
    """
    found = dict(rows)
    if "samples/states" in rows:
        found["samples/states"] = subject.complete(rows["samples/states"])
        offset = subject.offset
        if offset.any() if isinstance(offset, np.ndarray) else offset:
            found["samples/energy"] += offset  # in place, as fresh memory takes longer than the sum
    if "ladder/states" in rows:  # chains stand before bytes where units are clamped for each
        found["ladder/states"] = np.swapaxes(subject.complete(np.swapaxes(rows["ladder/states"], 1, 2)), 1, 2)
    return found
