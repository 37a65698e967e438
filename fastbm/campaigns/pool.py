"""Executors of a campaign: a pool of our own, a Dask scheduler, MPI; each is imported only where it is asked for."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from .shard import STOPPED, Job, Outcome, do_shard

CONNECT_SECONDS = 3.0  # after which no scheduler is there
METHODS = ("forkserver", "spawn")  # how processes are started: the first that the system has
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
        there = multiprocessing.get_all_start_methods()
        context: Any = multiprocessing.get_context(next(method for method in METHODS if method in there))
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
    os.kill(os.getpid(), signal.SIGTERM)


def do_in_pool(job: Job) -> Outcome:
    """Do a shard in a process of a pool, which leaves when it is told to stop: whoever told it expects that."""
    outcome = do_shard(job)
    if outcome.state == STOPPED:
        os._exit(0)
    return outcome


def connect(address: str) -> tuple[Executor, Any]:
    """Return the executor of a Dask scheduler, and the client that is to be closed.

    Raises
    ------
    ValueError
        If no scheduler listens there.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("--scheduler needs Dask: pip install distributed.") from None
    import logging

    logging.getLogger("distributed").setLevel(logging.ERROR)
    try:
        client = Client(address, timeout=CONNECT_SECONDS)
    except (TimeoutError, OSError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        raise ValueError(f"no Dask scheduler listens at {address}: {text or type(error).__name__}.") from None
    return client.get_executor(), client


def of_mpi() -> Executor:
    """Return the executor of the processes that MPI has started."""
    try:
        from mpi4py.futures import MPIPoolExecutor
    except ImportError:
        raise ImportError(
            "--mpi needs mpi4py: pip install mpi4py mpich. Start it with: mpiexec -n N python -m mpi4py.futures -m "
            "fastbm run FILE --mpi"
        ) from None
    found: Executor = MPIPoolExecutor()
    return found


def close(client: Any) -> None:
    """Close a client or an executor, whatever state it is in."""
    with suppress(Exception):
        client.close() if hasattr(client, "close") else client.shutdown(wait=False, cancel_futures=True)
