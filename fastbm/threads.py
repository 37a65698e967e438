"""Fan-out over threads: compiled kernels release the interpreter lock, so blocks of chains run side by side.

A block belongs to its own streams and rows, so results do not depend on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from . import _checks

T = TypeVar("T")
R = TypeVar("R")

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)


def available() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resolve(threads: int | None) -> int:
    """Check a number of threads; None stands for all that are available."""
    return available() if threads is None else _checks.whole("threads", threads, least=1)


def fan_out(function: Callable[[T], R], items: Iterable[T], threads: int) -> list[R]:
    """Apply `function` to every item on up to `threads` threads; results in the order of the items."""
    work: Sequence[T] = list(items)
    if threads == 1 or len(work) < 2:
        return [function(item) for item in work]
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="fastbm")
    return list(_pools[threads].map(function, work))


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (SciPy's BLAS must be loaded before the controller looks for libraries)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def single_threaded_blas() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread: a product split over threads gives other bits than one that is not."""
    return _controller().limit(limits=1, user_api="blas")
