"""How the processes of workers leave in order: a signal, or the end of a parent, asks every run for a stop.

Each run commits at the end of its block, in whatever thread it is; after that the process does what it would have done
at once. Ctrl-C, which a terminal sends to all, stops the runs and leaves the worker there.
"""

from __future__ import annotations

import _thread
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from types import FrameType
from typing import Any

from ..._base import share, workers
from .. import stop

POLL = 0.02
PARENT_POLL = 1.0
PARENT = "the end of the process that began this one"

_begun: list[int] = []  # the process that `initialise` was called in


def initialise(leave: Callable[[int], object] | None = None) -> None:
    """Make this process a worker, whose runs compute on one thread unless told and stop when the process is to leave.

    It is the `initializer` of ``ProcessPoolExecutor``, ``loky.get_reusable_executor`` or ``MPIPoolExecutor``.

    Parameters
    ----------
    leave : callable, optional
        Called with the signal, in a thread, when all runs have left; by default what the signal did before is done.
    """
    share.be_worker()
    if _begun == [os.getpid()]:
        return
    _begun[:] = [os.getpid()]
    workers.leave_by(stop.leaving_pieces)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, lambda number, frame: stop.ask_all(signal.Signals(number).name))
        _leave_at(signal.SIGTERM, leave)
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_leave_after, args=(parent,), daemon=True, name="fastbm-parent").start()


def _leave_at(number: signal.Signals, leave: Callable[[int], object] | None) -> None:
    """Have a signal stop all runs, and do what it did when they have left; a second one acts at once."""
    before = signal.getsignal(number)

    def asked(_: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL if before is None else before)
        # `threading` holds locks that this may have come in the middle of
        _thread.start_new_thread(_leave_when_done, (leave or _raise_again, int(number)))
        stop.ask_all(number.name, for_good=True)

    signal.signal(number, asked)


def _raise_again(number: int) -> None:
    os.kill(os.getpid(), number)


def _leave_when_done(leave: Callable[[int], object], number: int) -> None:
    time.sleep(POLL)  # the handler asks the runs
    while stop.n_running():
        time.sleep(POLL)
    leave(number)


def _leave_after(parent: Any) -> None:
    """Leave when the parent is gone, killed perhaps, as nobody takes what is computed."""
    if parent.sentinel is not None:
        wait([parent.sentinel])
    else:  # loky's workers have none
        while os.getppid() == parent.pid:
            time.sleep(PARENT_POLL)
    stop.ask_all(PARENT, for_good=True)
    while stop.n_running():
        time.sleep(POLL)
    os._exit(1)
