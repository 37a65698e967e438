"""The lock that one writer holds on a run for its whole life."""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from contextlib import suppress

from .._checks import StorageError
from . import files
from .holder import myself, read_holder
from .names import Names

_ATTEMPTS, _PAUSE = 10, 0.02
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """An exclusive flock on ``run.h5.parts/lock``; the system drops it when the process ends, however it ends."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._handle = _acquire(names)
        text = myself().text.encode()
        os.pwrite(self._handle, text, 0)  # before what was longer is cut: readers never see an empty text
        os.truncate(self._handle, len(text))
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


def _acquire(names: Names) -> int:
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        try:
            files.make_folder(names.parts)
            handle = os.open(names.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # a writer that finished took the folder away in between
        except OSError as error:
            raise StorageError(f"cannot write in {names.merged.parent}: {error.strerror} ({names.shown}).") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        except OSError as error:
            os.close(handle)
            raise StorageError(
                f"{names.shown}: this file system has no locks (flock: {error.strerror}). Write elsewhere."
            ) from error
        with suppress(OSError):
            # A lock on a file that its finished writer has removed keeps nobody out.
            if os.stat(names.lock).st_ino == os.fstat(handle).st_ino:
                return handle
        os.close(handle)
    holder = read_holder(names.lock) or "another process"
    raise StorageError(f"{names.shown} is being written by {holder}. Stop it or write elsewhere.")


def _drop_in_child() -> None:
    # A child that kept the descriptor would keep the lock after its parent's death.
    for lock in list(_held):
        lock._let_go()


os.register_at_fork(after_in_child=_drop_in_child)
