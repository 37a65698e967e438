"""Exact sums done by workers: the bytes of the file are those of one process, whoever is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.runs.infer.verb import infer_run
from tests.support import crash, machines, ways

BEFORE_A_KILL = 2  # pieces that each life does


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in memory; small sums have 64 pieces, and each of them is committed."""
    monkeypatch.setattr("fastbm.exact.blocks.prefixes.LARGE_SECONDS", 0.01)
    monkeypatch.setattr("fastbm.exact.blocks.prefixes.FEWEST_PREFIX", 6)
    monkeypatch.setattr("fastbm.inference.exact.sums.SLICE_SECONDS", 1e-6)
    machines.close_pools()
    with crash.memory_folder() as found:
        yield found


def work(path: Path, n: int, executor: Executor | None = None, progress: Any = None) -> None:
    """Begin or go on."""
    about = {"threads": 1, "executor": executor, "progress": progress}
    try:
        bm.resume(path, **about)
    except bm.StorageError as error:
        if "does not exist" not in str(error):
            raise
        model = bm.models.sherrington_kirkpatrick(n, seed=1)
        options = {"energy_variance": False, "max_forecast_seconds": 1e5}
        infer_run(model, "exact", options, out=path, commit_seconds=0, **about)


def life(path: Path, n: int, killed: str) -> None:
    """Go on with a new pool of two, until after some pieces a worker is killed, or this process is."""
    seen: list[int] = []
    with bm.workers.pool(2) as pool:

        def progress(task: Any, rows: Any) -> None:
            seen.append(1)
            if len(seen) == BEFORE_A_KILL and killed:
                os.kill(os.getpid() if killed == "coordinator" else next(iter(pool._processes)), signal.SIGKILL)

        if killed != "worker":
            work(path, n, pool, progress)
            return
        with pytest.raises(bm.Interrupted, match="the executor does no more"):
            work(path, n, pool, progress)


def assert_kills_cost_no_bit(folder: Path, n: int, n_kills: int, run: Callable[..., None] = life) -> None:
    """Kill workers and coordinators in turn, `n_kills` of each, within one run."""
    whole, path = folder / "whole.h5", folder / "run.h5"
    assert crash.run_child(lambda: work(whole, n)) == 0
    for k in range(2 * n_kills):
        killed = ("coordinator", "worker")[k % 2]
        ended = crash.run_child(lambda who=killed: run(path, n, who))
        assert (ended == 0) == (killed == "worker")
        assert not bm.open(path).finished
    assert crash.run_child(lambda: run(path, n, "")) == 0
    crash.assert_same_run(whole, path)


@pytest.mark.slow
def test_kills_of_workers_and_coordinators_cost_no_bit(folder: Path) -> None:
    assert_kills_cost_no_bit(folder, 33, 10)


def do_all(executor: Executor | None, path: str) -> None:
    """Sum 36 units with moments, compare methods and rules, and walk, leaving files whose names begin with `path`."""
    bm.infer(bm.models.sherrington_kirkpatrick(36, seed=1), "exact", threads=1, out=path, executor=executor)
    few, layers = bm.models.sherrington_kirkpatrick(12, seed=1), bm.models.restricted(8, 6, seed=2)
    about: dict[str, Any] = {"beta": 0.5, "seed": [0, 1], "executor": executor}
    walks: dict[str, Any] = {"n_chains": 200, "n_betas": 50}
    methods: dict[str, Any] = {"exact": {}, "ais": walks, "gibbs": {"n_sweeps": 100}, "mean-field": {}}
    bm.compare({"few": few, "layers": layers}, methods, out=f"{path}.compare", **about)
    rules: list[Any] = ["exact", "pseudolikelihood", {"method": "rise", "l1": 0.02}]
    bm.compare_rules(few, rules, n_rows=[100, 200], out=f"{path}.rules", **about)
    bm.infer(few, "ais", out=f"{path}.walks", executor=executor, **walks)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    ways.run_by(ways.ALONE, 1, f"{__name__}:do_all", "run.h5", folder=folder)
    return folder / "run.h5"


@pytest.mark.parametrize(("way", "n"), ways.WAYS)
def test_sums_and_comparisons_have_the_bytes_of_one_process(way: str, n: int, alone: Path, tmp_path: Path) -> None:
    ways.run_by(way, n, f"{__name__}:do_all", "run.h5", folder=tmp_path)
    for suffix in ("", ".compare", ".rules", ".walks"):
        crash.assert_same_run(Path(f"{alone}{suffix}"), tmp_path / f"run.h5{suffix}")
    assert bm.open(tmp_path / "run.h5").inference.detail["pieces"] == 16


@pytest.mark.long
def test_a_sum_over_2_to_the_42_states_killed_ten_times(folder: Path) -> None:
    assert_kills_cost_no_bit(folder, 42, 5)
