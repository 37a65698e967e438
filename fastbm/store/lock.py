"""The lock that one writer holds on a run for its whole life."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress

from .._checks import StorageError
from .acquiring import acquire
from .holder import myself
from .names import Names

_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """An exclusive flock on ``run.h5.parts/lock``; the system drops it when the process ends, however it ends.

    Attributes
    ----------
    lacks : str
        Why the file system has no such locks, where the lock is one by name; else empty.
    """

    def __init__(self, names: Names) -> None:
        self._names = names
        self._handle, self.lacks = acquire(names)
        text = myself().text.encode()
        try:
            os.pwrite(self._handle, text, 0)  # before what was longer is cut: readers never see an empty text
            os.truncate(self._handle, len(text))
        except OSError as error:
            self._let_go()
            raise StorageError(
                f"{(error.strerror or str(error)).lower()} in {names.merged.parent}, for the lock of {names.shown}. "
                "Nothing was changed. See to that first."
            ) from error
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still holds the lock; a forked child does not."""
        return self._handle >= 0

    def release(self) -> None:
        """Let others write, and take back the text that names this process."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            with suppress(OSError):
                os.truncate(handle, 0)
            os.close(handle)

    def _let_go(self) -> None:
        """Close the file in a forked child; the lock and its text are the parent's."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def _drop_in_child() -> None:
    # A child that kept the descriptor would keep the lock after its parent's death.
    for lock in list(_held):
        lock._let_go()


os.register_at_fork(after_in_child=_drop_in_child)
