"""Campaigns that are stopped in a cell, or whose workers and coordinators are killed, end as if they had not been."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.runs.infer.cells import Cells
from tests.support import campaign_kills as kills
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


def test_after_kills_of_workers_and_coordinators_the_bytes_are_the_same() -> None:
    check_kills(2, 8, (0.0, 0.1), 0.1)


@pytest.mark.slow
def test_runs_of_cells_go_on_after_kills() -> None:
    check_kills(4, 8, (0.0, 0.1), 0.1, keep="runs")


@pytest.mark.long
def test_after_twenty_kills_of_each_the_bytes_are_the_same() -> None:
    check_kills(20, 20, tuple(k / 10 for k in range(10)), 0.1, n_shards=16)
