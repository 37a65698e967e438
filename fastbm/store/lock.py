"""The lock that one writer holds on a run for its whole life: by flock, or by its name where flock is missing.

A lock by name is the text of the lock file, which names a process: it holds while that process lives, and a process on
another host is believed to live while it shows signs of life (`lease.py`). Whoever would write the text first creates
``taking``, which only one can, and removes it when the text stands.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
import weakref
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from .._base.checks import StorageError, TakenRun
from .._base.system import after_fork, fcntl
from . import disk, lease
from .holder import myself, read_holder
from .names import Names

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
TAKING = "lock.taking"
_ATTEMPTS, _PAUSE = 10, 0.02


def acquire(names: Names) -> tuple[int, str]:
    """Return the open lock file, and why its lock is one by name, if it is."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        handle = _open(names)
        if handle < 0:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        except OSError as error:
            os.close(handle)
            if error.errno not in NO_LOCKS:
                raise cannot_write(names, error) from error
            handle = _take_by_name(names)
            if handle >= 0:
                return handle, str(error.strerror)
            continue
        with suppress(OSError):
            # A lock on a file that its finished writer has removed keeps nobody out.
            if os.stat(names.lock).st_ino == os.fstat(handle).st_ino:
                return handle, ""
        os.close(handle)
    raise busy(names)


def cannot_write(names: Names, error: OSError, folder: Path | None = None) -> StorageError:
    """Return the error for a folder that takes no files."""
    where = folder or names.merged.parent
    return StorageError(
        f"cannot write {names.shown}: {error.strerror or error} (in {where}). Nothing was changed. Write elsewhere."
    )


def _open(names: Names) -> int:
    """Return the lock file, opened, or -1 where a writer that finished took the folder away in between."""
    if names.parts.is_symlink():  # what it leads to may be the parts of another run
        raise StorageError(
            f"{names.shown}.parts is a link to {os.readlink(names.parts)}. Nothing was changed. "
            f"Put the folder itself in its place or write elsewhere."
        )
    try:
        disk.make_folder(names.parts)
    except FileExistsError as error:
        if os.path.lexists(names.parts):
            raise StorageError(
                f"{names.shown}.parts is not a folder. Nothing was changed. Move it away or write elsewhere."
            ) from error
        return -1
    except OSError as error:
        raise cannot_write(names, error) from error
    try:
        handle = os.open(names.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except FileNotFoundError:
        return -1
    except OSError as error:
        raise cannot_write(names, error) from error
    found = os.fstat(handle)
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1 and _is_ours(handle):
        return handle
    os.close(handle)
    if found.st_nlink > 1:  # it is written in place, and so would be the other
        raise StorageError(
            f"{names.shown}.parts/lock is a hard link, as `cp -al` makes them. Nothing was changed. "
            f"If no process writes the run, remove that file and try again."
        )
    raise StorageError(
        f"{names.shown}.parts/lock is not a lock of fastbm. Nothing was changed. Move it away or write elsewhere."
    )


def _is_ours(handle: int) -> bool:
    """Return whether a file is empty or holds a writer's text; after a power cut, zeros may be left of that."""
    head = os.pread(handle, 5, 0)
    return not any(head) or head == b"host "


def _take_by_name(names: Names) -> int:
    """Return the lock file with this process's name in it, or -1 where the folder was taken away in between."""
    taking = names.lock.with_name(TAKING)
    holder, silent = read_holder(names.lock), None
    if holder is not None and holder.alive is None and holder.beat != "unknown":
        silent = lease.silent(names.lock)
    try:
        if not _create(names, taking):
            return -1
        try:
            return _take_named(names, silent)
        finally:
            os.unlink(taking)
    except StorageError:
        raise
    except OSError as error:
        raise cannot_write(names, error) from error


def _take_named(names: Names, silent: lease.Signs | None) -> int:
    if silent is not None and lease.signs(names.lock) == silent:
        disk.unlink(names.lock)  # the writer that slept keeps a file that nobody looks at
    handle = _open(names)
    try:
        holder = read_holder(names.lock)
        if holder is not None and holder.alive is not False:
            hint = "" if holder.alive else f" If that process is gone, remove {names.shown}.parts/lock."
            raise TakenRun(f"{busy(names)}{hint}")
        text = myself().text.encode()
        os.pwrite(handle, text, 0)
        os.truncate(handle, len(text))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _create(names: Names, taking: Path) -> bool:
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_PAUSE)
        try:
            os.close(os.open(taking, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            return True
        except FileExistsError:
            continue
        except FileNotFoundError:
            return False
    raise StorageError(
        f"{names.shown} is being taken by another process, or one was killed at just that. "
        f"If there is none, remove {names.shown}.parts/{TAKING}."
    )


def busy(names: Names) -> TakenRun:
    """Return the error for a run that another process is writing."""
    holder = read_holder(names.lock) or "another process"
    return TakenRun(f"{names.shown} is being written by {holder}. Stop it or write elsewhere.")


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
        self._heart: lease.Heart | None = None
        me = myself()
        if self.lacks:
            me = replace(me, beat=f"{lease.BEAT:g}", mark=secrets.token_hex(8))
            names.fence = self._check
        self._text = text = me.text.encode()
        try:
            os.pwrite(self._handle, text, 0)  # before what was longer is cut: readers never see an empty text
            os.truncate(self._handle, len(text))
        except OSError as error:
            with suppress(OSError):
                if not names.segment_numbers():
                    disk.unlink(names.lock)
            self._let_go()
            raise StorageError(
                f"{(error.strerror or str(error)).lower()} in {names.merged.parent}, for the lock of {names.shown}. "
                "Nothing was changed. See to that first."
            ) from error
        if self.lacks:
            self._heart = lease.Heart(self._handle)
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this process still holds the lock; a forked child does not."""
        return self._handle >= 0

    def release(self) -> None:
        """Release the lock, and remove the text that names this process."""
        handle, self._handle = self._handle, -1
        if self._heart is not None:
            self._heart.stop()
        if handle >= 0:
            with suppress(OSError):
                os.truncate(handle, 0)
            os.close(handle)

    def _check(self) -> None:
        """Refuse to go on where another writer has taken the run over."""
        found = lease.signs(self._names.lock)
        if found is not None and found[0] == self._text:
            return
        other = read_holder(self._names.lock) or "another process"
        raise StorageError(
            f"{self._names.shown} was taken over by {other}, as this process gave no sign of life for "
            f"{lease.LEASE:g} s. What was committed before is safe; this process stops."
        )

    def _let_go(self) -> None:
        """Close the file in a forked child; the lock and its text are the parent's."""
        handle, self._handle = self._handle, -1
        self._heart = None  # its thread is the parent's
        if handle >= 0:
            os.close(handle)


def _drop_in_child() -> None:
    # A child that kept the descriptor would keep the lock after its parent's death.
    for lock in list(_held):
        lock._let_go()


after_fork(_drop_in_child)
