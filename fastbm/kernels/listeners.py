"""What is heard of the compiler: the time it takes, how much it compiles, and what it could not.

`fastbm.kernels.jit` passes on what the compiler tells.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from .._base.system import after_fork, keeping
from .cache import KernelCache


class _Failures:
    """Lets other processes compile what this one could not."""

    def on_start(self, event: Any) -> None:
        """Nothing: the right to compile was taken when the cache had no code."""

    def on_end(self, event: Any) -> None:
        cache = getattr(event.data["dispatcher"], "_cache", None)
        # `is_failed` says the contrary, and saving gives the right back where all went well
        if getattr(event, "_exc_details", None) is not None and isinstance(cache, KernelCache):
            cache.leave()


class _Collections:
    """Keeps Python from looking for garbage while the compiler makes things that stay.

    It counts what is compiled, Numba's own functions among them.
    """

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: Any) -> None:
        keeping.__enter__()
        self.count += 1

    def on_end(self, event: Any) -> None:
        keeping.__exit__()


class _CompilerClock:
    """Wall time in which any thread is in the compiler; threads side by side count once.

    A thread is there while it compiles, loads what the cache holds, or waits for a thread that does.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self.forget_threads()

    def forget_threads(self) -> None:
        """After a fork no other thread is left that could come out of the compiler."""
        self._lock = threading.Lock()
        self._depths: dict[int, int] = {}  # of threads in the compiler: a kernel's callees are compiled inside of it
        self._since = 0.0

    def on_start(self, event: Any) -> None:
        with self._lock:
            if not self._depths:
                self._since = time.perf_counter()
            thread = threading.get_ident()
            self._depths[thread] = self._depths.get(thread, 0) + 1

    def on_end(self, event: Any) -> None:
        with self._lock:
            thread = threading.get_ident()
            if self._depths.get(thread, 0) > 1:
                self._depths[thread] -= 1
            else:
                self._leave(thread)

    def seconds(self) -> float:
        """Read the clock, from a thread that is not in the compiler."""
        if not self._depths:  # as nearly always: calls of microseconds read it too
            return self._seconds
        with self._lock:
            self._leave(threading.get_ident())  # an interrupt may have thrown it out without a word
            return self._seconds + (time.perf_counter() - self._since if self._depths else 0.0)

    def _leave(self, thread: int) -> None:
        if self._depths.pop(thread, 0) and not self._depths:
            self._seconds += time.perf_counter() - self._since


_clock, _collections = _CompilerClock(), _Collections()
after_fork(_clock.forget_threads)
# kinds of events, and who is told of them
LISTENERS = ("numba:compiler_lock", _clock), ("numba:compile", _Failures()), ("numba:compile", _collections)


def compile_seconds() -> float:
    """Return the seconds that this process has spent so far on compiling kernels and on loading compiled ones."""
    return _clock.seconds()


def n_compiled() -> int:
    """Return how many functions, once for each signature, this process has compiled so far."""
    return _collections.count
