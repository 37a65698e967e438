"""How long ago this process began, as a batch system counts: its start-up is older than the first line of Python."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

PROC_STAT = Path("/proc/self/stat")
START_TICKS = 19  # of the fields after the command's name, the time of the start since boot
SECONDS_OF = (1, 60, 3600, 86400)


def process_age() -> float:
    """Return the seconds since this process was started; where the system does not tell, those it has computed for."""
    for ask in (_of_linux, _of_ps):
        try:
            age = ask()
        except (OSError, ValueError, IndexError, AttributeError, subprocess.SubprocessError):
            continue
        if age >= 0.0:
            return age
    return time.process_time()


def _of_linux() -> float:
    fields = PROC_STAT.read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[START_TICKS]) / os.sysconf("SC_CLK_TCK")


def _of_ps() -> float:
    command = ["ps", "-o", "etime=", "-p", str(os.getpid())]
    return elapsed(subprocess.run(command, capture_output=True, text=True, check=True, timeout=5.0).stdout)


def elapsed(text: str) -> float:
    """Read a time as `ps` prints it, [[days-]hours:]minutes:seconds."""
    parts = text.strip().replace("-", ":").split(":")
    return float(sum(int(part) * seconds for part, seconds in zip(reversed(parts), SECONDS_OF, strict=False)))
