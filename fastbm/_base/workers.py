"""Pieces of one job, done by the workers of any `concurrent.futures.Executor` and taken in their order.

What all pieces share (a machine, the spec of a run) travels with the first piece that a worker gets and stays there;
every other piece is a name and a number.

With what they share go the versions that bits depend on: a worker that has others refuses, unless the executor's
`exact` is False. A worker that leaves says so, and its piece goes to another.
"""

from __future__ import annotations

import os
import pickle
import platform
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, TimeoutError as NotYet
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hashlib import blake2b
from threading import Lock
from typing import Any

from . import share
from .checks import Interrupted
from .halting import Halt, never, stop_if_asked
from .versions import PINNED_PACKAGES, differences, pinned

CHECK_SECONDS = 0.05  # between two looks for a stop while others do the work
A_WORKER = 2  # pieces that wait for each worker
MOST_LEFT = 3  # times that one piece is left by workers that leave
MOST_KNOWN = 4  # jobs whose shared part a worker keeps

_known: OrderedDict[bytes, Any] = OrderedDict()
_lock = Lock()
_leaving: list[Callable[[], AbstractContextManager[None]]] = [nullcontext]


class Unknown:
    """What a worker returns for a piece of a job whose shared part it does not have."""


class Left:
    """What a worker returns for a piece in whose middle it was asked to leave."""


def leaving() -> AbstractContextManager[None]:
    """Return a context in which a piece, pure and not yet done, is broken off where its worker is to stop or leave."""
    return _leaving[-1]()


def leave_by(context: Callable[[], AbstractContextManager[None]]) -> None:
    """Let `context`, which raises Interrupted, be what `leaving` returns in this process."""
    _leaving[:] = [context]


def check_executor(executor: Any) -> None:
    """Refuse what is no executor."""
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(f"executor must be a concurrent.futures.Executor; got {type(executor).__name__}.")


def n_workers(executor: Executor) -> int:
    """Return how many workers an executor has, as far as it says: only how many pieces wait depends on it."""
    for name in ("_max_workers", "num_workers"):  # pools of threads and processes, loky; mpi4py
        if isinstance(number := getattr(executor, name, None), int) and number > 0:
            return number
    client = getattr(executor, "_client", None)  # Dask
    if client is not None:
        return max(1, len(client.scheduler_info(n_workers=-1)["workers"]))
    return os.cpu_count() or 1


@contextmanager
def before_anything() -> Iterator[None]:
    """Tell in one line of an executor that breaks before there is a run that could go on."""
    try:
        yield
    except BrokenExecutor as error:
        raise Interrupted(
            f"stopped, as the executor does no more ({error}), before anything was begun. Its workers may have had too "
            "little memory."
        ) from None


class Pieces:
    """The results of ``function(shared, k)`` for k from `first` to `n_pieces` - 1, in this order.

    Parameters
    ----------
    executor : Executor
    function : callable
        Of a module, so that its name can be sent; it depends on nothing but its arguments.
    shared
        Can be pickled; workers must not change it.
    n_pieces, first : int
    """

    def __init__(
        self, executor: Executor, function: Callable[[Any, int], Any], shared: Any, n_pieces: int, first: int = 0
    ) -> None:
        self._executor, self._function, self._n_pieces = executor, function, n_pieces
        self._packed = pickle.dumps(shared, protocol=pickle.HIGHEST_PROTOCOL)
        self._name = blake2b(self._packed, digest_size=16).digest()
        self._versions = pinned() if getattr(executor, "exact", True) else ()
        self._n_workers = n_workers(executor)
        self._n_with = 0  # pieces that were sent with what they share
        self._n_left = 0  # times that the piece which is taken next was left
        self._next = first  # the piece that is taken next
        self._waiting: deque[Future[Any]] = deque()

    def take(self, halt: Halt = never) -> Any:
        """Return the next result; raises `Halted` where a stop is asked for, what `function` raises, BrokenExecutor.

        ImportError where workers have no fastbm, ValueError where they have other versions.
        """
        try:
            while True:
                self._fill()
                found = self._awaited(halt)
                if not isinstance(found, (Unknown, Left)):
                    self._waiting.popleft()
                    self._next, self._n_left = self._next + 1, 0
                    return found
                self._n_left += isinstance(found, Left)
                if self._n_left == MOST_LEFT:
                    raise BrokenExecutor(f"{MOST_LEFT} workers left in the middle of one piece")
                self._waiting[0] = self._send(self._next, True)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Leave no piece waiting; what is being done is done in vain. `take` goes on after the last that was taken."""
        for future in self._waiting:
            future.cancel()
        self._waiting.clear()

    def _fill(self) -> None:
        """Keep pieces waiting for every worker; pieces sent to workers that lack the shared part are sent again."""
        for place, future in enumerate(self._waiting):
            came = place and future.done() and not future.cancelled() and future.exception() is None
            if came and isinstance(future.result(), Unknown):
                self._waiting[place] = self._send(self._next + place, True)
        most = min(A_WORKER * self._n_workers, self._n_pieces - self._next)
        while len(self._waiting) < most:
            self._waiting.append(self._send(self._next + len(self._waiting), self._n_with < self._n_workers))

    def _send(self, k: int, with_shared: bool) -> Future[Any]:
        self._n_with += with_shared
        shared = (self._versions, self._packed) if with_shared else (None, None)
        try:
            return self._executor.submit(do_piece, self._name, self._function, k, *shared)
        except RuntimeError as error:
            if isinstance(error, BrokenExecutor):
                raise
            raise BrokenExecutor(str(error)) from None  # it was shut down

    def _awaited(self, halt: Halt) -> Any:
        while True:
            stop_if_asked(halt)
            try:
                return self._waiting[0].result(timeout=CHECK_SECONDS)
            except NotYet:
                if self._waiting[0].done():  # it is the piece that raised it
                    raise
                self._fill()
            except CancelledError:  # by the executor, whose workers or connection are gone
                raise BrokenExecutor("its pieces were cancelled") from None
            except ModuleNotFoundError as error:
                if (error.name or "").split(".")[0] != "fastbm":
                    raise
                raise ImportError("a worker of the executor lacks fastbm. Install it there as it is here.") from None
            except Exception as error:
                if type(error).__name__ == "KilledWorker":  # Dask's
                    raise BrokenExecutor("Dask gave a piece up, whose workers died") from None
                raise


def do_piece(
    name: bytes, function: Callable[[Any, int], Any], k: int, versions: tuple[str, ...] | None, packed: bytes | None
) -> Any:
    """Do one piece where it has been sent to."""
    with _lock:
        if name in _known:
            _known.move_to_end(name)
        elif packed is None:
            return Unknown()
        else:
            check_versions(versions or ())
            _known[name] = pickle.loads(packed)  # noqa: S301 (executors pickle what is sent in any case)
            while len(_known) > MOST_KNOWN:
                _known.popitem(last=False)
        shared = _known[name]
    with share.working():
        try:
            return function(shared, k)
        except Interrupted:  # which Dask would take for the end of the worker
            return Left()


def check_versions(there: tuple[str, ...]) -> None:
    """Refuse, in a worker, work from where the versions that bits depend on are others."""
    if other := differences(dict(zip(PINNED_PACKAGES, there, strict=False)), "where the work comes from"):
        raise ValueError(f"the worker {platform.node()} would give other bits: {'; '.join(other)}.")
