"""Kill a run at any instant, resume it, and compare what comes out: a harness for any workload that writes a run.

A workload is a function ``work(path)`` that creates the run if there is none, else resumes it, and takes it to its end.
Children are forked from the warm parent before it has any thread, so that a trial costs its work and not its imports.
"""

from __future__ import annotations

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
from functools import lru_cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Work = Callable[[Path], None]
Contents = dict[str, tuple[Any, ...]]


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


def kill_and_compare(
    work: Work,
    folder: Path,
    *,
    n_kills: int,
    seed: int = 0,
    n_lives: int = 2,
    check: Callable[[Path], object] = lambda path: None,
    n_states: int = 1,
) -> int:
    """Kill a workload at random instants, up to `n_lives - 1` times per run; compare every end.

    How long the work takes depends on what else the machine does, so the range of the instants follows what is seen: a
    kill that came too late shortens it, one in time makes it longer. It goes on until `n_kills` came in time, and in
    `n_states` different states of the run.

    Parameters
    ----------
    work : callable
    folder : path
        An empty folder; holds ``whole.h5``, the uninterrupted run, and one run at a time beside it.
    check : callable
        Called with the run's path after every kill; returns in which state that left it, for instance how many blocks.

    Returns
    -------
    int
        How many of the kills came before the work was done: `n_kills` or a few more.
    """
    chance, whole, path = random.Random(seed), folder / "whole.h5", folder / "killed.h5"
    started = time.monotonic()
    assert run_child(lambda: work(whole)) == 0
    longest = 1.1 * (time.monotonic() - started)
    n_hits, done, states = 0, 0, set()
    while n_hits < n_kills or len(states) < n_states:
        told = f"{n_hits} of {done} kills came in time, in {len(states)} states; the last range was {longest:.4f} s"
        assert done < max(50 * n_kills, 500), told
        remove_run(path)
        for _ in range(n_lives - 1):
            hit = kill_after(work, path, chance.uniform(0, longest))
            longest *= 1.1 if hit else 0.8
            n_hits, done = n_hits + hit, done + 1
            states.add(check(path))
        assert run_child(lambda: work(path)) == 0
        assert_same_run(whole, path)
    return n_hits


def remove_run(path: Path) -> None:
    """Remove a run, merged or in parts."""
    path.unlink(missing_ok=True)
    shutil.rmtree(path.with_name(path.name + ".parts"), ignore_errors=True)


def assert_same_run(first: Path, second: Path) -> None:
    """Compare two merged runs: every dataset's name, dtype, shape and bytes, and every attribute outside /meta."""
    about = os.stat(first)
    kept = _contents_kept(Path(first), about.st_ino, about.st_mtime_ns, about.st_size)
    assert_same_contents(kept, contents_of(second))


@lru_cache(maxsize=2)
def _contents_kept(path: Path, *about: int) -> Contents:
    """Read a run that is compared with many."""
    return contents_of(path)


def contents_of(path: Path) -> Contents:
    """All that a merged run holds outside /meta: layout, bytes and attributes, by name."""
    with h5py.File(path, "r") as file:
        names = ["/"]
        file.visit(names.append)
        return {
            name: (*_attributes(file[name]), *_dataset(file[name])) for name in names if name.split("/")[0] != "meta"
        }


def assert_same_contents(first: Contents, second: Contents) -> None:
    """Compare what two merged runs hold."""
    assert sorted(first) == sorted(second)
    for name in first:
        assert first[name] == second[name], name


def _attributes(item: Any) -> list[tuple[Any, ...]]:
    arrays = {key: np.asarray(item.attrs[key]) for key in sorted(item.attrs)}
    return [(key, array.dtype.str, array.shape, _named(item.file, array.tolist())) for key, array in arrays.items()]


def _named(file: h5py.File, value: Any) -> Any:
    """Return a value in which references, which are places in a file, are the names that they lead to."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_named(file, one) for one in value]
    return file[value].name if isinstance(value, h5py.Reference) else value


def _dataset(item: Any) -> list[Any]:
    """Dtype, shape, layout and bytes."""
    if not isinstance(item, h5py.Dataset):
        return []
    array = np.asarray(item[()])
    whole = array.tolist() if array.dtype.kind == "O" else array.tobytes()
    dtype = array.dtype.descr if array.dtype.names else array.dtype.str
    return [dtype, item.shape, item.maxshape, item.chunks, item.compression, item.fletcher32, whole]
