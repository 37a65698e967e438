"""The one loop of every run: advance, store, report, stop when asked."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, TracebackType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ._checks import Diverged
from .store import Memory, Stream, Writer
from .threads import single_threaded_blas


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
    def state(self) -> dict[str, np.ndarray]: ...
    def restore(self, state: dict[str, np.ndarray]) -> None: ...


@runtime_checkable
class Halting(Protocol):
    """A task that looks for a stop inside of long blocks; `advance` then returns None, with the task as before."""

    halt: Callable[[], bool]


Progress = Callable[[Task, Mapping[str, np.ndarray]], None]


class Stop:
    """Turns signals into a request to stop at the end of the present block.

    Ctrl-C is listened to for the length of a run, in the main thread; the command line adds SIGTERM and SIGHUP. A
    second signal acts as it did before the run. Blocks are short, so that this is prompt; one that may be long is
    broken off.
    """

    def __init__(self, signals: Iterable[int] = (signal.SIGINT,)) -> None:
        self._signals = tuple(signals)
        self._before: dict[int, Any] = {}
        self.requested = ""
        self.may_break = False

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in self._signals}
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = signal.Signals(number).name
        self._restore()
        if self.may_break:
            raise KeyboardInterrupt

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()


def execute(
    task: Task,
    writer: Writer | Memory,
    *,
    stop: Stop,
    progress: Progress | None = None,
    max_seconds: float | None = None,
) -> bool:
    """Run `task` to its end, or until a stop is asked for; return whether it is done.

    What was computed is committed either way.
    """
    deadline = None if max_seconds is None else time.monotonic() + max_seconds
    if isinstance(task, Halting):
        task.halt = lambda: bool(stop.requested)
    with stop, single_threaded_blas():
        while not task.done:
            try:
                rows = _advance(task, stop)
            except Diverged:
                writer.commit(task.state())  # of the last block that was whole
                raise
            if rows is not None:
                writer.append(rows, task.state)
                if progress is not None:
                    progress(task, rows)
            if stop.requested or (deadline is not None and time.monotonic() >= deadline):
                break
        if not task.done:
            writer.commit(task.state())
            writer.close()
            return False
        writer.finish(task.state())
    return True


def _advance(task: Task, stop: Stop) -> Mapping[str, np.ndarray] | None:
    """Do one block; None if a signal broke it off, with the task as it was before."""
    if not task.atomic:
        return task.advance()
    before = task.state()
    try:
        stop.may_break = True
        rows = task.advance()
        stop.may_break = False
        return rows
    except KeyboardInterrupt:
        if not stop.requested:
            raise
        task.restore(before)
        return None
    finally:
        stop.may_break = False
