"""How long computations are broken off: they ask now and then whether a stop is wanted, and raise `Halted` if so."""

from __future__ import annotations

from collections.abc import Callable

Halt = Callable[[], bool]


class Halted(Exception):
    """A computation was broken off because a stop was asked for; what it had begun to change must be restored."""


def never() -> bool:
    """No stop is asked for."""
    return False


def stop_if_asked(halt: Halt) -> None:
    """Raise `Halted` if a stop is wanted."""
    if halt():
        raise Halted
