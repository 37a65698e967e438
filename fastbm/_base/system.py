"""What systems other than Unix lack, locks and forks (sampling in memory does without, files do not); and garbage."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from threading import Lock
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:
    fcntl = None


def after_fork(function: Callable[[], object]) -> None:
    """Have every forked child call a function first, where there are forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


class _Keeping:
    """Keeps Python from looking for garbage while much is made that stays, which takes a tenth to a fifth of the time.

    It knows how many are at it, in whatever threads, and whether Python is to look again after the last of them.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """After a fork no other thread is left that is at it."""
        if getattr(self, "_wanted", False):
            gc.enable()
        self._lock, self._depth, self._wanted = Lock(), 0, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                self._wanted = gc.isenabled()
                gc.disable()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth and self._wanted:
                self._wanted = False
                if not gc.get_freeze_count():  # what stays is old at once, and no longer gone through as if it were new
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


keeping = _Keeping()
after_fork(keeping.forget)
