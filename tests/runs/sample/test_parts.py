"""Runs whose chains are computed apart, by others, have the bytes of those that are computed together."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.runs import workers
from fastbm.runs.sample import part, parts
from fastbm.runs.workers.processes import Pool
from fastbm.sampling.parts import cuts
from fastbm.sampling.samplers import read_settings
from fastbm.store import commit
from tests.support import crash, machines, samples, ways
from tests.support.crash import assert_same_run
from tests.support.runs import assert_same
from tests.support.samples import GLASS

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")

SMALL: dict[str, Any] = {"n_sweeps": 60, "seed": 5, "progress": False}
LADDERS: dict[str, Any] = {"sampler": "tempering", "betas": [0.3, 0.9, 1.5], "kernel": "dense", "n_chains": 30}
CASES = {
    "gibbs": (GLASS, {"n_chains": 150, "beta": 0.8, "observables": {"q": "overlap", "all": lambda s: [s.sum()]}}),
    "tempering": (GLASS, {**LADDERS, "cluster": True, "observables": ["overlap"]}),
    "betas": (GLASS, {"n_chains": 192, "beta": [0.5, 1.0, 5000.0], "sampler": "metropolis"}),
    "initial": (GLASS, {"n_chains": 150, "initial": np.tile([[1], [-1]], (75, 20)), "clamp": ([0, 3], [1, -1])}),
    "log": (GLASS, {"n_chains": 150, "thin": "log", "kernel": "dense"}),
    "layered": (bm.models.restricted(20, 13, seed=1), {"n_chains": 203, "first_chain": 64}),
    "lookup": (samples.FERRO, {"n_chains": 277, "kernel": "lookup", "beta": 0.3, "observables": ["magnetisation"]}),
    "multispin": (samples.FERRO, {"n_chains": 1088, "kernel": "multispin", "beta": 0.3}),
    "lookup-ladders": (GLASS, {**LADDERS, "kernel": "lookup", "n_chains": 70, "cluster": True}),
    "all-levels": (GLASS, {**LADDERS, "record": "all", "observables": {"q": "overlap", "m": lambda s: s.mean(axis=1)}}),
    "tuned-best": (GLASS, {"sampler": "tempering", "beta": 1.5, "n_chains": 72, "keep": "best", "k": 9}),
    "annealing": (GLASS, {"sampler": "annealing", "schedule": "adaptive", "beta": 2.0, "n_chains": 140}),
    "annealing-best": (GLASS, {"sampler": "annealing", "n_chains": 140, "keep": "best", "k": 5, "thin": 3}),
    "wolff": (samples.FERRO, {"sampler": "wolff", "beta": 0.4, "n_chains": 140}),
    "swendsen-wang": (samples.FERRO, {"sampler": "swendsen-wang", "beta": [0.3, 0.4], "n_chains": 140}),
}  # fmt: skip


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """Forked, as whatever is in a test."""
    machines.close_pools()
    monkeypatch.setattr(workers, "METHODS", ("fork",))
    with Pool(2) as found:
        yield found


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def compare(folder: Path, name: str, executor: Executor, **options: Any) -> None:
    model, own = CASES[name]
    told = {**SMALL, **own, **options}
    bm.sample(model, out=folder / "alone.h5", **told)
    run = bm.sample(model, out=folder / "parts.h5", executor=executor, **told)
    assert len(cuts(read_settings(run.config["sample"]))) > 1
    assert_same_run(folder / "alone.h5", folder / "parts.h5")
    assert {path.name for path in folder.iterdir()} == {"alone.h5", "parts.h5"}


@pytest.mark.parametrize(
    "name", ["gibbs", *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name != "gibbs")]
)
def test_parts_are_joined_to_the_bytes_of_the_whole(name: str, tmp_path: Path, threads: Executor) -> None:
    compare(tmp_path, name, threads)
    model, own = CASES[name]
    assert_same(bm.open(tmp_path / "alone.h5"), bm.sample(model, executor=threads, **{**SMALL, **own}))


@pytest.mark.parametrize("name", ["tempering", pytest.param("gibbs", marks=pytest.mark.slow)])
def test_a_part_whose_worker_is_killed_goes_on_by_another(
    name: str, tmp_path: Path, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, resumed, execute, resume = tmp_path / "mark", tmp_path / "resumed", part.execute, part.store.resume

    def kill_once(task: Any, rows: Any) -> None:
        if task.progress[0] >= 20 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(part, "execute", lambda *a, **o: execute(*a, **{**o, "progress": kill_once}))
    monkeypatch.setattr(part.store, "resume", lambda *a, **o: (resumed.touch(), resume(*a, **o))[1])
    monkeypatch.setattr("fastbm.runs.sample.pace.BLOCK_SECONDS", 1e-9)
    folder = tmp_path / "runs"
    folder.mkdir()
    compare(folder, name, pool, commit_seconds=0.0)
    assert mark.exists() and resumed.exists()


@pytest.mark.parametrize(("executor", "damaged"), [(False, True), (True, False)])
def test_a_coordinator_that_is_killed_goes_on_from_the_parts(
    executor: bool, damaged: bool, tmp_path: Path, pool: Pool
) -> None:
    model, own = CASES["betas"]
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    bm.sample(model, out=whole, **{**SMALL, **own})

    def begin() -> None:
        def leave(task: Any, rows: Any) -> None:
            if task.progress[0]:
                os._exit(9)

        with ThreadPoolExecutor(1) as alone:
            bm.sample(model, out=path, executor=alone, **{**SMALL, **own, "progress": leave})

    machines.close_pools()
    assert crash.run_child(begin) == 9
    there = sorted(file.name for file in (tmp_path / "run.h5.chains").glob("*.h5"))
    assert there and len(there) < 3
    if damaged:
        file = tmp_path / "run.h5.chains" / there[0]
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    assert not bm.open(path).finished and not bm.open(path).has_states
    with pytest.warns(UserWarning, match="computed again") if damaged else nullcontext():
        run = bm.resume(path, executor=pool if executor else None, progress=False)
    assert run.finished
    assert_same_run(whole, path)
    assert not (tmp_path / "run.h5.chains").exists()


def test_a_stop_commits_the_parts_and_nothing_is_lost(tmp_path: Path, threads: Executor) -> None:
    model, own = CASES["betas"]
    path, options = tmp_path / "run.h5", {**SMALL, **own, "n_sweeps": 4_000, "thin": 100}
    with pytest.raises(bm.Interrupted, match=r"after chain \d+ of 192; nothing is lost") as stopped:
        bm.sample(model, out=path, executor=threads, **options | {"progress": lambda *_: signal.raise_signal(2)})
    assert stopped.value.run.path == path
    assert bm.resume(path, executor=threads, max_seconds=0.0).finished is False
    whole = bm.sample(model, **options)
    assert_same(bm.resume(path, executor=threads, progress=False), whole)


def test_rows_that_are_joined_when_the_coordinator_is_killed_are_not_joined_again(tmp_path: Path) -> None:
    model, own = CASES["gibbs"]
    options = {**SMALL, **own, "commit_seconds": 0.0}
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    bm.sample(model, out=whole, **options)

    def begin() -> None:
        parts.InFiles.block_bytes, commit.STATE_SHARE = 1 << 12, 1e9  # a commit after each block
        join, seen = parts.PartsTask._join, []

        def leave(task: Any, source: Any) -> Any:
            seen.append(sum(task.n_written().values()))
            time.sleep(0.05)  # for the commit
            if len(seen) > 4:
                os._exit(9)
            return join(task, source)

        parts.PartsTask._join = leave  # type: ignore[method-assign]
        with ThreadPoolExecutor(2) as alone:
            bm.sample(model, out=path, executor=alone, **options)

    machines.close_pools()
    assert crash.run_child(begin) == 9
    assert 0 < len(bm.open(path).energy) < 60
    bm.resume(path, observables={"all": own["observables"]["all"]}, progress=False)
    assert_same_run(whole, path)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("64 chains are one part", {}),
        ("until looks at all chains", {"until": {"ess": 10}, "n_chains": 128}),
        ('burn_in="auto" looks at all chains', {"burn_in": "auto", "n_chains": 128}),
        ("culled together", {"sampler": "population-annealing", "n_chains": 128, "n_sweeps": 2}),
    ],
)
def test_what_is_not_cut_is_done_here(text: str, options: dict[str, Any], threads: Executor) -> None:
    with pytest.warns(UserWarning, match=f"{text}.*: the run is done here"):
        run = bm.sample(GLASS, executor=threads, **{**SMALL, **options})
    assert_same(run, bm.sample(GLASS, **{**SMALL, **options}))


def test_what_makes_no_sense_with_an_executor_is_refused(tmp_path: Path, threads: Executor) -> None:
    with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor; got int"):
        bm.sample(GLASS, executor=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_seconds with an executor needs out=PATH:"):
        bm.sample(GLASS, n_chains=128, kernel="dense", executor=threads, max_seconds=1.0)
    with pytest.raises(ValueError, match="n_chains for each beta and clamped pattern must be even; got 131"):
        bm.sample(GLASS, n_chains=131, executor=threads, observables=["overlap"], out=tmp_path / "run.h5")
    assert not list(tmp_path.iterdir())


def test_a_worker_that_cannot_do_a_part_says_why(tmp_path: Path) -> None:
    job = part.PartJob("part.h5", 64, whole=str(tmp_path / "run.h5"))
    assert "does not see" in job.refusal() and "leave out `out`" in job.refusal()
    assert "fastbm is" in replace(job, versions=("0.0", "0.0", "0.0")).refusal()


def test_cuts_depend_on_the_settings_of_the_whole_alone() -> None:
    def sizes(**options: Any) -> list[int]:
        run = bm.sample(GLASS, **{**SMALL, "n_sweeps": 0, **options})
        return [end - first for first, end in cuts(read_settings(run.config["sample"]))]

    assert sizes(n_chains=150, kernel="sparse") == [64, 64, 22]
    assert sizes(n_chains=256, kernel="lookup") == [128, 128]
    assert sizes(n_chains=10, sampler="tempering", betas=list(np.linspace(0.1, 1.0, 16)), kernel="sparse") == [4, 4, 2]
    assert sizes(n_chains=70, sampler="tempering", betas=[0.1, 1.0], kernel="lookup") == [64, 6]


def test_a_file_runs_by_processes_of_ones_own(tmp_path: Path, pool: Pool) -> None:
    file = tmp_path / "sample.toml"
    file.write_text('[model]\nname = "curie_weiss"\nn = 12\n[sample]\nn_chains = 70\nn_sweeps = 20\nkernel = "dense"\n')
    assert call("run", file, "--out", tmp_path / "alone.h5", "-q") == 0
    assert call("run", file, "--out", tmp_path / "run.h5", "-q", "--max-seconds", "0", "--workers", "2") == 3
    assert call("resume", tmp_path / "run.h5", "-q", "--workers", "2") == 0
    assert_same_run(tmp_path / "alone.h5", tmp_path / "run.h5")


RUNS: dict[str, dict[str, Any]] = {
    "gibbs": {"n_chains": 200, "beta": 0.8, "thin": 20, "kernel": "dense", "observables": ["overlap"]},
    "tempering": {"sampler": "tempering", "betas": [0.3, 0.9, 1.5], "n_chains": 80, "kernel": "dense", "thin": 20},
    "annealing": {"sampler": "annealing", "n_chains": 200, "beta": 2.0, "schedule": "adaptive"},
}


def sample_all(executor: Executor, kills: str) -> None:
    """Run each sampler by workers and alone in the present folder; one of the first run's workers is killed if told."""
    common: dict[str, Any] = {"n_sweeps": 4000, "seed": 5, "progress": False, "commit_seconds": 0.05}
    if kills == "kills":
        threading.Thread(target=kill_one, daemon=True).start()
    for name, own in RUNS.items():
        bm.sample(GLASS, out=f"{name}.h5", executor=executor, **common, **own)
        bm.sample(GLASS, out=f"{name}-alone.h5", **common, **own)


def kill_one() -> None:
    """Kill the worker that is seen first to write a part."""
    while not (locks := list(Path().glob("*.chains/*.parts/lock"))):
        time.sleep(0.001)
    os.kill(int(locks[0].read_text().split()[3]), signal.SIGKILL)


@pytest.mark.parametrize(("way", "n"), ways.WAYS)
def test_workers_of_all_kinds_give_the_bytes_of_runs_alone(way: str, n: int, tmp_path: Path) -> None:
    kills = "kills" if way == "dask" else ""
    ways.run_by(way, n, f"{__name__}:sample_all", kills, folder=tmp_path)
    assert not list(tmp_path.glob("*.chains"))
    for name in RUNS:
        assert_same_run(tmp_path / f"{name}-alone.h5", tmp_path / f"{name}.h5")
