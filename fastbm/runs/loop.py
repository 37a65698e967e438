"""The one loop of every run: advance, store, report progress, stop when asked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np

from .._base.checks import Diverged
from .._base.threads import single_threaded_blas
from ..store import Memory, Stream, Writer
from .stop import Broken, Stop

LONG_SECONDS = 1.0

State = dict[str, np.ndarray]


class Task(Protocol):
    """The work of a run, cut into blocks: sampling, learning and inference each have one."""

    @property
    def unit(self) -> str:
        """Name of what `progress` counts, such as "sweep"."""

    @property
    def atomic(self) -> bool:
        """Whether the next block may be broken off anywhere and done again from the state before it; it may be long."""

    @property
    def streams(self) -> dict[str, Stream]:
        """Declared streams that the blocks' rows belong to, by name."""

    @property
    def done(self) -> bool:
        """Whether no block is left."""

    @property
    def progress(self) -> tuple[int, int]:
        """Units of work done, and units in all."""

    def advance(self) -> Mapping[str, np.ndarray] | None:
        """Do one block; return its rows by stream, or None where a stop broke it off."""

    def state(self) -> State:
        """Return all arrays that continue the task bit for bit."""

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""


Progress = Callable[[Task, Mapping[str, np.ndarray]], None]


def execute(
    task: Task,
    writer: Writer | Memory,
    *,
    stop: Stop,
    progress: Progress | None = None,
) -> bool:
    """Run `task` to its end, or until a stop is asked for; return whether it is done.

    What was computed is committed either way. A task whose block was broken off is left in the middle of it.

    Raises
    ------
    Halted
        If a stop was asked for while the run, which is done, was merged.
    """
    worker: Any = task
    if hasattr(worker, "halt"):  # it checks for a stop inside long blocks; `advance` then returns None
        worker.halt = stop.asked
    if hasattr(worker, "enter"):  # its blocks are runs themselves, which the same stop stops
        worker.enter(stop, writer)
    if progress is not None and hasattr(worker, "told"):  # it says how far it is inside of blocks too
        worker.told = lambda: progress(task, {})
    if hasattr(worker, "n_written"):  # it may ask how many rows of each stream the run has written
        worker.n_written = lambda: {name: writer.n_rows(name) for name in writer.streams}
    products = getattr(worker, "multiplies", True)  # short runs that do not have no time for the limit
    with stop, stop.breaking(False), single_threaded_blas() if products else nullcontext():
        try:
            state = _advance_all(task, writer, stop, progress)
        finally:
            stop.disarm()
            if hasattr(worker, "leave"):  # others do its pieces: those that wait are not begun any more
                worker.leave()
        if state is not None:
            writer.commit(state)
            writer.close()
            return False
        writer.finish(task.state(), stop.impatient)
    return True


def _advance_all(task: Task, writer: Writer | Memory, stop: Stop, progress: Progress | None) -> State | None:
    """Advance block by block; return the state to resume from, or None when all is done."""
    seconds = math.inf  # that the block before took; a first one may wait long for the compiler
    stop.arm(first=True)
    while not task.done:
        stop.reached = _reached(task)
        if stop.signalled:
            return task.state()
        started = time.monotonic()
        before = None
        if _may_be_long(task, seconds):  # the first block goes on from the state that the writer has
            before = dict(writer.state) if seconds == math.inf else _copied(task.state())
        try:
            with nullcontext() if before is None else stop.breaking():
                rows = task.advance()
        except Broken:
            if before is None or not stop.requested:  # it is the stop of a run that this one is a block of
                raise
            return before
        except Diverged:
            writer.commit(task.state())  # of the last block that was whole
            raise
        seconds = time.monotonic() - started
        stop.arm()
        if rows is not None:
            writer.append(rows, task.state)
            if progress is not None:
                progress(task, rows)
        if stop.due() and not task.done:
            stop.reached = _reached(task)
            return task.state()
    return None


def _may_be_long(task: Task, seconds: float) -> bool:
    """Return whether a block is broken off by a stop.

    It is where it is atomic, and the first one, or after one that was long; not where the task checks for a stop
    itself.

    Threads may still work on what was broken off, so that the task must not be used any more.
    """
    return task.atomic or not (seconds < LONG_SECONDS or (hasattr(task, "halt") and seconds < math.inf))


def _copied(state: State) -> State:
    """Return the state as it is now; arrays that are frozen do not change."""
    return {name: np.array(array) if array.flags.writeable else array for name, array in state.items()}


def _reached(task: Task) -> str:
    count, end = task.progress
    return f"{task.unit} {count} of {end}"
