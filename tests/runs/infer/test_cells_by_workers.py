"""Comparisons and estimates done by workers: the bytes of one process, whatever stops or dies on the way."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.runs.infer.cells import Cells
from fastbm.runs.planted import task as planted
from fastbm.runs.toml import file as config
from tests.support import crash, machines
from tests.support.machines import assert_same_inference, calm, machine

MODELS = {"glass": bm.models.sherrington_kirkpatrick(10, seed=1), "layers": machine("restricted")}
AIS = {"n_chains": 100, "n_betas": 20, "witness": False}
METHODS: dict[str, dict[str, Any]] = {
    "exact": {},
    "ais": AIS,
    "gibbs": {"n_chains": 4, "n_sweeps": 16, "witness": False},
    "importance-sampling": {"n_samples": 100},  # not of a glass
    "mean-field": {},
}
RULES: list[Any] = ["tap", {"method": "rise", "l1": 0.02}, "pseudolikelihood"]
ROWS: dict[str, Any] = {"beta": 0.5, "n_rows": 50, "seed": [0, 1]}


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two workers, forked: nothing is imported again."""
    machines.close_pools()
    with forked() as found:
        yield found


def forked() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(2, mp_context=get_context("fork"), initializer=bm.workers.initialise)


def compare(path: Path | None, executor: Executor | None = None, **more: Any) -> None:
    about: dict[str, Any] = {"beta": [0.2, 2.0], "seed": [0, 1], "commit_seconds": 0}
    bm.compare(MODELS, METHODS, out=path, executor=executor, **about | more)


def compare_rules(path: Path | None, executor: Executor | None = None, **more: Any) -> None:
    bm.compare_rules(MODELS, RULES, out=path, executor=executor, commit_seconds=0, **ROWS | more)


CALLS: dict[str, Callable[..., None]] = {"compare": compare, "compare_rules": compare_rules}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind that one process did."""
    folder = tmp_path_factory.mktemp("whole")
    for name, call in CALLS.items():
        call(folder / f"{name}.h5", threads=1)
    return folder


def after(n: int, act: Callable[[], object]) -> Callable[[Any, Any], None]:
    """What is told of every block, and acts once."""
    seen: list[int] = []

    def progress(task: Any, rows: Any) -> None:
        seen.append(1)
        if len(seen) == n:
            act()

    return progress


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("name", CALLS)
def test_bytes_are_the_same_whoever_computes(
    name: str, whole: Path, pool: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CALLS[name](tmp_path / "pool.h5", pool)
    crash.assert_same_run(whole / f"{name}.h5", tmp_path / "pool.h5")
    monkeypatch.setattr(planted, "FEWEST_PLACES", 1)  # the rules on a set of rows go together
    before = warnings.filters[:]
    with ThreadPoolExecutor(1) as threads:
        CALLS[name](tmp_path / "threads.h5", threads, threads=2)
    assert warnings.filters == before
    crash.assert_same_run(whole / f"{name}.h5", tmp_path / "threads.h5")


@pytest.mark.parametrize("name", CALLS)
def test_what_was_stopped_goes_on_with_or_without_workers(
    name: str, whole: Path, pool: ProcessPoolExecutor, tmp_path: Path
) -> None:
    path = tmp_path / "run.h5"
    with pytest.raises(bm.Interrupted, match="stopped by SIGINT after cell 2 of"):
        CALLS[name](path, progress=after(2, interrupt))
    with pytest.raises(bm.Interrupted, match="stopped by SIGINT after cell"):
        bm.resume(path, executor=pool, progress=after(3, interrupt))
    assert not bm.open(path).finished

    def leave() -> None:
        for process in pool._processes.values():
            os.kill(process.pid, signal.SIGINT)  # which breaks off their pieces

    bm.resume(path, executor=pool, progress=after(2, leave))
    crash.assert_same_run(whole / f"{name}.h5", path)


@pytest.mark.parametrize("name", CALLS)
def test_a_dead_worker_is_told_in_one_line_and_costs_no_bit(
    name: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.h5"
    machines.close_pools()
    with monkeypatch.context() as patch:
        patch.setattr(Cells, "do", lambda *_: os._exit(9))
        patch.setattr(planted.InverseTask, "_row", lambda *_: os._exit(9))
        with forked() as dying, pytest.raises(bm.Interrupted, match=r"the executor does no more .* what was committed"):
            CALLS[name](path, dying)
    bm.resume(path)
    crash.assert_same_run(whole / f"{name}.h5", path)


def test_what_fits_a_budget_is_found_once_for_all_seeds(pool: Executor, tmp_path: Path) -> None:
    path, seeds = tmp_path / "run.h5", [0, 1, 2]
    methods = {"ais": {"witness": False, "n_chains": 16}, "gibbs": {"witness": False, "thin": 100}, "mean-field": {}}
    about = {"budget": 0.1, "beta": [0.2, 0.5], "seed": seeds, "moments": False, "commit_seconds": 0}
    with pytest.raises(bm.Interrupted, match="after cell 0 of 18"):
        bm.compare(MODELS["glass"], methods, **about, out=path, executor=pool, progress=after(3, interrupt))
    found = bm.resume(path, executor=pool).comparison
    assert len(found) == 18
    for beta in (0.2, 0.5):
        sized = [cell.result.detail["sized"] for cell in found.cells if (cell.method, cell.beta) == ("ais", beta)]
        assert sized[0] == sized[1] == sized[2] and sized[0]["n_betas"] >= 20
        again = bm.infer(MODELS["glass"], "ais", beta=beta, seed=2, moments=False, **methods["ais"] | sized[0])
        one = next(cell for cell in found.cells if (cell.method, cell.beta, cell.seed) == ("ais", beta, 2))
        assert one.result.log_z == again.log_z
    assert all("n_sweeps // thin must be" in str(c.skipped) for c in found.cells if c.method == "gibbs")


CLAMP = ([0, 1], np.array([[1, 1], [1, -1], [-1, 1]]))


@pytest.mark.parametrize(
    ("model", "method", "options"),
    [
        ("glass", "ais", {"bracket": True, "start": "tempering"}),
        ("layers", "ais", {"walk": "marginal"}),
        ("layers", "reverse-ais", {"source": "exact"}),
        ("glass", "tempering", {"n_chains": 4, "n_sweeps": 20, "n_betas": 4}),
        ("glass", "ais", {"clamp": CLAMP}),
        ("glass", "mean-field", {"clamp": CLAMP}),
    ],
)  # fmt: skip
def test_estimates_have_the_same_bits(model: str, method: str, options: dict[str, Any], pool: Executor) -> None:
    few = {"n_chains": 100, "n_betas": 20} if "ais" in method else {}
    alone = calm(bm.infer, MODELS[model], method, beta=0.5, **few | options)
    assert_same_inference(calm(bm.infer, MODELS[model], method, beta=0.5, executor=pool, **few | options), alone)


FILE = """
[model]
name = "sherrington_kirkpatrick"
n = 8
seed = [0, 1]

[compare]
methods = ["mean-field", "exact"]
beta = [0.1, 0.2]
"""


def test_the_command_line_hands_a_comparison_to_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machines.close_pools()
    monkeypatch.setattr(bm.workers, "METHODS", ("fork",))
    file, path = tmp_path / "file.toml", tmp_path / "run.h5"
    file.write_text(FILE)

    def call(*words: object) -> int:
        with pytest.raises(SystemExit) as left:
            cli.main([str(word) for word in words])
        return int(left.value.code or 0)

    assert call("run", file, "--out", path, "--part", "1/2") == 2
    assert "--part goes with campaigns" in capsys.readouterr().err
    assert call("compare", file, "-q", "--out", path, "--workers", 2, "--max-seconds", 0) == 3
    assert call("resume", path, "-q", "--workers", 2) == 0
    config.call(config.read(file, []), "compare")(out=tmp_path / "alone.h5")
    crash.assert_same_run(tmp_path / "alone.h5", path)


def test_what_is_no_executor_is_refused() -> None:
    executor: Any = 2
    for call in CALLS.values():
        with pytest.raises(TypeError, match=r"executor must be a concurrent\.futures\.Executor; got int"):
            call(None, executor)
