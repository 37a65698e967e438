"""Requests to stop a run, made by a signal or by the clock.

A request is noted, and the loop of the run looks for it between blocks. Where work may be broken off it is: an
exception is raised within it, in the main thread, by the handler of the signal. The clock sends a signal of its own to
that end, one that does nothing to a program that does not listen to it.

What stops a whole process, such as the end of a batch job, asks all its runs, whatever threads they are in (`ask_all`);
it is the process's owner who arranges for that (`fastbm.workers`), never a run.

Clocks may count from when this process began, as a batch system counts: its start-up is older than the first line of
Python.
"""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from .._base import share
from .._base.checks import Interrupted
from .._base.system import after_fork

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# by default it is ignored, where it is there, so that one that comes late does no harm
WAKE: signal.Signals = getattr(signal, "SIGURG", None) or signal.SIGTERM
MAX_SECONDS = "max_seconds"
FIRST_SECONDS = 10.0  # a first block that has less is done whole: runs of very few seconds each come to an end too
AGAIN_SECONDS = 0.05
RACE = "ignored due to race condition"  # what Python says of a second signal that comes as its handler is put back
MERGE_SECONDS = 2.0  # that a merge may go on for when a stop is asked for

_active: list[Stop] = []  # in the main thread
_running: list[Stop] = []  # in any thread
_for_good: list[str] = []  # why this process leaves, so that what is begun stops at once
START_TICKS = 19  # of the fields after the command's name, the time of the start since boot
SECONDS_OF = (1, 60, 3600, 86400)


class Broken(KeyboardInterrupt):
    """Raised where work was broken off because a stop was asked for."""


class Unshown(KeyboardInterrupt):
    """Raised where a stop was asked for after a run was done, so that only what is shown of it was cut short."""


class Stop:
    """A request to stop, made by signals or the clock.

    Within its context, in the main thread, it listens to signals that nobody else handles or ignores: `SIGNALS` where
    a run has a file to go on from, Ctrl-C alone where it has none. A second signal acts as it did before, or at once
    and by default where the process is `alone`, nothing but this run; there time can be counted from when it `began`.

    Attributes
    ----------
    requested : str
        The name of the signal, "max_seconds", or "" while nothing asks for a stop.
    reached : str
        How far the run came, such as "sweep 20 of 50".
    """

    def __init__(
        self, signals: Iterable[int] = (signal.SIGINT,), *, alone: bool = False, began: float | None = None
    ) -> None:
        self._signals, self._alone, self._began = tuple(signals), alone, began
        self._before: dict[int, Any] = {}
        self._hook: Any = None
        self._depth = 0
        self._may_break = False
        self._deadline: float | None = None
        self._requested_at = 0.0
        self._timer: threading.Timer | None = None
        self.requested = self.reached = ""

    @property
    def signalled(self) -> bool:
        """Whether a signal asked for the stop."""
        return self.requested not in ("", MAX_SECONDS)

    @property
    def message(self) -> str:
        """What stopped the run, and where, as text."""
        return f"stopped by {self.requested} after {self.reached};"

    def asked(self) -> bool:
        """Return whether a stop is asked for."""
        return bool(self.requested)

    def due(self) -> bool:
        """Return whether a stop is asked for, or the time is over."""
        if not self.requested and self._deadline is not None and time.monotonic() >= self._deadline:
            self.requested = MAX_SECONDS
        return bool(self.requested)

    def impatient(self) -> bool:
        """Return whether even work that is nearly done must be left: a signal came a while ago."""
        return self.signalled and time.monotonic() >= self._requested_at + MERGE_SECONDS

    def limit(self, max_seconds: float | None, *, of_process: bool = False) -> None:
        """Ask for a stop `max_seconds` after this call, or after the process began, if that is known."""
        if max_seconds is not None:
            began = self._began if of_process else None
            deadline = (time.monotonic() if began is None else began) + max_seconds
            self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)

    def ask(self, reason: str) -> None:
        """Ask for a stop, from any thread; `reason` ends "stopped by ..."."""
        if not self.signalled:
            self.requested, self._requested_at = reason, time.monotonic()
        self._send()

    def __enter__(self) -> Stop:
        self._depth += 1
        if self._depth == 1:
            if threading.current_thread() is threading.main_thread():
                self._hook, sys.unraisablehook = sys.unraisablehook, self._unraised
                _active.append(self)
                for number in self._signals:
                    self._listen(number, self._note)
                if share.prepared():
                    self._listen(WAKE, self._wake)
            _running.append(self)
            for reason in _for_good:
                self.requested, self._requested_at = reason, time.monotonic()
        return self

    def _listen(self, number: int, handler: Any) -> None:
        """Listen to a signal that nobody else handles or ignores; to `WAKE` from when it may be sent."""
        if self in _active and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            self._before[number] = signal.signal(number, handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.disarm()
            if self in _running:  # a forked child forgot it
                _running.remove(self)
            self._release()

    def _release(self) -> None:
        """Stop listening to signals and the clock."""
        if self not in _active:
            return
        _active.remove(self)
        self._may_break = False
        for number in list(self._before):
            self._restore(number)
        if sys.unraisablehook == self._unraised:
            sys.unraisablehook = self._hook

    def _restore(self, number: int) -> None:
        if (handler := self._before.pop(number, None)) is not None:
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested, self._requested_at = signal.Signals(number).name, time.monotonic()
        for other in self._signals:
            if other in self._before and self._alone:
                signal.signal(other, signal.SIG_DFL)
            else:
                self._restore(other)
        self._break_off()

    def _wake(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            self._break_off()

    def _break_off(self) -> None:
        if self._may_break:
            self._may_break = False  # once: what cleans up must not be broken off itself
            raise Broken

    def _unraised(self, unraisable: Any) -> None:
        """Ask again where the exception was lost: Python drops those that leave a finaliser or a callback from C."""
        if unraisable.exc_type is None or not issubclass(unraisable.exc_type, Broken):
            if RACE not in str(unraisable.exc_value):
                self._hook(unraisable)
            return
        self._may_break = True
        self._listen(WAKE, self._wake)
        _thread.start_new_thread(self._again, ())  # `threading` holds locks that this may have come in the middle of

    def _again(self) -> None:
        time.sleep(AGAIN_SECONDS)
        self._send()

    def _send(self) -> None:
        """Make the main thread check for a request, even where it waits for a lock."""
        main = threading.main_thread().ident
        if self in _active and main is not None:
            signal.pthread_kill(main, WAKE) if hasattr(signal, "pthread_kill") else _thread.interrupt_main(WAKE)

    def breaking(self, allowed: bool = True) -> Breaking:
        """Let a request raise `Broken` in the body, or, if that is not allowed, only record it.

        A request that was made before raises at once.
        """
        return Breaking(self, allowed)

    def arm(self, *, first: bool = False) -> None:
        """Start the clock, which breaks off blocks at the deadline, a `first` one if that is far enough."""
        if self._timer is not None or self._deadline is None:
            return
        left = self._deadline - time.monotonic()
        if left >= (FIRST_SECONDS if first else 0.0):
            self._listen(WAKE, self._wake)
            self._timer = threading.Timer(min(left, threading.TIMEOUT_MAX), self._expire)
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
            self._timer = None

    def _expire(self) -> None:
        if not self.requested:
            self.requested = MAX_SECONDS
            self._send()


class Breaking:
    """The context of `Stop.breaking`; short runs enter several, which generators would take twice as long for."""

    def __init__(self, stop: Stop, allowed: bool) -> None:
        self._stop, self._allowed, self._before = stop, allowed, False

    def __enter__(self) -> None:
        stop = self._stop
        self._before = stop._may_break
        try:
            stop._may_break = self._allowed and stop._depth > 0
            if stop.signalled or stop._timer is not None:
                stop._wake(WAKE, None)
        except BaseException:
            stop._may_break = self._before
            raise

    def __exit__(self, *exception: object) -> None:
        self._stop._may_break = self._before


def ask_all(reason: str, *, for_good: bool = False) -> None:
    """Ask every run of this process for a stop, in any thread, and, `for_good`, those that are begun later."""
    if for_good:
        _for_good[:] = [reason]
    for stop in list(_running):
        stop.ask(reason)


@contextmanager
def leaving_pieces() -> Iterator[None]:
    """Break off the body, a piece of somebody's run, where this worker is asked to stop or leave.

    In other threads than the main one, which nothing can break off, it is done to its end.

    Raises
    ------
    Interrupted
        By which `workers.do_piece` knows that the piece is to be done elsewhere.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    stop = Stop(())
    try:
        with stop, stop.breaking():
            yield
    except Broken:
        raise Interrupted(f"stopped by {stop.requested}.", None) from None


def n_running() -> int:
    """Return how many runs are under way in this process."""
    return len(_running)


def _forget_in_child() -> None:
    """Have a process that was forked within a run end by signals, as if there were no run."""
    _running.clear()
    _for_good.clear()
    for stop in list(_active):
        stop._release()


after_fork(_forget_in_child)


def stop_of(given: Stop | None, signals: Iterable[int]) -> Stop:
    """Return the stop that a call was given, or one by signals.

    Raises
    ------
    TypeError
        If it is none.
    """
    if given is not None and not isinstance(given, Stop):
        raise TypeError(f"stop must be a fastbm.runs.stop.Stop, or be left out; got {given!r}. Use max_seconds.")
    return Stop(signals) if given is None else given


PROC_STAT = Path("/proc/self/stat")


def process_age() -> float:
    """Return the seconds since this process was started; where the system does not know, those it has computed for."""
    for ask in (_of_linux, _of_ps):
        try:
            age = ask()
        except (OSError, ValueError, IndexError, AttributeError, subprocess.SubprocessError):
            continue
        if age >= 0.0:
            return age
    return time.process_time()


def _of_linux() -> float:
    fields = PROC_STAT.read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[START_TICKS]) / os.sysconf("SC_CLK_TCK")


def _of_ps() -> float:
    command = ["ps", "-o", "etime=", "-p", str(os.getpid())]
    return elapsed(subprocess.run(command, capture_output=True, text=True, check=True, timeout=5.0).stdout)


def elapsed(text: str) -> float:
    """Read a time as `ps` prints it, [[days-]hours:]minutes:seconds."""
    parts = text.strip().replace("-", ":").split(":")
    return float(sum(int(part) * seconds for part, seconds in zip(reversed(parts), SECONDS_OF, strict=False)))
