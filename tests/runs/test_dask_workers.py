"""On a real Dask cluster of processes, and MPI: workers that leave commit; those that will not do; samples in parts."""

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
        path.with_suffix(f".{os.getpid()}").write_text(f"{time.time()} {stopped!r}")

def wait(path):
    while not path.exists() or not path.stat().st_size:
        time.sleep(0.01)

if __name__ == "__main__":
    from distributed import LocalCluster

    folder = Path(sys.argv[1])
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        executor = bm.workers.connect(cluster.scheduler_address)

        def leave(k, way):
            future = executor.submit(work, str(folder), k)
            wait(folder / f"{k}.h5.parts" / "seg-00000001.h5")
            pid = int((folder / f"{k}.h5.parts" / "lock").read_text().split()[3])
            sent = time.time()
            way(pid)
            wait(folder / f"{k}.{pid}")
            left, reason = (folder / f"{k}.{pid}").read_text().split(maxsplit=1)
            print(k, float(left) - sent, reason, flush=True)

        def close(pid):
            client = executor._client
            pids = client.run(os.getpid)
            client.retire_workers([name for name, found in pids.items() if found == pid])

        leave(0, lambda pid: os.kill(pid, signal.SIGTERM))
        leave(1, close)
"""
REASONS = ("SIGTERM", "the closing of its Dask worker")


def test_a_worker_that_gets_sigterm_or_is_closed_commits(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, env=environment, timeout=60
    )
    told = re.findall(r"(\d) (\S+) Interrupted\(\W?stopped by (.*?) after sweep", done.stdout)
    assert [reason for _, _, reason in told] == list(REASONS), done.stdout + done.stderr
    assert all(float(seconds) < 1.5 for _, seconds, _ in told)  # a block, and a second
    assert not any(bm.open(tmp_path / f"{k}.h5").live for k in (0, 1))


OTHERS = """
import sys

def connected(address, **about):
    try:
        with bm.workers.connect(address, **about) as executor:
            print(executor.submit(abs, -3).result())
    except ValueError as error:
        print(error)

if __name__ == "__main__":
    import fastbm as bm
    from distributed import LocalCluster

    import socket

    connected("tcp://127.0.0.1:9")
    connected("nonsense")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        connected(f"tcp://127.0.0.1:{silent.getsockname()[1]}")
    bm.workers.DaskPlugin()  # which notes the versions here
    for folder in sys.argv[1:]:
        sys.path.insert(0, folder)  # as the workers have it then
        with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
            connected(cluster.scheduler_address)
            connected(cluster.scheduler_address, exact=False)
        del sys.path[0]
"""


def test_schedulers_that_are_not_there_and_workers_that_are_other(tmp_path: Path) -> None:
    package, versions = tmp_path / "lacks" / "fastbm", tmp_path / "other" / "numba-9.9.dist-info"
    package.mkdir(parents=True)
    versions.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ModuleNotFoundError('there is none', name='fastbm')")
    (versions / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 9.9\n")
    (tmp_path / "script.py").write_text(OTHERS)
    words = [sys.executable, "script.py", str(package.parent), str(versions.parent)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60)
    *nowhere, others = done.stdout.split("\n", 3)
    for line, why in zip(nowhere, ("Timed out", "missing port", "nothing was answered"), strict=True):
        assert re.fullmatch(rf"no Dask scheduler listens at \S+ \({why}.*\)\. Begin one with: dask scheduler\.", line)
    assert "Exception ignored" not in done.stderr
    lines = others.splitlines()
    assert len(lines) == 4, done
    for line in lines[:2]:
        assert re.fullmatch(r"the Dask worker tcp://\S+ lacks fastbm .*none.*\. Install it there as it is here\.", line)
    assert re.fullmatch(r"numba is \S+ here and 9\.9 on the Dask worker tcp\S+\. Install .* exact=False\.", lines[2])
    assert lines[3] == "3"
