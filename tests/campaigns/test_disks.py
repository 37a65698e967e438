"""Campaigns whose disk is full, or holds something else where their files belong: one line, and they go on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import fastbm as bm
from fastbm import cli
from fastbm.store.merge import merge
from fastbm.store.names import Names
from tests.support.campaign_kills import contents, tables, write
from tests.support.crash import assert_same_run

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bm.Campaign:
    """A campaign that nothing disturbed."""
    return bm.campaign(tables(keep="runs"), out=tmp_path_factory.mktemp("campaign") / "whole", threads=1)


@contextmanager
def nearly_full(out: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastbm.store.creation.shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
        yield


@contextmanager
def full(out: Path) -> Iterator[None]:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastbm.campaigns.attempts.os", SimpleNamespace(**{**vars(os), "write": refuse}))
        yield


@contextmanager
def folder_of_attempts(out: Path) -> Iterator[None]:
    places = [out / "shards" / f"0-{k:03d}.h5.attempts" for k in range(1, 4)]
    for place in places:
        place.mkdir()
    yield
    for place in places:
        place.rmdir()


@contextmanager
def file_of_cells(out: Path) -> Iterator[None]:
    (out / "cells").rename(out / "aside")
    (out / "cells").touch()
    yield
    (out / "cells").unlink()
    (out / "aside").rename(out / "cells")


Fault = Callable[[Path], AbstractContextManager[None]]
FAULTS: list[tuple[Fault, int, str]] = [
    (nearly_full, 3, r"needed 1\.1 MB, 1\.0 MB free\). Nothing of \S*0-001\.h5 was begun"),
    (full, 3, r"0-001\.h5: No space left on device"),
    (folder_of_attempts, 2, r"0-001\.h5\.attempts: Is a directory"),
    (file_of_cells, 2, r"cells: File exists"),
]


@pytest.mark.parametrize(("fault", "code", "text"), FAULTS)
def test_what_a_disk_refuses_is_one_line_with_the_shards_that_are_left(
    fault: Fault, code: int, text: str, whole: bm.Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write(tmp_path, tables(keep="runs")), tmp_path / "out"
    bm.campaign(file, out=out, part="1/4")
    with fault(out):
        with pytest.raises(SystemExit) as left:
            cli.main(["run", str(file), "--out", str(out), "-q"])
        assert left.value.code == code
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        with pytest.raises(bm.StorageError, match=rf"{text}.*Of 4 shards 3 are left: mend this, then resume") as told:
            bm.campaign(file, out=out)
        assert str(told.value) in error and told.value.resumable == (code == 3)
    assert contents(bm.campaign(file, out=out).path) == contents(whole.path)


def no_room(names: Names) -> str | None:
    return "there is no room" if names.merged.parent.name == "cells" else None


def killed(names: Names) -> None:
    if names.merged.parent.name == "shards":
        remove_parts(names)


remove_parts = merge.remove_parts
LEFT = {  # what leaves a run in parts: one that is not merged, one that is
    "a full disk": ("fastbm.store.writer.reason_to_keep_parts", no_room),
    "a kill": ("fastbm.store.merge.merge.remove_parts", killed),
}


@pytest.mark.parametrize("why", LEFT)
def test_runs_of_cells_that_were_left_in_parts_are_merged_when_a_campaign_is_resumed(
    why: str, whole: bm.Campaign, tmp_path: Path
) -> None:
    out, cells = tmp_path / "out", tmp_path / "out" / "cells"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*LEFT[why])
        found = bm.campaign(tables(keep="runs"), out=out, threads=1)
        assert found.finished and len(list(cells.glob("*.parts"))) == len(found)
        if why == "a full disk":
            with pytest.warns(UserWarning, match="8 runs of cells were not merged: .*: there is no room"):
                found.resume(threads=1)
    bm.sample(bm.models.curie_weiss(4), n_sweeps=10**9, max_seconds=0.0, out=cells / "unfinished.h5")
    bm.resume(out, threads=1)
    assert [path.name for path in cells.glob("*.parts")] == ["unfinished.h5.parts"]
    for path in whole.path.glob("cells/*.h5"):
        assert_same_run(path, cells / path.name)
