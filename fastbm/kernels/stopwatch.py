"""A clock that tells work from the compiler's: a first call of a kernel may wait for seconds until it is compiled."""

from __future__ import annotations

import time

from .jit import compile_seconds


class Stopwatch:
    """Seconds since it was made.

    Attributes
    ----------
    seconds : float
        Without those in which kernels were compiled or loaded, in whatever thread of this process.
    compile_seconds : float
        Those.
    """

    def __init__(self) -> None:
        self._compiled_before, self._started = compile_seconds(), time.perf_counter()

    @property
    def compile_seconds(self) -> float:
        """Seconds in which kernels were compiled or loaded, since the start."""
        return compile_seconds() - self._compiled_before

    @property
    def seconds(self) -> float:
        """Seconds since the start, without those of compiling."""
        return max(time.perf_counter() - self._started - self.compile_seconds, 0.0)
