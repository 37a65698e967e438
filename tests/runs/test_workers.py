"""Workers' processes: who stops their runs, in whatever thread these are, and what they import."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import fastbm as bm
from fastbm._base.threads import blas_libraries
from fastbm.runs import stop
from fastbm.runs.workers import leaving
from tests.support.runs import assert_same, sample

LONG = {"n_sweeps": 4_000_000, "thin": 200_000}
ROOT = Path(__file__).parents[2]
DEADLINE = 60.0

# a worker that samples in a thread, as Dask has it; its main thread waits
THREADED = """
import os, sys, threading
import fastbm as bm
from fastbm._base.threads import available

def leave(number):
    thread.join(10)  # what it says is heard
    os.kill(os.getpid(), number)

def work():
    try:
        bm.sample(bm.models.ising((4, 4)), n_sweeps=10**11, thin=10**4, seed=1, out=sys.argv[1], progress=False)
    except bm.Interrupted as stopped:
        print(available(), stopped, flush=True)

thread = threading.Thread(target=work)
bm.workers.initialise(leave)
thread.start()
print("begun", flush=True)
thread.join()
threading.Event().wait(60)
"""


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_stop_reaches_runs_in_all_threads_and_loses_nothing(tmp_path: Path) -> None:
    seen, stopped = {"a": 0, "b": 0}, {}

    def run(name: str) -> None:
        def progress(task: Any, rows: Any) -> None:
            seen[name] += bool(rows)

        try:
            sample(tmp_path / f"{name}.h5", progress=progress, burn_in=0, n_sweeps=10**11, thin=10**5, kernel="dense")
        except bm.Interrupted as error:
            stopped[name] = error

    def n_threads_of_blas() -> set[int]:
        return {library.get_num_threads() for library in blas.lib_controllers}

    threads = [threading.Thread(target=run, args=(name,)) for name in seen]
    blas_libraries()
    blas = ThreadpoolController().select(user_api="blas")
    with blas.limit(limits=2):
        for thread in threads:
            thread.start()
        wait_until(lambda: min(seen.values()) > 0)
        assert stop.n_running() == 2
        assert n_threads_of_blas() == {1}
        stop.ask_all("the end of the lesson")
        for thread in threads:
            thread.join()
        assert n_threads_of_blas() == {2}
    assert stop.n_running() == 0
    energies = [stopped[name].run.energy for name in seen]
    assert all("stopped by the end of the lesson after sweep" in str(error) for error in stopped.values())
    n_rows = min(map(len, energies))
    assert n_rows > 0
    assert np.array_equal(energies[0][:n_rows], energies[1][:n_rows])
    assert bm.resume(tmp_path / "a.h5", max_seconds=0.0).energy.shape[0] >= len(energies[0])


def test_what_is_begun_in_a_process_that_leaves_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop, "_for_good", ["SIGTERM"])
    with pytest.raises(bm.Interrupted, match="stopped by SIGTERM"):
        sample(tmp_path / "run.h5", **LONG)
    monkeypatch.undo()
    if (tmp_path / "run.h5.parts").exists():
        assert_same(bm.resume(tmp_path / "run.h5"), sample(**LONG))


def test_sigterm_to_a_worker_commits_what_its_threads_compute(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", THREADED, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == "begun\n"
            wait_until((tmp_path / "run.h5.parts" / "seg-00000001.h5").exists)
            child.send_signal(signal.SIGTERM)
            told, _ = child.communicate(timeout=DEADLINE)
            assert child.returncode == -signal.SIGTERM
        finally:
            child.kill()  # if it is still there, nobody waits for it
    assert told.startswith("1 stopped by SIGTERM after sweep"), told
    assert not bm.open(path).live


def test_a_worker_whose_parent_is_gone_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.runs.workers.leaving.PARENT_POLL", 0.01)
    child = os.fork()
    if not child:  # its parent in name ends as it begins, as loky's do, which have no sentinel
        leaving._leave_after(SimpleNamespace(sentinel=None, pid=-1))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_pool_imports_no_dask_no_mpi_and_no_loky() -> None:
    code = (
        "import sys, fastbm as bm\n"
        "with bm.workers.pool(1) as pool:\n"
        "    found = pool.submit(eval, 'sorted(__import__(\"sys\").modules)').result()\n"
        "print(sorted({'distributed', 'dask', 'mpi4py', 'loky', 'joblib'} & {*found, *sys.modules}))\n"
        "print(pool.__class__.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.splitlines() == ["[]", "ProcessPoolExecutor"], done.stderr


def test_what_is_no_number_of_workers_is_refused() -> None:
    import_module("fastbm.runs.workers.coordinator")  # with all beside it, of which none may hide a public name
    with pytest.raises(ValueError, match="n_workers must be"):
        bm.workers.pool(0)
