"""How far a long computation is: it tells as it goes, and who began it, in the same thread, may listen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str, int, int], None]
SOON = 0.05  # seconds between two tellings, about, of steps that take less


class _Here(threading.local):
    listener: Listener | None = None


_here = _Here()


def tell(step: str, done: int, total: int) -> None:
    """Say that `done` of `total` steps of a name are done; next to nothing where nobody listens."""
    if _here.listener is not None:
        _here.listener(step, done, total)


@contextmanager
def heard(listener: Listener | None) -> Iterator[None]:
    """Pass on what is told meanwhile in this thread."""
    before, _here.listener = _here.listener, listener
    try:
        yield
    finally:
        _here.listener = before
