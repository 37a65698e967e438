"""Kill a run at any instant, resume it, and compare what comes out: a harness for any workload that writes a run.

A workload is a function ``work(path)`` that creates the run if there is none, else resumes it, and takes it to its end.
Children are forked from the warm parent before it has any thread, so that a trial costs its work and not its imports.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fastbm.store import files

Work = Callable[[Path], None]
OnOperation = Callable[[int, str, tuple[Any, ...]], None]


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Make a folder in memory where that is possible: a kill loses no page of either, and syncing a disk takes long."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def start_child(act: Callable[[], None]) -> int:
    """Fork a child that does `act` and ends, with status 1 after an exception; return its id."""
    assert threading.active_count() == 1, "a child forked beside a thread may hang"
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        act()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def ended(child: int) -> int:
    """Wait for a child; return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_child(act: Callable[[], None]) -> int:
    """Do `act` in a child; return its exit code, or minus the signal that ended it."""
    return ended(start_child(act))


def kill_after(work: Work, path: Path, seconds: float) -> bool:
    """Do `work` in a child and kill it after a time; return whether it was still at work."""
    child = start_child(lambda: work(path))
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    code = ended(child)
    assert code in (0, -signal.SIGKILL), f"the child failed by itself: exit code {code}"
    return code != 0


def seconds_of(work: Work, path: Path) -> float:
    """Do `work` to its end in a child and return what it took."""
    started = time.perf_counter()
    assert run_child(lambda: work(path)) == 0
    return time.perf_counter() - started


def kill_and_compare(
    work: Work,
    folder: Path,
    *,
    n_kills: int,
    seed: int = 0,
    n_lives: int = 2,
    least_hits: int = 1,
    check: Callable[[Path], None] | None = None,
) -> int:
    """Kill a workload `n_kills` times at random instants, up to `n_lives - 1` times per run; compare every end.

    Parameters
    ----------
    work : callable
    folder : path
        An empty folder; holds ``whole.h5``, the uninterrupted run, and one run at a time beside it.
    least_hits : int
        Go on, to six times as many kills, until so many came before the work was done.
    check : callable, optional
        Called with the run's path after every kill.

    Returns
    -------
    int
        How many of the kills came before the work was done.
    """
    chance, whole, path = random.Random(seed), folder / "whole.h5", folder / "killed.h5"
    work_seconds = seconds_of(work, whole)
    n_hits = done = 0
    while done < n_kills or (n_hits < least_hits and done < 6 * n_kills):  # short work may be done before it is killed
        remove_run(path)
        for _ in range(n_lives - 1):
            n_hits += kill_after(work, path, chance.uniform(0, 1.1 * work_seconds))
            done += 1
            if check is not None:
                check(path)
        assert run_child(lambda: work(path)) == 0
        assert_same_run(whole, path)
    return n_hits


@contextmanager
def watching(on_operation: OnOperation) -> Iterator[list[str]]:
    """Call ``on_operation(number, name, arguments)`` before every file operation; yield the list of names so far."""
    originals = {name: getattr(files, name) for name in files.OPERATIONS}
    seen: list[str] = []

    def wrapped(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any) -> Any:
            seen.append(name)
            on_operation(len(seen) - 1, name, arguments)
            return originals[name](*arguments)

        return operation

    for name in originals:
        setattr(files, name, wrapped(name))
    try:
        yield seen
    finally:
        for name, original in originals.items():
            setattr(files, name, original)


def operations_of(act: Callable[[], None]) -> list[str]:
    """Do `act` here and return the names of its file operations in order."""
    with watching(lambda number, name, arguments: None) as seen:
        act()
    return seen


def instants(operations: list[str], *, every: bool) -> list[int]:
    """Return the numbers of all operations, or without most of the inner ones of long rows of writes."""
    inner = [set(operations[max(0, k - 1) : k + 2]) == {"write"} for k in range(len(operations))]
    return [k for k in range(len(operations)) if every or not inner[k] or k % 20 == 0]


def kill_at(act: Callable[[], None], number: int, *, torn: bool = False) -> int:
    """Do `act` in a child that kills itself before file operation `number`; with `torn`, in the middle of a write."""

    def on_operation(at: int, name: str, arguments: tuple[Any, ...]) -> None:
        if at != number:
            return
        if torn and name == "write":
            handle, data, offset = arguments
            os.pwrite(handle, data[: len(data) // 2], offset)
        os.kill(os.getpid(), signal.SIGKILL)

    def child() -> None:
        with watching(on_operation):
            act()

    return run_child(child)


@contextmanager
def failing(number: int, code: int, *, for_good: bool = False) -> Iterator[None]:
    """Let file operation `number` fail with an errno; with `for_good`, all that write after it too."""
    writing = ("make_folder", "create", "write", "sync")

    def on_operation(at: int, name: str, arguments: tuple[Any, ...]) -> None:
        if at == number or (for_good and at > number and name in writing):
            raise OSError(code, errno.errorcode[code])

    with watching(on_operation):
        yield


def remove_run(path: Path) -> None:
    """Remove a run, merged or in parts."""
    path.unlink(missing_ok=True)
    shutil.rmtree(path.with_name(path.name + ".parts"), ignore_errors=True)


def assert_same_run(first: Path, second: Path) -> None:
    """Compare two merged runs: every dataset's name, dtype, shape and bytes, and every attribute outside /meta."""
    with h5py.File(first, "r") as a, h5py.File(second, "r") as b:
        names = items(a)
        assert names == items(b)
        for name in names:
            assert_same_attributes(name, a[name], b[name])
            if isinstance(a[name], h5py.Dataset):
                assert_same_dataset(name, a[name], b[name])


def items(file: h5py.File) -> list[str]:
    """The root and every group and dataset outside /meta, sorted."""
    names = ["/"]
    file.visit(names.append)
    return sorted(name for name in names if name.split("/")[0] != "meta")


def assert_same_attributes(name: str, a: Any, b: Any) -> None:
    """Compare names, dtypes and values of attributes."""
    assert sorted(a.attrs) == sorted(b.attrs), name
    for key in a.attrs:
        one, other = np.asarray(a.attrs[key]), np.asarray(b.attrs[key])
        assert one.dtype == other.dtype, (name, key)
        assert np.array_equal(one, other), (name, key)


def assert_same_dataset(name: str, a: h5py.Dataset, b: h5py.Dataset) -> None:
    """Compare dtype, shape, layout and bytes of two datasets."""
    for key in ("dtype", "shape", "maxshape", "chunks", "compression", "fletcher32"):
        assert getattr(a, key) == getattr(b, key), (name, key, getattr(a, key), getattr(b, key))
    one, other = np.asarray(a[()]), np.asarray(b[()])
    if one.dtype.kind == "O":
        assert one.tolist() == other.tolist(), name
    else:
        assert one.tobytes() == other.tobytes(), name
