"""On a real Dask cluster of processes: SIGTERM commits; where no scheduler listens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastbm as bm

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import fastbm as bm

def work(folder, k):
    path = Path(folder) / f"{k}.h5"
    try:
        bm.sample(bm.models.ising((8, 8)), n_sweeps=10**11, thin=10**4, seed=1, out=path, progress=False)
    except BaseException as stopped:
        path.with_suffix(".txt").write_text(f"{time.time()} {stopped!r}")

def wait(path):
    while not path.exists() or not path.stat().st_size:
        time.sleep(0.01)

if __name__ == "__main__":
    from distributed import LocalCluster

    folder = Path(sys.argv[1])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        executor = bm.workers.connect(cluster.scheduler_address)
        future = executor.submit(work, str(folder), 0)
        wait(folder / "0.h5.parts" / "seg-00000001.h5")
        pid = int((folder / "0.h5.parts" / "lock").read_text().split()[3])
        sent = time.time()
        os.kill(pid, signal.SIGTERM)
        wait(folder / "0.txt")
        left, reason = (folder / "0.txt").read_text().split(maxsplit=1)
        print("SIGTERM", float(left) - sent, reason, flush=True)
"""


def test_a_worker_that_gets_sigterm_commits(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=environment, timeout=60
    )
    told = re.search(r"SIGTERM (\S+) Interrupted", done.stdout)
    assert told is not None, done.stdout + done.stderr
    assert float(told[1]) < 1.5  # a block, and a second
    assert not bm.open(tmp_path / "0.h5").live


def test_where_no_scheduler_listens() -> None:
    code = """import fastbm as bm
try:
    bm.workers.connect("tcp://127.0.0.1:9")
except ValueError as error:
    print(error)
"""
    words = [sys.executable, "-c", code]  # Dask's threads are not to stay in a process of tests, which forks
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=60)
    assert re.fullmatch(r"no Dask scheduler listens at tcp://127\.0\.0\.1:9 .*dask scheduler\.\n", done.stdout), done
