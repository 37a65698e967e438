"""Command lines in children that are stopped by signals once they have committed something."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import fastbm as bm

DEADLINE = 240.0  # seconds; a child may compile for long on a busy machine
BLOCK_SECONDS = 0.1

MAIN = "from fastbm.cli import main; main()"
# One row a block, and a wait after each, so that there is time for a signal before the end on any machine.
SLOW = f"""
import time
from fastbm.report import tables
from fastbm.runs.sample import pace
pace.BLOCK_SECONDS = 1e-9
tables.Bar.__call__ = lambda self, task, rows: time.sleep({BLOCK_SECONDS})
"""

Child = subprocess.Popen[str]


def start(*words: object, before: str = SLOW, code: str = MAIN) -> Child:
    """Begin a command line in a child, after some lines of Python."""
    command = [sys.executable, "-c", before + code, *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition: Callable[[], bool], child: Child) -> None:
    """Wait for something that a child does; it must not end before."""
    end = time.monotonic() + DEADLINE
    while not condition():
        ended = child.poll() is not None
        if ended or time.monotonic() > end:
            child.kill()
            told, errors = child.communicate()
            raise AssertionError(f"the child {'ended' if ended else 'took too long'}: {told} {errors}")
        time.sleep(0.02)


def n_blocks(path: str | Path) -> int:
    """How many blocks of a run are committed; -1 where there is no run yet."""
    try:
        return bm.open(path)._reader.n_blocks
    except bm.StorageError:
        return -1


def wait_for_blocks(path: str | Path, more_than: int, child: Child) -> None:
    wait_until(lambda: n_blocks(path) > more_than, child)


def stop(child: Child, number: int) -> tuple[int, str]:
    """Send a signal; return the exit code and all that was printed."""
    child.send_signal(number)
    told, errors = child.communicate(timeout=DEADLINE)
    return child.returncode, told + errors


def assert_told(told: str, number: int, way_on: str) -> None:
    """The stop is told, with the way on, in one line and without a trace."""
    assert "Traceback" not in told and "ignored" not in told, told
    line = [line for line in told.splitlines() if line.startswith("fastbm: stopped by")]
    assert len(line) == 1, told
    assert signal.Signals(number).name in line[0] and "nothing is lost" in line[0], told
    assert line[0].endswith(f"Go on with: {way_on}"), told
