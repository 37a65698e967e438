"""What systems and their Pythons lack or have; on one that is no Unix files are refused in one line."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

from fastbm._base import system

ELSEWHERE = """
import concurrent.futures, os, signal, sys, tempfile
import h5py, numba.core.caching, numpy as np, scipy.optimize
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
LACKING = {
    os: "geteuid getuid register_at_fork pread preadv pwrite O_CLOEXEC O_NOFOLLOW O_NONBLOCK O_DIRECTORY fork sysconf "
        "sched_getaffinity statvfs fchmod",
    signal: "SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGKILL SIGURG SIGCHLD setitimer pthread_kill pthread_sigmask",
}
for module, names in LACKING.items():
    for name in names.split():
        delattr(module, name)

import fastbm as bm

run = bm.sample(bm.models.ising((4, 4)), n_chains=16, n_sweeps=200, seed=1)
assert run.energy.shape == (200, 16)
assert not bm.sample(run.model, n_sweeps=10**9, thin=10**6, max_seconds=0.2).finished
assert bm.fit(np.random.default_rng(1).integers(0, 2, (50, 6)), "exact", epochs=20).verdict
assert bm.infer(run.model, "exact").log_z > 32.0
run.model.save("machine.h5")
assert bm.load("machine.h5").bias.tolist() == run.model.bias.tolist()
for act in (lambda path: bm.sample(run.model, n_sweeps=5, out=path), bm.open, bm.resume):
    try:
        act("run.h5")
    except bm.StorageError as error:
        print(error)
"""


def test_without_locks_and_forks_runs_stay_in_memory(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ELSEWHERE], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("'run.h5': this system has no file locks (fcntl), so that runs stay in memory: leave")
    assert [one.name for one in tmp_path.iterdir()] == ["machine.h5"]


def test_what_is_made_while_no_garbage_is_looked_for_is_old_and_what_users_froze_stays_so():
    gc.unfreeze()  # what the suite froze
    with system.keeping:
        made = [[] for _ in range(10)]
    assert gc.isenabled() and any(one is made for one in gc.get_objects(generation=2))
    gc.freeze()  # as the suite has it
    with system.keeping:
        pass
    assert gc.isenabled() and gc.get_freeze_count() > 0
