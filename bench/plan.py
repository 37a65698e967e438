"""The plan page's model: how long work in pieces takes on many workers, and what saturates first.

python -m bench.plan            the tables of docs/plan.md
python -m bench.plan --measure  its constants, measured here
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

HOUR = 3600.0
CORES = (1, 10, 100, 1_000, 10_000)
EXECUTORS = {"Dask": 3.9e-3, "joblib": 0.16e-3, "MPI": 0.24e-3, "process pool": 0.09e-3}  # seconds a piece, measured
COMMITS = 200.0  # a second, assumed of a shared file system: 5 ms a sync; a local disk takes several times as many
NETWORK, READING = 1e9, 5e9  # bytes a second, assumed: what a coordinator takes, and a shared file system gives to all
PAIRS = 53e9  # pairs of units a second and core, counted over rows
A_PIECE, WITH_MOMENTS = 27.8, 38.7  # seconds of a core for 2^40 states, and for 2^38 with moments
A_SAMPLE = 150_000 * 0.66e-3  # seconds: sweeps of 4 ladders of 24 temperatures, 3D ±J at L = 16


@dataclass(frozen=True)
class Work:
    """Independent pieces, and what else they need.

    Attributes
    ----------
    core_seconds : float
    n_pieces : int
    begin : float
        Seconds of a worker before its first piece: start, imports, kernels from the cache.
    serial : float
        Seconds of the coordinator, whatever the number of workers.
    commits : float
        Commits in all, of whoever writes.
    sent, read : float
        Bytes that come back to the coordinator, and that workers read.
    """

    name: str
    core_seconds: float
    n_pieces: int
    begin: float = 3.0
    serial: float = 2.0
    commits: float = 0.0
    sent: float = 0.0
    read: float = 0.0


WORK = (
    *(
        Work(name, n_pieces * seconds, n_pieces)
        for name, n_pieces, seconds in (
            ("log Z, n = 50", 1_024, A_PIECE),
            ("log Z, n = 54", 16_384, A_PIECE),
            ("log Z and moments, n = 50", 4_096, WITH_MOMENTS),
            ("log Z and moments, n = 54", 32_768, 2.0 * WITH_MOMENTS),
        )
    ),
    Work("10⁴ samples of disorder, 3D ±J, L = 16", 10_000 * A_SAMPLE, 10_000, commits=20_000),
    Work("10⁶ summary cells of a second, 10⁴ shards", 1e6, 10_000, commits=2e4),
    Work("moments of 10⁸ rows x 10⁴ units", 1e8 * 1e8 / 2 / PAIRS, 1_000, sent=1_000 * 4e8, read=1e8 * 1e4 / 8),
)


@dataclass(frozen=True)
class Forecast:
    """Wall time in seconds, the share of it in which workers compute, and what is the bottleneck."""

    seconds: float
    efficiency: float
    bound: str


def forecast(work: Work, n_cores: int, a_task: float, *, processors: float = math.inf) -> Forecast:
    """Return what a run takes: the slowest of computing, handing pieces out and committing, after what begins it.

    Pieces are of one length, so that the last round of them is full or not; `processors` bounds how many workers
    compute at once, for more workers than that on one machine.
    """
    at_once = min(n_cores, processors)
    rounds = math.ceil(work.n_pieces / at_once)
    parts = {
        "cores": rounds * work.core_seconds / work.n_pieces,
        "tasks": work.n_pieces * a_task,
        "commits": work.commits / COMMITS,
        "network": work.sent / NETWORK,
        "reading": work.read / READING,
    }
    bound = max(parts, key=lambda name: parts[name])
    if bound == "cores" and n_cores > work.n_pieces:
        bound = "pieces"
    seconds = work.serial + work.begin + parts["cores" if bound == "pieces" else bound]
    return Forecast(seconds, work.core_seconds / (seconds * at_once), bound)


def told(seconds: float) -> str:
    """Return a time as text."""
    for unit, size in (("d", 24 * HOUR), ("h", HOUR), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def table(executor: str) -> Iterator[str]:
    """Return the lines of a table in Markdown."""
    yield f"| {executor} | core hours | " + " | ".join(f"{n:,} cores" for n in CORES) + " |"
    yield "|---|---|" + "---|" * len(CORES)
    for work in WORK:
        found = [forecast(work, n, EXECUTORS[executor]) for n in CORES]
        cells = (f"{told(one.seconds)}{'' if one.bound == 'cores' else f' ({one.bound})'}" for one in found)
        yield f"| {work.name} | {work.core_seconds / HOUR:,.0f} | " + " | ".join(cells) + " |"


def spin(seconds: float, k: int) -> int:
    """Compute for so many seconds of processor time, so that others on the same processor make it last longer."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return k


def nothing(shared: Any, k: int) -> int:
    """Do a piece that is no work."""
    return k


@contextmanager
def executor_of(kind: str, n_workers: int) -> Iterator[Executor]:
    """Have an executor whose workers have begun."""
    import fastbm as bm

    if kind == "process pool":
        with bm.workers.pool(n_workers) as pool:
            list(pool.map(spin, [0.05] * (2 * n_workers), range(2 * n_workers)))
            yield pool
        return
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None) as cluster,
        bm.workers.connect(cluster.scheduler_address) as client,
    ):
        list(client.map(spin, [0.05] * (2 * n_workers), range(2 * n_workers)))
        yield client


def seconds_of(executor: Executor, function: Any, shared: Any, n_pieces: int) -> float:
    """Return how long the workers take for pieces, wall clock."""
    from fastbm._base.workers import Pieces

    started = time.perf_counter()
    pieces = Pieces(executor, function, shared, n_pieces)
    for _ in range(n_pieces):
        pieces.take()
    return time.perf_counter() - started


def touched(k: int) -> int:
    """Load the kernels of exact sums, as the first piece of a worker does."""
    import fastbm as bm

    bm.infer(bm.models.sherrington_kirkpatrick(30, seed=1), "exact")
    time.sleep(4.0)  # the others begin meanwhile
    return k


def seconds_of_a_sum(n_workers: int, n_units: int = 37) -> float:
    """Return how long an exact sum with moments takes workers of a process pool that have begun."""
    import fastbm as bm

    with bm.workers.pool(n_workers) as executor:
        list(executor.map(touched, range(n_workers)))
        started = time.perf_counter()
        bm.infer(bm.models.sherrington_kirkpatrick(n_units, seed=1), "exact", executor=executor)
        return time.perf_counter() - started


def seconds_a_commit() -> float:
    """Return how long a commit of 64 kB takes in the folder for temporary files."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        for k in range(20):
            handle = os.open(f"{folder}/{k}.tmp", os.O_CREAT | os.O_WRONLY)
            os.write(handle, bytes(65_536))
            os.fsync(handle)
            os.close(handle)
            os.rename(f"{folder}/{k}.tmp", f"{folder}/{k}")
        return (time.perf_counter() - started) / 20


def measure() -> None:
    """Print the constants of this machine, and forecasts beside what is measured."""
    processors = len(os.sched_getaffinity(0))
    print(f"a commit of 64 kB: {1e3 * seconds_a_commit():.2f} ms")
    for kind, n_tasks in (("process pool", 2_000), ("Dask", 500)):
        with executor_of(kind, processors) as executor:
            a_task = seconds_of(executor, nothing, None, n_tasks) / n_tasks
            wall = seconds_of(executor, spin, 1.0, 4 * processors)
        print(f"{kind}: {1e3 * a_task:.2f} ms a piece; pieces of 1 s: overhead {100 * (wall / 4.0 - 1.0):.1f} %")
    alone = seconds_of_a_sum(1)
    print(f"an exact sum of 16 pieces on one worker: {alone:.2f} s")
    for n_workers in (2, 4, 8):
        work = replace(WORK[0], core_seconds=alone, n_pieces=16, begin=0.0, serial=0.0)
        found = forecast(work, n_workers, EXECUTORS["process pool"], processors=processors).seconds
        wall = seconds_of_a_sum(n_workers)
        print(f"{n_workers} workers: {wall:.2f} s, forecast {found:.2f} s ({100 * (found / wall - 1.0):+.0f} %)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true")
    if parser.parse_args().measure:
        measure()
    else:
        for name in ("Dask", "MPI"):
            print("\n".join(table(name)), end="\n\n")
