"""The lock that one writer holds on a run for its whole life."""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
import weakref
from contextlib import suppress
from pathlib import Path

from .._checks import StorageError
from . import files
from .names import Names

_ATTEMPTS, _PAUSE = 10, 0.02
_held: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """An exclusive flock on ``run.h5.parts/lock``; the system drops it when the process ends, however it ends."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._handle = _acquire(names)
        os.truncate(self._handle, 0)
        os.pwrite(self._handle, _describe().encode(), 0)
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still holds the lock; a forked child does not."""
        return self._handle >= 0

    def release(self) -> None:
        """Let others write."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock. Writers try for longer than this look takes, so it disturbs none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


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
    raise StorageError(f"{names.shown} is being written by {_holder(names.lock)}. Stop it or write elsewhere.")


def _describe() -> str:
    fields = {"host": socket.gethostname(), "pid": os.getpid(), "boot": _boot(), "start": f"{time.time():.3f}"}
    return "".join(f"{key} {value}\n" for key, value in fields.items())


def _holder(path: Path) -> str:
    try:
        found = dict(re.findall(r"^(\w+) (.*)$", path.read_text(errors="replace"), re.MULTILINE))
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(found["start"])))
        return f"pid {found['pid']} on {found['host']} since {since}"
    except (OSError, KeyError, ValueError):
        return "another process"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def _drop_in_child() -> None:
    # A child that kept the descriptor would keep the lock after its parent's death.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_drop_in_child)
