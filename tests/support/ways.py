"""Work done by others in programs as users begin them: pools of processes, Dask, MPI, and alone.

``python -m tests.support.ways WAY N MODULE:FUNCTION ARGUMENTS`` calls a function with an executor and the texts behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm

ROOT = Path(__file__).parents[2]
ALONE = "alone"
NEEDED = {"dask": "distributed", "mpi": "mpi4py"}
SLOW = [("dask", 2), ("mpi", 2)]
LONG = [(way, n) for way in ("pool", "dask", "mpi") for n in (1, 2, 4) if (way, n) not in SLOW]
WAYS: list[Any] = [pytest.param(*one, marks=pytest.mark.slow) for one in SLOW]
WAYS += [pytest.param(*one, marks=pytest.mark.long) for one in LONG]


def run_by(way: str, n: int, work: str, *arguments: str, folder: Path) -> None:
    """Have a program in `folder` do `work`, MODULE:FUNCTION, by `n` workers."""
    if way in NEEDED:
        pytest.importorskip(NEEDED[way])
    program = [sys.executable, "-m", *(["mpi4py.futures", "-m"] if way == "mpi" else []), __name__]
    begun = ["mpiexec", "-n", str(n + 1), *program] if way == "mpi" else program
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [*begun, way, str(n), work, *arguments]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def executor_of(way: str, n: int) -> Iterator[Executor | None]:
    """Give an executor with `n` workers."""
    if way == ALONE:
        yield None
    elif way == "mpi":
        with bm.workers.mpi() as executor:
            yield executor
    elif way == "pool":
        with bm.workers.pool(n) as executor:
            yield executor
    else:
        from distributed import LocalCluster

        with (
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
            bm.workers.connect(cluster.scheduler_address) as executor,
        ):
            yield executor


def main() -> None:
    """Do what the command line says."""
    way, n, work, *arguments = sys.argv[1:]
    module, _, name = work.partition(":")
    with executor_of(way, int(n)) as executor:
        getattr(import_module(module), name)(executor, *arguments)


if __name__ == "__main__":
    main()
