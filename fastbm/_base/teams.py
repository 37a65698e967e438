"""Teams of threads, each lent to one caller at a time and kept off the processor that the caller computes on.

A system wakes a thread on the processor of whoever wakes it, and some leave both there for milliseconds, which is as
long as much of the work takes that they share.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from threading import Barrier, get_native_id

from .system import after_fork

LATE = 1e-3  # seconds

_idle: defaultdict[int, list[Team]] = defaultdict(list)
after_fork(_idle.clear)

try:
    _processor: Callable[[], int] | None = ctypes.CDLL(None).sched_getcpu
except (AttributeError, OSError, TypeError):  # not Linux: systems that let nobody choose processors
    _processor = None


class Team:
    """Threads besides the caller's own; raises RuntimeError where the system does not start as many."""

    def __init__(self, n_threads: int) -> None:
        self._ids: list[int] = []
        self._begun: list[Future[object]] = []
        self._on: set[int] = set()  # the processors that threads were given, none before that
        self._pool = ThreadPoolExecutor(n_threads, "fastbm", lambda: self._ids.append(get_native_id()))
        meeting = Barrier(n_threads + 1)
        try:
            for _ in range(n_threads):
                self._pool.submit(meeting.wait)  # which no thread leaves before all are there
            meeting.wait()
        except BaseException:
            meeting.abort()
            self._pool.shutdown(wait=False)
            raise

    def begin(self, tasks: Iterable[Callable[[], object]]) -> None:
        """Have threads, which are idle, do tasks, one each."""
        self._keep_off({_processor()} if _processor else set())
        for task in tasks:
            self._begun.append(self._pool.submit(task))

    def cancel(self) -> None:
        """Take back what no thread has begun."""
        self._begun = [task for task in self._begun if not task.cancel()]

    def wait(self) -> None:
        """Wait until all is done; threads that are late may have the caller's processor too."""
        if wait(self._begun, LATE).not_done:
            self._keep_off(set())
            wait(self._begun)

    def end(self) -> None:
        """Wait until all is done, and raise what a task has raised."""
        self.wait()
        for task in self._begun:
            task.result()

    def is_free(self) -> bool:
        """Return whether all is done, which is forgotten then; else let threads end with what they are at."""
        if free := all(task.done() for task in self._begun):
            self._begun = []
        else:
            self._pool.shutdown(wait=False)
        return free

    def _keep_off(self, processors: set[int]) -> None:
        """Give threads the processors that the caller may use but for some, if enough are left."""
        if not hasattr(os, "sched_setaffinity"):
            return
        allowed = os.sched_getaffinity(0)
        on = allowed - processors if len(allowed - processors) >= len(self._ids) else allowed
        if on != self._on:
            self._on = on
            with suppress(OSError):  # a system that forbids it
                for thread in self._ids:
                    os.sched_setaffinity(thread, on)


@contextmanager
def lent(n_threads: int) -> Iterator[Team | None]:
    """Lend a team of so many threads, or None where the system starts no more of them: memory or a limit is short."""
    idle = _idle[n_threads]
    try:
        team = idle.pop()
    except IndexError:
        try:
            team = Team(n_threads)
        except RuntimeError:
            yield None
            return
    try:
        yield team
    finally:
        if team.is_free():
            idle.append(team)
