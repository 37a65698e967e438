"""Campaigns as arrays of jobs, by the script of the documentation."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fastbm as bm
from tests.support.campaign_kills import contents, tables, write

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


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
