"""Command lines in children that are stopped by signals once they have committed something.

Children are forked from the warm parent: no interpreter is started and nothing is imported again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

import fastbm as bm
from fastbm.runs.stop import SIGNALS
from tests.support import crash, machines

DEADLINE = 240.0  # seconds; a child may compile for long on a busy machine
BLOCK_SECONDS = 0.1

MAIN = "from fastbm.cli import main; main()"
# One row a block, and a wait after each, so that there is time for a signal before the end on any machine.
SLOW = f"""
import time
from contextlib import nullcontext
from fastbm.runs import begin
from fastbm.runs.sample import pace
pace.BLOCK_SECONDS = 1e-9
begin.drawing = lambda progress, task: nullcontext(lambda task, rows: time.sleep({BLOCK_SECONDS}))
"""

QUIET = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # of a new interpreter


class Child:
    """What `subprocess.Popen` is of ``python -c code words``, as far as tests need it."""

    def __init__(self, words: list[str], code: str) -> None:
        self._printed = [tempfile.TemporaryFile("w+") for _ in range(2)]  # noqa: SIM115 (closed by __exit__)
        self.returncode: int | None = None
        self._pid = crash.start_child(lambda: _be(words, code, self._printed))

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        if self.poll() is None:
            self.kill()
            self.communicate()
        for file in self._printed:
            file.close()

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = DEADLINE) -> tuple[str, str]:
        """Wait for the end; return what was printed."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end, "the child does not end"
            time.sleep(0.01)
        for file in self._printed:
            file.seek(0)
        told, errors = (file.read() for file in self._printed)
        return told, errors


def _be(words: list[str], code: str, printed: list[IO[str]]) -> NoReturn:
    """Be a new interpreter that runs `code`; its exit code is that of this process."""
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for number, file in enumerate(printed, start=1):
        os.dup2(file.fileno(), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = ["-c", *words]
    warnings.resetwarnings()
    for category in QUIET:
        warnings.simplefilter("ignore", category)
    status = 1
    try:
        exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def start(*words: object, before: str = SLOW, code: str = MAIN) -> Child:
    """Begin a command line in a child, after some lines of Python."""
    machines.close_pools()  # a child that is forked beside a thread may hang
    return Child([*map(str, words)], before + code)


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
