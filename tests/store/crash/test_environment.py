"""What machines do to a run beside kills: stop it and let it go on, set the clock, copy it, and give it little."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

import fastbm as bm
from fastbm._base.checks import StorageError
from tests.store.crash.stories import taken
from tests.support import crash, machines

MODEL = bm.models.random_machine(60, seed=1)
N_BLOCKS = 3  # that are committed before anything happens
PAUSE = 0.05  # after a block, where a run must not end before its parent has acted


def work(path: Path, pause: float = 0.0) -> None:
    """Begin a run of about a second, or go on with it; every block is committed, and followed by a pause."""
    slowly = (lambda *_: time.sleep(pause)) if pause else None
    try:
        bm.resume(path, progress=slowly)
    except StorageError as error:
        if "does not exist" not in str(error):
            raise
        bm.sample(
            MODEL, n_chains=4, n_sweeps=400_000, thin=100, seed=1, out=path, commit_seconds=0.0, progress=slowly
        )  # fmt: skip


@pytest.fixture
def whole(folder: Path) -> Path:
    work(folder / "whole.h5")
    machines.close_pools()
    return folder / "whole.h5"


def await_blocks(path: Path) -> None:
    """Wait until some blocks of a run are committed."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        with suppress(StorageError), bm.store.open_reader(path) as reader:
            if reader.n_blocks >= N_BLOCKS:
                return
        time.sleep(0.005)
    raise AssertionError("no blocks were committed")


def test_stopped_for_a_while_and_continued(whole: Path, folder: Path) -> None:
    path = folder / "run.h5"
    child = crash.start_child(lambda: work(path, PAUSE))
    await_blocks(path)
    os.kill(child, signal.SIGSTOP)
    n_samples = len(bm.open(path).energy)
    assert n_samples > 0
    with pytest.raises(StorageError, match="is being written"):
        bm.resume(path)
    with pytest.raises(StorageError, match="is being written"):
        bm.merge(path)
    assert bm.verify(path).sound
    assert len(bm.open(path).energy) == n_samples
    os.kill(child, signal.SIGCONT)
    assert crash.ended(child) == 0
    crash.assert_same_run(whole, path)


def test_a_clock_that_jumps(whole: Path, folder: Path) -> None:
    chance, now = random.Random(1), time.time
    with mock.patch("time.time", lambda: now() + chance.choice([-1e7, -60.0, 0.0, 60.0, 1e7])):
        work(folder / "run.h5")
    crash.assert_same_run(whole, folder / "run.h5")


def test_copies_of_a_run_that_is_written_can_be_resumed(whole: Path, folder: Path) -> None:
    path, copies = folder / "run.h5", [folder / f"copy{k}.h5" for k in range(3)]
    child = crash.start_child(lambda: work(path, PAUSE))
    await_blocks(path)
    for copy in copies:
        parts = copy.with_name(copy.name + ".parts")
        parts.mkdir()
        for one in sorted(path.with_name("run.h5.parts").iterdir()):
            with suppress(FileNotFoundError):  # what is renamed meanwhile
                (parts / one.name).write_bytes(one.read_bytes())
    os.kill(child, signal.SIGKILL)
    crash.ended(child)
    for copy in (*copies, path):
        work(copy)
        crash.assert_same_run(whole, copy)


def test_a_verification_that_is_killed_changes_nothing(whole: Path, folder: Path) -> None:
    path = folder / "run.h5"
    crash.kill_after(work, path, 0.3)
    before = taken(folder)
    for seconds in (0.01, 0.05, 0.1):
        assert crash.kill_after(lambda path: [bm.verify(path) for _ in range(10_000)], path, seconds)
        assert taken(folder) == before
    work(path)
    crash.assert_same_run(whole, path)


def test_no_more_threads(whole: Path, folder: Path) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with mock.patch("threading.Thread.start", start):
        work(folder / "run.h5")
    crash.assert_same_run(whole, folder / "run.h5")


def limited(path: Path, n_files: int, told: Path) -> Callable[[], None]:
    """The work of a process that may have few files open; it writes what became of it."""

    def act() -> None:
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 3)
        os.closerange(4, 1 << 12)  # those of the tests
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_files, n_files))
        try:
            work(path)
        except StorageError as error:
            assert "Too many open files" in str(error)
            os.write(3, b"refused")
        else:
            os.write(3, b"ended")

    return act


@pytest.mark.parametrize("limits", [range(4, 14, 9), pytest.param(range(4, 14), marks=pytest.mark.slow)], ids=str)
def test_few_open_files(whole: Path, folder: Path, limits: range) -> None:
    """Whatever their limit is, the run ends, or is refused in words and can be resumed."""
    path, told, found = folder / "run.h5", folder / "told", set()
    for n_files in limits:
        assert crash.run_child(limited(path, n_files, told)) == 0, n_files
        found.add(told.read_text())
        work(path)
        machines.close_pools()
        crash.assert_same_run(whole, path)
        crash.remove_run(path)
    assert found == {"refused", "ended"}


@pytest.mark.slow
def test_a_worker_that_is_killed(folder: Path) -> None:
    model, path = bm.models.random_machine(36, seed=1), folder / "run.h5"
    alone = bm.infer(model, "exact").log_z
    with ProcessPoolExecutor(1) as pool:
        pool.submit(os.getpid).result()

        def kill() -> None:
            while not path.with_name("run.h5.parts").exists():
                time.sleep(0.01)
            time.sleep(1.0)
            for one in list(pool._processes):
                os.kill(one, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(bm.Interrupted, match="the executor does no more"):
            bm.infer(model, "exact", executor=pool, out=path, max_forecast_seconds=1e9)
        killer.join()
    assert bm.resume(path).inference.log_z == alone


PROGRAM = """
import sys, warnings
import numpy as np
import fastbm as bm
warnings.simplefilter("ignore")
kind, path, act = sys.argv[1:]

def stop(task, rows):
    if act == "stop":
        raise ZeroDivisionError

def begin():
    if kind == "fit":
        rows = np.random.default_rng(0).integers(0, 2, (50, 8))
        return bm.fit(rows, "pcd", n_hidden=3, epochs=20, n_chains=8, seed=1, out=path, progress=stop)
    return bm.sample(bm.models.random_machine(12, seed=1), n_chains=2, n_sweeps=300, seed=1, out=path, progress=stop)

try:
    bm.resume(path) if act == "resume" else begin()
except ZeroDivisionError:
    pass
except bm.StorageError as error:
    print(error)
"""
ELSEWHERE = {
    "another processor": {"NUMBA_CPU_NAME": "generic", "OPENBLAS_CORETYPE": "Nehalem"},
    "no compiler": {"NUMBA_DISABLE_JIT": "1"},
}


def run_program(kind: str, path: Path, act: str, environment: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-c", PROGRAM, kind, str(path), act]
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("environment", ELSEWHERE.values(), ids=ELSEWHERE)
def test_resumed_elsewhere_samples_have_the_same_bits(environment: dict[str, str], folder: Path) -> None:
    run_program("sample", folder / "whole.h5", "begin")
    run_program("sample", folder / "run.h5", "stop")
    assert not bm.open(folder / "run.h5").finished
    assert run_program("sample", folder / "run.h5", "resume", environment) == ""
    crash.assert_same_run(folder / "whole.h5", folder / "run.h5")


@pytest.mark.slow
def test_resumed_elsewhere_learning_is_refused_where_its_bits_may_differ(folder: Path) -> None:
    run_program("fit", folder / "run.h5", "stop")
    told = run_program("fit", folder / "run.h5", "resume", {"OPENBLAS_CORETYPE": "Nehalem"})
    assert "cannot resume" in told
    assert "Nehalem" in told
    assert "exact=False (--inexact)" in told
    assert run_program("fit", folder / "run.h5", "resume") == ""
    assert bm.open(folder / "run.h5").finished


SOAK_SECONDS, WARM_UP_SECONDS = 1800.0, 60.0


def held() -> tuple[int, int]:
    """Megabytes of memory and open files of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") >> 20, len(os.listdir("/proc/self/fd"))


@pytest.mark.long
def test_memory_and_files_stay_level(folder: Path) -> None:
    path, before = folder / "run.h5", (0, 0)
    started = time.monotonic()
    while (seconds := time.monotonic() - started) < SOAK_SECONDS:
        with suppress(bm.Interrupted):
            bm.sample(MODEL, n_chains=4, n_sweeps=10_000, thin=100, seed=1, out=path, overwrite=True, max_seconds=0.01)
        work(path)
        assert bm.verify(path).sound
        assert len(str(bm.open(path).summary())) > 100
        bm.infer(MODEL, "ais", n_chains=64, n_betas=200, seed=1)
        assert [one.name for one in folder.iterdir()] == ["run.h5"]
        if seconds < WARM_UP_SECONDS or not any(before):
            before = held()
    n_megabytes, n_files = held()
    assert n_files <= before[1]
    assert n_megabytes <= before[0] + 20
