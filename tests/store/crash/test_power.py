"""The power goes at any instant: what was said to be safe is there, and the run ends as if nothing had happened."""

from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.store.crash import power_cuts
from tests.store.crash.power_cuts import PAGE, Disk, File
from tests.store.crash.stories import N_BLOCKS, large_states, stage, stopped

STORIES = ("run", "short", "large-states", "extension", "replacement", "replacement-of-parts", "merge")


@pytest.mark.parametrize("name", STORIES)
def test_power_cuts(folder: Path, name: str) -> None:
    log = power_cuts.check(stage(name), folder, 7)
    assert max(n_blocks for _, n_blocks in log.safe) >= N_BLOCKS


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_power_cuts_often(folder: Path, name: str) -> None:
    power_cuts.check(stage(name), folder, 60, seed=1)


@pytest.mark.parametrize(("step", "every"), [(4096, 7), pytest.param(64, 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["seg", "state"])
def test_any_part_of_the_last_file_may_be_zeros(folder: Path, kind: str, step: int, every: int) -> None:
    whole = stage("run").whole
    with large_states() if kind == "state" else nullcontext():
        (folder / "before").mkdir()
        parts = stopped(folder / "before" / "run.h5", 3)
        last = max(parts.glob(f"{kind}-*.h5")).name
        assert power_cuts.check_torn(parts, last, whole, folder / "after", step, every) > 20


def test_a_disk_that_was_synced_loses_nothing_and_one_that_was_not_may_lose_all(folder: Path) -> None:
    disk, data = Disk({"old": b"old"}), bytes(range(256)) * 64
    disk.do("make_folder", Path("parts"))
    disk.do("create", Path("parts/a.tmp"))
    disk.do("write", Path("parts/a.tmp"), 0, data)
    found = set()
    for seed in range(40):
        disk.cut(folder / "after", random.Random(seed))
        there = folder / "after" / "parts" / "a.tmp"
        found.add(there.read_bytes() if there.exists() else None)
        assert (folder / "after" / "old").read_bytes() == b"old"
    assert {None, data, b""} <= found
    assert any(one is not None and one not in (data, b"") for one in found)
    disk.do("sync", Path("parts/a.tmp"))
    disk.do("rename", Path("parts/a"), Path("parts/a.tmp"))
    disk.do("unlink", Path("old"))
    disk.do("sync_folder", Path("parts"))
    disk.do("sync_folder", Path("."))
    disk.cut(folder / "after", random.Random(0))
    assert [path.name for path in (folder / "after").iterdir()] == ["parts"]
    assert (folder / "after" / "parts" / "a").read_bytes() == data


def test_pages_are_kept_one_by_one() -> None:
    file = File(b"x" * 3 * PAGE, [(100, b"y" * 2 * PAGE)])
    found = {file.draw(random.Random(seed)) for seed in range(60)}
    assert len(found) > 8
    for data in found:
        assert len(data) == 3 * PAGE
        assert data[:100] + data[100 + 2 * PAGE :] == b"x" * PAGE
