"""Leases, where a file system has no locks: a writer shows that it lives, and one on a host that is gone is taken over.

The writer renews the time of its lock file every `BEAT` seconds. Whoever comes watches that time over `LEASE` seconds
of a clock of its own: no two hosts' clocks are compared. What has not changed is taken over, by a new file in the place
of the old one. A writer that was only asleep finds another's text there before its next file gets its name, and stops;
a file that it had begun is removed by who took over before it writes any of the same name.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

BEAT, LEASE, POLL = 10.0, 60.0, 1.0  # seconds; network file systems may show a time half a minute late

Signs = tuple[bytes, int]


class Heart:
    """A thread that renews the time of an open file."""

    def __init__(self, handle: int) -> None:
        self._handle, self._end = handle, threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True, name="fastbm-heart")
        with suppress(RuntimeError):  # the system starts no more threads: commits alone are to be seen
            self._thread.start()

    def _go_on(self) -> None:
        while not self._end.wait(BEAT):
            with suppress(OSError):
                os.utime(self._handle)

    def stop(self) -> None:
        """Return when the file is left alone."""
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()


def signs(lock: Path) -> Signs | None:
    """Return the text of a lock file and its time; opening it makes network file systems ask the server."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return os.read(handle, 4096), os.fstat(handle).st_mtime_ns
    finally:
        os.close(handle)


def silent(lock: Path, sleep: Callable[[float], object] = time.sleep) -> Signs | None:
    """Watch a lock file; return what it shows where nothing of that changed for `LEASE` seconds, else None."""
    before, started = signs(lock), time.monotonic()
    while before is not None and time.monotonic() - started < LEASE:
        sleep(POLL)
        if signs(lock) != before:
            return None
    return before
