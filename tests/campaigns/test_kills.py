"""Campaigns that are stopped in a cell, or whose workers and coordinators are killed, end as if they had not been."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.campaigns.attempts import DIED, MOST_DEATHS, Attempts
from fastbm.runs.fit.task import FitTask
from fastbm.runs.infer.cells import Cells
from fastbm.runs.infer.task import CellsTask
from fastbm.runs.sample.task import SampleTask
from tests.support import campaign_kills as kills, pace
from tests.support.crash import assert_same_run, memory_folder

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


def check_kills(
    n: int, n_betas: int, fields: tuple[float, ...], seconds: float, n_shards: int = 4, keep: str = "summary"
) -> None:
    said = {**kills.tables(n_betas, fields, n_shards=n_shards, keep=keep), "store": {"commit_seconds": 0.0}}
    with memory_folder() as folder:
        whole = bm.campaign(said, out=folder / "whole", threads=1)
        file = kills.write(folder, said)
        n_kills = kills.kill_workers_and_coordinators(file, folder / "killed", n, n, seconds=seconds, between=seconds)
        assert n_kills > n, "the campaign was over too soon"
        assert kills.contents(folder / "killed") == kills.contents(folder / "whole")
        for path in sorted((folder / "whole" / "cells").glob("*")):
            assert_same_run(path, folder / "killed" / "cells" / path.name)
        assert len(whole.table) == n_betas * len(fields)


def test_a_cell_of_infer_that_is_stopped_before_it_has_a_result_is_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"model": {"name": "ising", "shape": [3, 3]}, "infer": {"method": "ais", "n_chains": 8, "n_betas": 4}}
    said["grid"] = {"infer.beta": [0.2, 0.4]}

    def stopped(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60.0)

    with monkeypatch.context() as patch, pytest.raises(bm.Interrupted, match="stopped by SIGTERM after cell 0 of 2"):
        patch.setattr(Cells, "do", stopped)
        bm.campaign(said, out=tmp_path / "out")
    found = bm.campaign(said, out=tmp_path / "out")
    assert found.failed == {} and len(found.table) == 2


ISING = {"name": "ising", "shape": [3, 3]}
CELLS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "sample": (SampleTask, {"model": ISING, "sample": {"n_sweeps": 8, "n_chains": 8}}),
    "compare": (CellsTask, {"model": ISING, "compare": {"methods": ["mean-field", "exact"]}}),
    "fit": (FitTask, {"data": {"source": "bars-and-stripes", "side": 2}, "fit": {"n_hidden": 2, "epochs": 2}}),
}


@pytest.mark.parametrize("verb", CELLS)
def test_a_signal_in_any_block_of_a_cell_leaves_no_row_of_half_a_cell(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, said = CELLS[verb]
    said = {**said, "grid": {f"{verb}.seed": [1, 2]}, "campaign": {"n_shards": 1}}
    advance, n_begun = kind.advance, 0

    def signalled(task: Any) -> Any:
        nonlocal n_begun
        n_begun += 1
        if n_begun == at:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(task)

    monkeypatch.setattr(kind, "advance", signalled)
    with pace.short_blocks():
        at = 0
        whole = bm.campaign(said, out=tmp_path / "whole", threads=1)
        for at in range(1, (n_blocks := n_begun) + 1):
            out, n_begun = tmp_path / f"{at}", 0
            with pytest.raises(bm.Interrupted, match="stopped by SIGINT after cell"):
                bm.campaign(said, out=out, threads=1)
            assert bm.open(out).status.done == (at > n_blocks // 2)
            assert bm.campaign(said, out=out, threads=1).failed == {}
            assert kills.contents(out) == kills.contents(whole.path)


@pytest.mark.parametrize(("at", "n_kills"), [(1, MOST_DEATHS), (2, 8)])
def test_a_run_of_a_cell_is_given_up_only_where_it_comes_no_further(
    at: int, n_kills: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {**kills.tables(1, (0.0,), keep="runs"), "store": {"commit_seconds": 0.0}}
    advance, n_begun = SampleTask.advance, 0

    class Killed(BaseException):
        pass

    def killed(task: Any) -> Any:
        nonlocal n_begun
        n_begun += 1
        if n_begun == at:
            raise Killed
        return advance(task)

    monkeypatch.setattr(SampleTask, "advance", killed)
    monkeypatch.setattr(Attempts, "leave", lambda attempts: None)
    with pace.committed_blocks():
        for _ in range(n_kills):
            n_begun = 0
            with pytest.raises(Killed):
                bm.campaign(said, out=tmp_path / "out", threads=1)
        n_begun = at  # no more kills
        found = bm.campaign(said, out=tmp_path / "out", threads=1)
    assert list(found.failed.values()) == ([DIED.format(n=MOST_DEATHS)] if at == 1 else [])


def test_after_kills_of_workers_and_coordinators_the_bytes_are_the_same() -> None:
    check_kills(2, 8, (0.0, 0.1), 0.1)


@pytest.mark.slow
def test_runs_of_cells_go_on_after_kills() -> None:
    check_kills(4, 8, (0.0, 0.1), 0.1, keep="runs")


@pytest.mark.long
def test_after_twenty_kills_of_each_the_bytes_are_the_same() -> None:
    check_kills(20, 20, tuple(k / 10 for k in range(10)), 0.1, n_shards=16)
