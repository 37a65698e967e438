"""Fits whose resamples and moments are done by workers: the bytes of the file are those of one process."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support import crash, machines, ways

N_RESAMPLES = 6
FITS: dict[str, dict[str, Any]] = {
    "formula": {"method": "naive-mean-field", "flip_noise": 0.05},
    "convex": {"method": "pseudolikelihood", "epochs": 4, "block": 5},
    "hidden": {"method": "pcd", "n_hidden": 3, "epochs": 3, "batch_size": 50, "patience": 2},
    "weights": {"method": "exact", "l2": 1e-3, "row_weights": np.linspace(0.0, 1.0, 200)},
}


@pytest.fixture
def folder() -> Iterator[Path]:
    machines.close_pools()
    with crash.memory_folder() as found:
        yield found


def rows(n_rows: int = 200) -> np.ndarray:
    generator = np.random.default_rng(3)
    return (generator.random((n_rows, 7)) < 0.3 + 0.3 * generator.random((n_rows, 1))).astype(np.uint8)


def fit(out: Path | None, name: str, executor: Executor | None = None, **more: Any) -> bm.Run:
    options = FITS[name] | {"errors": "bootstrap", "n_resamples": N_RESAMPLES, "holdout": rows()[:20], "threads": 1}
    return bm.fit(rows(), out=out, executor=executor, **options | more)


def count(out: Path, folder: Path, executor: Executor | None = None) -> None:
    """Learn from moments of rows in files and of rows at hand."""
    names = [folder / f"{k}.npy" for k in range(3)]
    for name, some in zip(names, np.split(rows(), [30, 31]), strict=True):
        np.save(name, some)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastbm.data.packing.KEPT", 0)
        patch.setattr("fastbm.data.counting.SHARD_NUMBERS", 1)
        patch.setattr("fastbm.data.counting.SHARD_ROWS", 13)
        bm.fit(names, "exact", l2=0.01, out=out, executor=executor, threads=1)
        bm.fit(rows(), "tap", flip_noise=0.1, out=out.with_suffix(".tap.h5"), executor=executor, threads=1)


def life(folder: Path, killed: str, options: dict[str, Any]) -> None:
    """Begin, or go on, with a new pool until some resamples are done, then kill a worker, or this process."""
    path, seen = folder / "run.h5", []
    with bm.workers.pool(2) as pool:
        if killed == "worker" and not path.with_suffix(".h5.parts").exists():
            count(folder / "counted.h5", folder, pool)

        def progress(task: Any, found: Any) -> None:
            seen.append(task.learner.over and not found)
            if sum(seen) == 2:
                os.kill(os.getpid() if killed == "coordinator" else next(iter(pool._processes)), signal.SIGKILL)

        try:
            if path.with_suffix(".h5.parts").exists():
                bm.resume(path, executor=pool, progress=progress, threads=1)
            else:
                fit(path, "hidden", pool, progress=progress, **options)
        except bm.Interrupted as error:
            assert killed == "worker" and "the executor does no more" in str(error)
            return
    raise AssertionError("nothing was killed")


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize("n_kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_resamples_by_workers_have_the_bytes_of_one_process(folder: Path, n_kills: int) -> None:
    options: dict[str, Any] = {"commit_seconds": 0, "n_resamples": 8 + 8 * n_kills}
    whole = fit(folder / "whole.h5", "hidden", **options)
    assert np.isfinite(whole.errors["bias"]).all()
    for k in range(n_kills):
        killed = ("worker", "coordinator")[k % 2]
        ended = crash.run_child(lambda who=killed: life(folder, who, options))
        assert (ended == 0) == (killed == "worker")
    count(folder / "alone.h5", folder)
    for suffix in (".h5", ".tap.h5"):
        crash.assert_same_run(folder / f"alone{suffix}", folder / f"counted{suffix}")
    run = bm.open(folder / "run.h5")
    assert not run.finished and run._reader.state["resampled/bootstrap/n_done"] > 0
    bm.resume(folder / "run.h5", threads=1)
    crash.assert_same_run(folder / "whole.h5", folder / "run.h5")


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_threads_that_learn_side_by_side_have_the_same_bytes(folder: Path, name: str) -> None:
    with ThreadPoolExecutor(2) as threads:
        for k, executor in enumerate((None, threads)):
            fit(folder / f"{k}.h5", name, executor)
    crash.assert_same_run(folder / "0.h5", folder / "1.h5")


def test_what_resamples_warn_of_is_told_once() -> None:
    separable = np.repeat(np.eye(4, dtype=np.uint8), [9, 1, 1, 1], axis=0)
    told = []
    with ThreadPoolExecutor(2) as pool:
        for executor in (None, pool):
            with pytest.warns(bm.ConvergenceWarning) as caught:
                bm.fit(separable, "pseudolikelihood", executor=executor, errors="bootstrap", n_resamples=4)
            told.append([str(one.message) for one in caught])
    assert told[0] == told[1]
    assert sum("of 4 resamples were not learned to the end" in text for text in told[0]) == 1


@pytest.mark.parametrize("options", [{"method": "pcd", "n_hidden": 2}, {"method": "pseudolikelihood"}])
def test_an_executor_without_work_is_refused(options: dict[str, Any]) -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ValueError, match=r"executor does .* Leave executor out"),
    ):
        bm.fit(rows(), executor=pool, **options)
    with bm.workers.pool(1) as broken:
        broken.shutdown()
        with pytest.raises(bm.Interrupted, match=r"the executor does no more .* before anything was begun"):
            bm.fit(rows(), "tap", flip_noise=0.1, executor=broken)
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor"):
        bm.fit(rows(), executor=2)


def do_both(executor: Executor | None) -> None:
    """Refit, and count, in the present folder."""
    warnings.simplefilter("ignore", bm.ConvergenceWarning)
    fit(Path("run.h5"), "hidden", executor)
    count(Path("counted.h5"), Path(), executor)


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
@pytest.mark.parametrize(("way", "n"), ways.WAYS)
def test_dask_and_mpi_have_the_bytes_of_one_process(way: str, n: int, tmp_path: Path) -> None:
    ways.run_by(way, n, f"{__name__}:do_both", folder=tmp_path)
    alone = tmp_path / "alone"
    alone.mkdir()
    fit(alone / "run.h5", "hidden")
    count(alone / "counted.h5", tmp_path)
    for name in ("run.h5", "counted.tap.h5", "counted.h5"):
        crash.assert_same_run(alone / name, tmp_path / name)
