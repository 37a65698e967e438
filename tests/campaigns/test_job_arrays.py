"""Campaigns by several processes at once: as arrays of jobs, by the script of the documentation, and by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.campaigns import shard
from fastbm.store.lock import Lock
from fastbm.store.names import Names
from tests.support.campaign_kills import contents, tables, write

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


def in_between(begin: Callable[..., Any], *arguments: Any) -> None:
    begin(*arguments)
    begin(*arguments)


def that_leaves(begin: Callable[..., Any], *arguments: Any) -> None:
    lock = Lock(Names(arguments[3]))
    try:
        begin(*arguments)
    finally:
        lock.release()


@pytest.mark.parametrize("other", [in_between, that_leaves])
def test_a_shard_that_another_process_has_had_is_done_or_come_back_to(
    other: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bm.campaign(tables(2), out=tmp_path / "whole", threads=1)
    begin, begun = shard.begin, set[str]()

    def disturbed(*arguments: Any) -> None:
        if (path := arguments[3]) in begun:
            begin(*arguments)
        else:
            begun.add(path)
            other(begin, *arguments)

    monkeypatch.setattr(shard, "begin", disturbed)
    found = bm.campaign(tables(2), out=tmp_path / "out", threads=1)
    assert len(begun) == 4 and contents(found.path) == contents(whole.path)


@pytest.mark.slow
def test_a_job_array_does_it_all(tmp_path: Path) -> None:
    whole = bm.campaign(tables(), out=tmp_path / "whole", threads=1)
    script = ROOT / "docs" / "slurm.sh"
    file = write(tmp_path, tables())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SLURM_ARRAY_TASK_COUNT": "2", "PYTHON": sys.executable}
    jobs = [
        subprocess.Popen(
            ["bash", str(script), str(file)], cwd=tmp_path, env={**environment, "SLURM_ARRAY_TASK_ID": str(k)}
        )
        for k in (1, 2)
    ]
    assert [job.wait() for job in jobs] == [0, 0]
    assert contents(tmp_path / "campaign") == contents(whole.path)


@pytest.mark.slow
def test_a_job_that_is_told_to_stop_is_requeued(tmp_path: Path) -> None:
    said = tables()
    said["sample"] |= {"n_sweeps": 10**9, "thin": 10**6}
    queue = tmp_path / "scontrol"
    queue.write_text(f'#!/bin/bash\necho "$@" > {tmp_path}/told\n')
    queue.chmod(0o755)
    of_slurm = {"JOB_ID": "77", "ARRAY_JOB_ID": "70", "ARRAY_TASK_ID": "2", "ARRAY_TASK_COUNT": "2"}
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    environment = {**os.environ, **paths, **{f"SLURM_{name}": value for name, value in of_slurm.items()}}
    words = ["bash", str(ROOT / "docs" / "slurm.sh"), str(write(tmp_path, said))]
    with subprocess.Popen(words, cwd=tmp_path, env=environment) as job:
        while job.poll() is None and not list(tmp_path.glob("campaign/shards/*.attempts")):
            time.sleep(0.05)
        job.terminate()
        assert job.wait(timeout=60) == 3
    assert (tmp_path / "told").read_text() == "requeue 70_2\n"
    assert bm.open(tmp_path / "campaign").status.stalled == 1
