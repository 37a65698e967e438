"""A pool of a campaign's own, which is rebuilt when it breaks and whose processes hear their coordinator."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from ..runs.workers import new_processes
from .shard import STOPPED, Job, Outcome, do_shard

AGAIN_SECONDS = 0.2
PRELOADED = ("fastbm.campaigns.shard",)  # what workers share from before they are forked

_ends: list[Connection] = []  # in a worker: what it hears of its coordinator by


class Pool:
    """A pool of processes that stop in order when their coordinator asks for it, or is gone.

    Attributes
    ----------
    executor : Executor
    """

    def __init__(self, n_workers: int) -> None:
        self._n_workers = n_workers
        self.executor, self._end = self._make()

    def _make(self) -> tuple[Executor, Connection]:
        context = new_processes()
        context.set_forkserver_preload(list(PRELOADED))
        theirs, ours = multiprocessing.Pipe(duplex=False)
        executor = ProcessPoolExecutor(
            self._n_workers, mp_context=context, initializer=begin_worker, initargs=(theirs,)
        )
        return executor, ours

    def renew(self) -> None:
        """Put another pool in the place of one that broke."""
        self.stop()
        self.executor, self._end = self._make()

    def stop(self) -> None:
        """Have all workers commit and leave; return when they have."""
        with suppress(OSError):
            self._end.send(None)  # nobody takes it, so that all see it
        self.executor.shutdown(wait=True, cancel_futures=True)


def begin_worker(end: Connection) -> None:
    """Prepare a process of a pool: Ctrl-C is its coordinator's affair; what comes through `end` is its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ends.append(end)
    threading.Thread(target=_leave_after, args=(end,), daemon=True, name="fastbm-coordinator").start()


def _leave_after(end: Connection) -> None:
    coordinator = multiprocessing.parent_process()
    wait([end] if coordinator is None else [end, coordinator.sentinel])
    while (
        True
    ):  # one that comes as a shard ends is taken by that shard, and the process would wait for another for ever
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(AGAIN_SECONDS)


def do_in_pool(job: Job) -> Outcome:
    """Do a shard in a process of a pool, which leaves when it is told to stop: whoever told it expects that."""
    outcome = do_shard(job)
    if outcome.state == STOPPED:
        os._exit(0)
    return outcome
