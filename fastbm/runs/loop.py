"""The one loop of every run: advance, store, report, stop when asked."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Protocol, runtime_checkable

import numpy as np

from .._base.checks import Diverged
from .._base.threads import single_threaded_blas
from ..store import Memory, Stream, Writer
from .stop import Broken, Stop

LONG_SECONDS = 1.0

State = dict[str, np.ndarray]


class Task(Protocol):
    """A run's work, cut into blocks. Sampling, learning and inference each have one."""

    @property
    def unit(self) -> str: ...
    @property
    def atomic(self) -> bool:
        """Whether the next block may be broken off anywhere and done again from the state before it; it may be long."""

    @property
    def streams(self) -> dict[str, Stream]: ...
    @property
    def done(self) -> bool: ...
    @property
    def progress(self) -> tuple[int, int]: ...
    def advance(self) -> Mapping[str, np.ndarray] | None: ...
    def state(self) -> State: ...
    def restore(self, state: State) -> None: ...


@runtime_checkable
class Halting(Protocol):
    """A task that looks for a stop inside of long blocks; `advance` then returns None, with the task as before."""

    halt: Callable[[], bool]


@runtime_checkable
class Counting(Protocol):
    """A task that may ask how many rows of each stream the run has written."""

    n_written: Callable[[], Mapping[str, int]] | None


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
    if isinstance(task, Halting):
        task.halt = stop.asked
    if isinstance(task, Counting):
        task.n_written = lambda: {name: writer.n_rows(name) for name in writer.streams}
    with stop, stop.breaking(False), single_threaded_blas():
        try:
            state = _advance_all(task, writer, stop, progress)
        finally:
            stop.disarm()
        if state is not None:
            writer.commit(state)
            writer.close()
            return False
        writer.finish(task.state(), stop.impatient)
    return True


def _advance_all(task: Task, writer: Writer | Memory, stop: Stop, progress: Progress | None) -> State | None:
    """Do block after block; return the state to go on from, or None when all is done."""
    seconds = math.inf  # that the block before took; a first one may wait long for the compiler
    stop.arm(first=True)
    while not task.done:
        stop.reached = _reached(task)
        if stop.signalled:
            return task.state()
        started = time.monotonic()
        before = _copied(task.state()) if _may_be_long(task, seconds) else None
        try:
            with nullcontext() if before is None else stop.breaking():
                rows = task.advance()
        except Broken:
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
    """Whether a block is broken off by a stop: it is atomic, the first, or comes after one that was long and does not
    look for a stop itself.

    Threads may still work on what was broken off, so that the task must not be used any more.
    """
    return task.atomic or not (seconds < LONG_SECONDS or (isinstance(task, Halting) and seconds < math.inf))


def _copied(state: State) -> State:
    return {name: np.array(array) for name, array in state.items()}


def _reached(task: Task) -> str:
    count, end = task.progress
    return f"{task.unit} {count} of {end}"
