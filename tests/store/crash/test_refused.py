"""Disks that are full or fail: what they refuse is raised, and nothing committed is lost."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from fastbm._base.checks import StorageError
from fastbm.store import disk, merge_parts, open_reader, resume
from fastbm.store.merge import merge
from fastbm.store.names import Names
from tests.support import crash, store
from tests.support.store import N_BLOCKS, append, begin, begun, check_rows, complete, refused, state_after

tmp_path = store.tmp_path
whole = store.whole


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (errno.ENOSPC, r"no space left in .* \(needed 0.0 MB, .* MB free\). Blocks 0-1 are safe. Free space, then re"),
        (errno.EDQUOT, r"disk quota exceeded in .* Blocks 0-1 are safe. Free space, then resume."),
        (errno.EIO, r"input/output error in [^()]* Blocks 0-1 are safe. Check the disk, then resume."),
        (
            errno.EFBIG,
            r"files may not become so large in [^()]* Blocks 0-1 are safe. Raise that limit .*, then resume.",
        ),
    ],
)
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_what_the_disk_refuses_is_raised_and_nothing_committed_is_lost(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, code: int, text: str, operation: str
) -> None:
    path = tmp_path / "run.h5"
    with pytest.raises(StorageError, match=text) as told, begin(path, commit_bytes=1) as writer:
        append(writer, 0, 2)

        def fails(*arguments: Any) -> int:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(disk, operation, fails)
            append(writer, 2, 3, commit_each=False)  # fails in the background
            while writer._busy:
                time.sleep(0.001)
            append(writer, 3, 4, commit_each=False)
    assert told.value.resumable and [path.name for path in Names(path).temporaries()] == []
    with open_reader(path) as reader:
        check_rows(reader, 2)
    complete(path)
    crash.assert_same_run(whole, path)


@pytest.mark.parametrize(
    ("owner", "name", "text"),
    [(os, "pwrite", "file too large in .* for the lock"), (disk, "write", "Nothing of .* was begun.* begin it again")],
)
def test_a_run_that_the_disk_refuses_to_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, text: str
) -> None:
    def fails(*arguments: Any) -> int:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    with monkeypatch.context() as patch, pytest.raises(StorageError, match=text) as told:
        patch.setattr(owner, name, fails)
        begin(tmp_path / "run.h5")
    assert not told.value.resumable and not os.listdir(tmp_path)


def test_a_failure_is_raised_at_close_if_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = begin(tmp_path / "run.h5", commit_bytes=1)
    monkeypatch.setattr(disk, "write", lambda handle, data, offset: 0)
    append(writer, 0, 1, commit_each=False)
    with pytest.raises(StorageError, match="input/output error"):
        writer.close()
    writer.close()
    monkeypatch.undo()
    resume(tmp_path / "run.h5").close()


def test_short_writes_are_completed(tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "write", lambda handle, data, offset: os.pwrite(handle, data[:701], offset))
    crash.assert_same_run(whole, complete(tmp_path / "run.h5"))


def test_a_disk_that_fills_up_in_the_merge_leaves_the_parts(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, N_BLOCKS)
        with monkeypatch.context() as patch, pytest.raises(StorageError, match="no space left"):
            patch.setattr("fastbm.store.merge.file.disk", Full(5))
            writer.finish(state_after(N_BLOCKS))
    assert sorted(os.listdir(tmp_path)) == ["run.h5.parts", "whole.h5"]
    with resume(path) as writer:
        assert writer.finished
        writer.finish({})
    crash.assert_same_run(whole, path)


class Full:
    """The file operations, on a disk that takes a few writes more."""

    def __init__(self, n_writes: int) -> None:
        self.n_writes = n_writes

    def __getattr__(self, name: str) -> Any:
        return getattr(disk, name)

    def write_all(self, *arguments: Any) -> int:
        self.n_writes -= 1
        if self.n_writes < 0:
            raise OSError(errno.ENOSPC, "full")
        return disk.write_all(*arguments)


def test_parts_are_kept_when_asked_too_large_or_out_of_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = begun(tmp_path / "asked.h5", merge=False)
    with resume(asked) as writer:
        writer.finish(state_after(6))
    with monkeypatch.context() as patch:
        patch.setattr(merge, "LARGEST_MERGE_BYTES", 1000)
        begun(tmp_path / "large.h5")
        with resume(tmp_path / "large.h5") as writer, pytest.warns(UserWarning, match=r"large.h5 stays in parts: it"):
            writer.finish(state_after(6))
    with monkeypatch.context() as patch:
        begun(tmp_path / "tight.h5")
        with resume(tmp_path / "tight.h5") as writer, pytest.warns(UserWarning, match=r"merging needs .* MB are free"):
            patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 0))
            writer.finish(state_after(6))
    assert sorted(os.listdir(tmp_path)) == ["asked.h5.parts", "large.h5.parts", "tight.h5.parts"]
    for name in ("asked.h5", "large.h5", "tight.h5"):
        with open_reader(tmp_path / name) as reader:
            assert reader.finished
            check_rows(reader, 6)
        merge_parts(tmp_path / name)
        merge_parts(tmp_path / name)
        check_rows(open_reader(tmp_path / name), 6)
    assert sorted(os.listdir(tmp_path)) == ["asked.h5", "large.h5", "tight.h5"]


def test_no_space_at_the_start_begins_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 5_000_000 // 10))
    refused(lambda: begin(tmp_path / "run.h5"), "0.5 MB free). Nothing of ")
    assert os.listdir(tmp_path) == []
