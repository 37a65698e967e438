"""On a real Dask cluster of processes, and MPI: workers that leave commit; those that will not do; samples in parts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastbm as bm
from tests.support.crash import assert_same_run

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

    connected("tcp://127.0.0.1:9")
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
    lines = done.stdout.splitlines()
    assert len(lines) == 5, done
    for line in lines[1:3]:
        assert re.fullmatch(r"the Dask worker tcp://\S+ lacks fastbm .*none.*\. Install it there as it is here\.", line)
    assert re.fullmatch(r"numba is \S+ here and 9\.9 on the Dask worker tcp\S+\. Install .* exact=False\.", lines[3])
    assert lines[4] == "3"
    assert re.fullmatch(r"no Dask scheduler listens at tcp://127\.0\.0\.1:9 .*dask scheduler\.", lines[0])


# a run of each sampler in parts, by Dask (where one worker is killed) or MPI, and alone
PARTS = """
import os, signal, sys, threading, time
from pathlib import Path
import fastbm as bm

GLASS = bm.models.edwards_anderson((4, 5), seed=1)
COMMON = {"n_sweeps": 4000, "seed": 5, "progress": False, "commit_seconds": 0.05}
RUNS = {
    "gibbs": {"n_chains": 200, "beta": 0.8, "thin": 20, "kernel": "dense", "observables": ["overlap"]},
    "tempering": {"sampler": "tempering", "betas": [0.3, 0.9, 1.5], "n_chains": 80, "kernel": "dense", "thin": 20},
    "annealing": {"sampler": "annealing", "n_chains": 200, "beta": 2.0, "schedule": "adaptive"},
}

def kill_one(folder):
    while not (locks := list(folder.glob("*.chains/*.parts/lock"))):
        time.sleep(0.001)
    os.kill(int(locks[0].read_text().split()[3]), signal.SIGKILL)

def sample(folder, executor, kills):
    for name, own in RUNS.items():
        bm.sample(GLASS, out=folder / f"{name}-alone.h5", **COMMON, **own)
        if kills and name == "gibbs":
            threading.Thread(target=kill_one, args=(folder,), daemon=True).start()
        bm.sample(GLASS, out=folder / f"{name}.h5", executor=executor, **COMMON, **own)

if __name__ == "__main__":
    kind, n, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if kind == "mpi":
        with bm.workers.mpi() as executor:
            sample(folder, executor, False)
    elif kind == "pool":
        with bm.workers.pool(n) as executor:
            sample(folder, executor, False)
    else:
        from distributed import LocalCluster

        with LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster:
            with bm.workers.connect(cluster.scheduler_address) as executor:
                sample(folder, executor, True)
"""


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize(
    ("kind", "n"),
    [
        ("dask", 2),
        ("mpi", 2),
        *(
            pytest.param(kind, n, marks=pytest.mark.long)
            for kind in ("pool", "dask", "mpi")
            for n in (1, 2, 4)
            if kind == "pool" or n != 2
        ),
    ],
)
def test_parts_of_samples_have_the_bytes_of_runs_alone(kind: str, n: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PARTS)
    words = [sys.executable, *(["-m", "mpi4py.futures"] if kind == "mpi" else []), str(script), kind, str(n)]
    words = (["mpiexec", "-n", str(n + 1)] if kind == "mpi" else []) + [*words, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.glob("*.chains"))
    for name in ("gibbs", "tempering", "annealing"):
        assert_same_run(tmp_path / f"{name}-alone.h5", tmp_path / f"{name}.h5")
