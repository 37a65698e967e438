"""The processors that are this process's share, and whether it, or this thread of it, is a worker of somebody's pool.

A worker is one of several that share a machine, so that it computes on one thread unless told. Who is one is known by

- what `fastbm.workers` prepared: processes of its pools, Dask workers with its plugin,
- a piece of fastbm's own that it does, whatever the executor,
- where it comes from: a child of `multiprocessing` (pools of processes, loky, Dask's workers), a rank above 0 of MPI.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import local

CGROUP, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
ASKED_OF_SLURM = "SLURM_CPUS_PER_TASK"

_granted = (-math.inf, (Path(), Path()), math.inf)  # when they were asked, which, and what they granted
_process = {"worker": False}
_thread = local()


def processors() -> int:
    """Return how many processors this process may use: of its affinity, its control group, its task of SLURM."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get(ASKED_OF_SLURM, "")
    of_slurm = int(asked) if asked.isdecimal() and int(asked) > 0 else there
    return max(1, math.ceil(min(there, of_slurm, quota())))


def quota() -> float:
    """Return the processors that the control groups of this process grant; infinite where they do not say.

    They are asked once a second at most: it takes twice as long as a sum over the states of ten units.
    """
    global _granted
    now, of, (asked, before, found) = time.monotonic(), (CGROUP, OWN_CGROUP), _granted
    if of != before or now - asked >= 1.0:
        found = _quota()
        _granted = now, of, found
    return found


def _quota() -> float:
    found = math.inf
    with suppress(OSError):
        for line in OWN_CGROUP.read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if not kinds:
                found = min([found, *map(_of_v2, _up(CGROUP, path))])
            elif "cpu" in kinds.split(","):
                root = next((CGROUP / name for name in (kinds, "cpu") if (CGROUP / name).is_dir()), CGROUP)
                found = min([found, *map(_of_v1, _up(root, path))])
    return found


def _up(root: Path, path: str) -> Iterator[Path]:
    """Return the folder of a group and of those above it; in a container only the uppermost may be there."""
    folder = root / path.strip("/")
    yield folder
    while folder != root and root in folder.parents:
        folder = folder.parent
        yield folder


def _of_v2(folder: Path) -> float:
    with suppress(OSError, ValueError):
        granted, period = (folder / "cpu.max").read_text().split()
        return int(granted) / int(period)
    return math.inf


def _of_v1(folder: Path) -> float:
    with suppress(OSError, ValueError):
        granted, period = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        return granted / period if granted > 0 else math.inf
    return math.inf


def be_worker() -> None:
    """Note that this process is a worker."""
    _process["worker"] = True


def prepared() -> bool:
    """Return whether `be_worker` was called in this process."""
    return _process["worker"]


@contextmanager
def working() -> Iterator[None]:
    """Note that this thread is a worker meanwhile."""
    before, _thread.works = is_worker_thread(), True
    try:
        yield
    finally:
        _thread.works = before


def is_worker_thread() -> bool:
    """Return whether this thread does a piece of somebody's job."""
    return getattr(_thread, "works", False)


def is_worker() -> bool:
    """Return whether this process, or this thread, is one of several workers that share a machine."""
    return prepared() or is_worker_thread() or multiprocessing.parent_process() is not None or _mpi_rank() > 0


def _mpi_rank() -> int:
    """Return the rank of this process where MPI runs already; nothing is imported or begun."""
    module = sys.modules.get("mpi4py.MPI")
    if module is None or not module.Is_initialized() or module.Is_finalized():
        return 0
    return int(module.COMM_WORLD.Get_rank())
