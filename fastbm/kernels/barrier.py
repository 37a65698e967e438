"""Barriers between threads that run one kernel side by side: none goes on before all have come.

They wait by looking at a counter, as threads that share a mini-batch meet every few microseconds; who waits long gives
its processor away.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .jit import apart_borrowing, cgutils, intrinsic, ir, types

LOOKS = 1 << 12  # at the counter, before a thread gives its processor away


@intrinsic
def arrive(typing: Any, address: Any) -> Any:
    """Add 1 to the int64 at an address; what was written before is seen by who sees the sum."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "seq_cst")
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def _look(typing: Any, address: Any) -> Any:
    """Return the int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load_atomic(place, "seq_cst", 8)

    return types.int64(types.intp), generate


@intrinsic
def _give_way(typing: Any) -> Any:
    """Let other threads have the processor, where the system has a call for it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if sys.platform != "win32":
            kind = ir.FunctionType(ir.IntType(32), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


def let_through(counter: Any) -> None:
    """Open a barrier for good: nobody waits any more, and what threads that shared work have made is worth nothing."""
    counter[:] = 1 << 62


@apart_borrowing
def wait_at(address, n):
    """Wait until threads have arrived `n` times at an address."""
    looks = 0
    while _look(address) < n:
        looks += 1
        if looks > LOOKS:
            _give_way()


@apart_borrowing
def meet(counter, n_met, n_threads):
    """Wait until all threads have come here; return how often they have met, which was `n_met` before.

    Mutates `counter`[0], int64, 0 before the first meeting.
    """
    if n_threads == 1:
        return n_met
    address = np.int64(counter.ctypes.data)
    arrive(address)
    wait_at(address, (n_met + 1) * n_threads)
    return n_met + 1
