"""Fan-out over threads: compiled kernels release the interpreter lock, so blocks of chains run side by side.

A block belongs to its own streams and rows, so results do not depend on the number of threads.

Threads come in teams, each lent to one caller at a time and kept off the processor that the caller computes on. A
system wakes a thread on the processor of whoever wakes it, and some leave both there for milliseconds, which is as long
as much of the work takes that they share.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, partial
from itertools import repeat
from threading import Barrier, Event, Lock, get_ident, get_native_id
from typing import Any, TypeVar

from . import checks, share
from .system import after_fork

T = TypeVar("T")
R = TypeVar("R")

LATE = 1e-3  # seconds from which on a thread may have its caller's processor too, which waits for it

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

    def settle(self) -> bool:
        """Forget what is done and return True; let threads end with what they are at, and return False, if any is."""
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
        if team.settle():
            idle.append(team)


def available() -> int:
    """Return the number of threads that this process computes on unless told: one in a worker, else its share."""
    return 1 if share.is_worker() else share.processors()


def resolve(threads: int | None) -> int:
    """Check a number of threads; None stands for all that are available."""
    return available() if threads is None else checks.whole("threads", threads, least=1)


def fan_out(function: Callable[[T], R], items: Iterable[T], threads: int) -> list[R]:
    """Apply `function` to every item on up to `threads` threads; results in the order of the items.

    The calling thread takes items too, and does not wait for threads that come when all are taken: short work on two
    threads takes no longer than on one. After an error no more items are begun.
    """
    work: Sequence[T] = list(items)
    if threads == 1 or len(work) < 2:
        return [function(item) for item in work]
    found: list[Any] = [None] * len(work)
    places = iter(range(len(work)))  # whose next one no two threads get

    def take() -> None:
        try:
            for k in places:
                found[k] = function(work[k])
        except BaseException:
            for _ in places:
                pass
            raise

    with lent(threads - 1) as team:
        if team is None:
            take()
        else:
            _together(take, team, min(threads, len(work)) - 1)
    return found


def take_turns(
    function: Callable[[int, int, int], object], n_items: int, n_steps: int, n_turns: int, threads: int
) -> None:
    """Apply `function` to (first, last, item), parts of the steps of every item, one part after the other.

    Items that cannot be dealt out evenly take turns on threads, so that all these have as much to do. The step `last`
    is excluded; there are `n_turns` parts, at most as many as steps. After an error no more are begun.
    """
    done, failed = [Event() for _ in range(n_turns * n_items)], Event()

    def give_up() -> None:
        failed.set()  # before those go on that wait
        for event in done:
            event.set()

    def take(job: int) -> None:
        turn, item = divmod(job, n_items)
        try:
            if turn:
                done[job - n_items].wait()
            if not failed.is_set():
                function(turn * n_steps // n_turns, (turn + 1) * n_steps // n_turns, item)
            done[job].set()
        except BaseException:
            give_up()
            raise

    try:
        fan_out(take, range(len(done)), threads)
    except BaseException:  # an interrupt may come outside of a part
        give_up()
        raise


def _together(take: Callable[[], object], team: Team, n_others: int) -> None:
    """Call `take` here and in so many threads of a team; raise what any of them raises."""
    try:
        team.begin(repeat(take, n_others))
        take()
    except BaseException as error:
        team.cancel()
        if isinstance(error, Exception):  # a stop does not wait for work that is thrown away
            team.wait()
        raise
    team.cancel()
    team.end()


def side_by_side(
    function: Callable[[int, int], object], n_threads: int, give_up: Callable[[], object] = lambda: None
) -> None:
    """Call `function(k, n)` for k from 0 to n - 1, all at the same time, so that they may wait for one another.

    n is `n_threads`, or 1 where the system does not start as many: memory or a limit is short. Where one of them fails
    or is broken off, `give_up` is called, which must let those go on that wait for it.
    """
    if n_threads == 1:
        function(0, 1)
        return

    def run(k: int) -> None:
        try:
            function(k, n_threads)
        except BaseException:
            give_up()
            raise

    with lent(n_threads - 1) as team:
        if team is None:
            function(0, 1)
            return
        try:
            team.begin(partial(run, k) for k in range(1, n_threads))
            run(0)
        except BaseException:
            give_up()
            team.wait()
            raise
        team.end()


@cache
def blas_libraries() -> tuple[Any, ...]:
    """Return the libraries of linear algebra in this process, as threadpoolctl has them."""
    import scipy.linalg  # noqa: F401  (SciPy's BLAS must be loaded before the controller looks for libraries)
    from threadpoolctl import ThreadpoolController

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _own_and_shared() -> tuple[list[Any], list[Any]]:
    """Return the libraries whose threads are counted by the calling thread, and those where they are the process's."""
    own = [library for library in blas_libraries() if getattr(library, "threading_layer", None) == "openmp"]
    return own, [library for library in blas_libraries() if library not in own]


def _set_threads(libraries: Iterable[Any], numbers: Iterable[int]) -> list[int]:
    """Tell each library its number of threads, from whatever thread; return what it was."""
    before = []
    for library, number in zip(libraries, numbers, strict=False):
        before.append(library.get_num_threads() or 1)
        if before[-1] == number:
            continue
        # some threadpoolctl silently refuse all threads but the one that set a number first, until it is cleared
        clear = getattr(library, "clear_controlling_thread", lambda **_: None)
        clear(force=True)
        library.set_num_threads(number)
        clear(force=True)
    return before


class _BlasLimit:
    """BLAS at one thread for as long as anyone holds it: the first holder sets the limit, the last one out ends it.

    The limit is the whole process's, so holders in several threads share one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders: list[int] = []  # threads, each as often as it holds
        self._before: list[int] | None = None

    def hold(self, thread: int, libraries: Sequence[Any]) -> None:
        """Count one holder more."""
        with self._lock:
            if self._before is None:
                self._before = _set_threads(libraries, repeat(1))
            self._holders.append(thread)

    def release(self, thread: int, libraries: Sequence[Any]) -> None:
        """Count one holder less."""
        with self._lock:
            self._holders.remove(thread)
            if not self._holders:
                _set_threads(libraries, self._before or ())
                self._before = None

    def after_fork(self) -> None:
        """Forget holders that a child process does not have.

        The limit stays until its next holder is out, as a library that was just forked is better not called.
        """
        self._lock = Lock()
        self._holders = [thread for thread in self._holders if thread == get_ident()]


_blas_limit = _BlasLimit()
after_fork(_blas_limit.after_fork)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread: a product split over threads gives other bits than one that is not.

    Runs side by side in threads of one process, and holds within holds, share the limit until the last of them ends.
    """
    own, shared = _own_and_shared()
    thread = get_ident()
    before = _set_threads(own, repeat(1))
    _blas_limit.hold(thread, shared)
    try:
        yield
    finally:
        _blas_limit.release(thread, shared)
        _set_threads(own, before)
