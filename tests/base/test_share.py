"""The processors that are a process's share, and who is a worker."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fastbm._base import share, threads


@pytest.fixture
def sixteen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process on sixteen processors, in control groups that stand in a folder."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)))
    monkeypatch.delenv(share.ASKED_OF_SLURM, raising=False)
    monkeypatch.setattr(share, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(share, "OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(share, "is_worker", lambda: False)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("", {}, 16),
        ("0::/job/step\n", {"job/step/cpu.max": "max 100000\n"}, 16),
        ("0::/job/step\n", {"job/step/cpu.max": "max 100000\n", "job/cpu.max": "250000 100000\n"}, 3),
        ("0::/elsewhere\n", {"cpu.max": "50000 100000\n"}, 1),  # in a container
        ("4:cpu,x:/job\n", {"cpu,x/job/cpu.cfs_quota_us": "-1", "cpu,x/job/cpu.cfs_period_us": "9"}, 16),
        ("4:cpu:/job\n", {"cpu/job/cpu.cfs_quota_us": "400000", "cpu/job/cpu.cfs_period_us": "100000"}, 4),
        ("0::/job\n", {"job/cpu.max": "nonsense"}, 16),
    ],
)  # fmt: skip
def test_what_control_groups_grant(sixteen: Path, own: str, files: dict[str, str], expected: int) -> None:
    write(sixteen / "own", own)
    for name, text in files.items():
        write(sixteen / "cgroup" / name, text)
    assert threads.resolve(None) == expected
    assert threads.resolve(7) == 7


@pytest.mark.parametrize(("asked", "expected"), [("3", 3), ("64", 16), ("0", 16), ("many", 16)])
def test_what_slurm_grants(sixteen: Path, monkeypatch: pytest.MonkeyPatch, asked: str, expected: int) -> None:
    monkeypatch.setenv(share.ASKED_OF_SLURM, asked)
    assert threads.resolve(None) == expected


def test_workers_compute_on_one_thread_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "processors", lambda: 8)
    monkeypatch.setattr(share, "is_worker_thread", lambda: False)
    assert threads.resolve(None) == 8
    monkeypatch.undo()
    with share.working():
        with share.working():
            assert threads.resolve(None) == 1
        assert threads.resolve(None) == 1
        found: list[bool] = []
        other = threading.Thread(target=lambda: found.append(share.is_worker_thread()))
        other.start()
        other.join()
        assert found == [False]
    assert not share.is_worker()
    with ProcessPoolExecutor(1) as pool:
        assert pool.submit(threads.resolve, None).result() == 1
        assert pool.submit(threads.resolve, 3).result() == 3
