"""A pool of our own, which is rebuilt when it breaks and whose processes hear their coordinator."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from . import new_processes
from .jobs import STOPPED, Job, Outcome, do_job

AGAIN_SECONDS = 0.2

_ends: list[Connection] = []  # in a worker: what it hears of its coordinator by


class Pool(Executor):
    """A pool of processes that stop in order when their coordinator asks for it, or is gone.

    Parameters
    ----------
    n_workers : int
    preloaded : sequence of str
        Modules that workers share from before they are forked.
    """

    def __init__(self, n_workers: int, preloaded: Sequence[str] = ()) -> None:
        self._max_workers, self._preloaded = n_workers, preloaded
        self._executor, self._end = self._make()

    def _make(self) -> tuple[Executor, Connection]:
        context = new_processes()
        context.set_forkserver_preload(list(self._preloaded))
        theirs, ours = multiprocessing.Pipe(duplex=False)
        executor = ProcessPoolExecutor(
            self._max_workers, mp_context=context, initializer=begin_worker, initargs=(theirs,)
        )
        return executor, ours

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Hand a call to a worker."""
        return self._executor.submit(function, *arguments, **options)

    def renew(self) -> None:
        """Put another pool in the place of one that broke."""
        self.shutdown()
        self._executor, self._end = self._make()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """Have all workers commit and leave; return when they have."""
        with suppress(OSError):
            self._end.send(None)  # nobody takes it, so that all see it
        self._executor.shutdown(wait=True, cancel_futures=True)


def begin_worker(end: Connection) -> None:
    """Prepare a process of a pool: Ctrl-C is its coordinator's affair; what comes through `end` is its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ends.append(end)
    threading.Thread(target=_leave_after, args=(end,), daemon=True, name="fastbm-coordinator").start()


def _leave_after(end: Connection) -> None:
    coordinator = multiprocessing.parent_process()
    wait([end] if coordinator is None else [end, coordinator.sentinel])
    while True:  # one that comes as a job ends is taken by that job, and the process would wait for another for ever
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(AGAIN_SECONDS)


def do_in_pool(job: Job) -> Outcome:
    """Do a job in a process of a pool, which leaves when it is told to stop: whoever told it expects that."""
    outcome = do_job(job)
    if outcome.state == STOPPED:
        os._exit(0)
    return outcome
