"""The process that writes a run, by the text of its lock file: no lock is taken, so that no writer is disturbed.

A lock by flock cannot be seen from everywhere: network file systems may keep it to one host, and to try it is to hold
it for an instant. So a writer says in the file who it is, and takes the text back when it leaves. Of one that was
killed the text stays; on the same host the table of processes then tells that it is gone.
"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .names import Names

LONGEST_TEXT = 4096
SILENCE, COMMITS_MISSED = 600.0, 10  # seconds and intervals without a commit after which one on another host is lost
_FIELD = re.compile(r"^(\w+) (.*)\n", re.MULTILINE)


@dataclass(frozen=True)
class Holder:
    """The process that holds a run's lock, or held it when it was killed.

    Attributes
    ----------
    host, pid, start : str, int, float
        Where it runs, and the time of day when it took the lock.
    boot, space, born : str
        The boot of that host, the space its process numbers are of, and the clock tick in which the process began;
        "unknown" where the system does not tell.
    beat, mark : str
        Seconds between two signs of life, and what no other writer's text holds, of a writer without locks.
    """

    host: str
    pid: int
    start: float
    boot: str = "unknown"
    space: str = "unknown"
    born: str = "unknown"
    beat: str = "unknown"
    mark: str = "unknown"

    @property
    def alive(self) -> bool | None:
        """Whether the process is running; None where that cannot be seen from this host."""
        boot, space = _boot(), _space()
        if self.host != socket.gethostname() or (self.boot == boot and _differ(self.space, space)):
            return None
        return self.boot == boot and _is_running(self.pid, self.born)

    @property
    def text(self) -> str:
        """Text of the lock file."""
        fields = {**vars(self), "start": f"{self.start:.3f}"}
        return "".join(f"{name} {value}\n" for name, value in fields.items())

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.start))
        return f"pid {self.pid} on {self.host} since {since}"


def myself() -> Holder:
    """Return the holder that stands for this process."""
    pid = os.getpid()
    return Holder(socket.gethostname(), pid, time.time(), _boot(), _space(), _born(pid))


def read_holder(lock: Path) -> Holder | None:
    """Read which process holds a lock, or held it when it was killed; None where there is none, or no text."""
    try:
        with open(lock, "rb", buffering=0) as file:
            text = file.read(LONGEST_TEXT).decode(errors="replace")
    except OSError:
        return None
    found: dict[str, str] = {}
    for name, value in _FIELD.findall(text):
        found.setdefault(name, value)  # of a longer text before it the end may still be there
    try:
        extra = {name: found[name] for name in ("boot", "space", "born", "beat", "mark") if name in found}
        return Holder(found["host"], int(found["pid"]), float(found["start"]), **extra)
    except (KeyError, ValueError):
        return None


def is_live(names: Names, commit_seconds: float = 60.0) -> bool:
    """Return whether a process writes the run; one on another host is taken to do so while commits come."""
    holder = read_holder(names.lock)
    if holder is None:
        return False
    if (alive := holder.alive) is not None:
        return alive
    return silent_for(names) < max(SILENCE, COMMITS_MISSED * commit_seconds)


def silent_for(names: Names) -> float:
    """Return the seconds since the last commit: each makes an entry in the folder."""
    try:
        return max(0.0, time.time() - os.stat(names.parts).st_mtime)
    except OSError:
        return float("inf")


def _is_running(pid: int, born: str) -> bool:
    """Return whether a process of that birth is running; one that has ended and is not yet reaped is not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is another user's
    found = _stat(pid)
    return found is None or (found[0] not in "ZX" and born in ("unknown", found[1]))


def _stat(pid: int) -> tuple[str, str] | None:
    """Return state and clock tick of birth of a process, where the system has them."""
    try:
        # The name of the program stands in brackets and may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
        return fields[0], fields[19]
    except (OSError, IndexError):
        return None


def _differ(one: str, other: str) -> bool:
    return "unknown" not in (one, other) and one != other


@cache
def _born(pid: int) -> str:
    """Return the clock tick in which this process was born, of its number: a forked one has another."""
    found = _stat(pid)
    return found[1] if found else "unknown"


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


@cache
def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown"
