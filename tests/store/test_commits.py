"""When the store commits, what a commit holds, and what readers of a live run see of it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from fastbm._base.checks import StorageError
from fastbm.store import commit, open_reader, resume, schema
from fastbm.store.names import Names
from fastbm.store.writer import Writer
from tests.support import store
from tests.support.store import STREAMS, append, begin, check_rows, rows_of, state_after

tmp_path = store.tmp_path


def test_state_is_asked_for_only_when_a_commit_is_due(tmp_path: Path) -> None:
    asked = []
    with begin(tmp_path / "run.h5", commit_bytes=3 * 88) as writer:
        for block in range(0, 12, 2):  # 88 bytes each
            writer.append(rows_of(block), lambda block=block: asked.append(block) or state_after(block))
            writer._committer.wait()
    assert asked == [4, 10]
    assert open_reader(tmp_path / "run.h5").n_blocks == 6


def test_a_commit_is_due_after_its_seconds(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5", commit_seconds=0.05) as writer:
        append(writer, 0, 1, commit_each=False)
        writer._committer.wait()  # where this one took so long that it was due already
        time.sleep(0.06)
        append(writer, 1, 2, commit_each=False)
    assert open_reader(tmp_path / "run.h5").n_blocks == 2


def test_a_large_state_stretches_the_interval() -> None:
    pace = commit.Pace(seconds=0.0, n_bytes=10)
    assert pace.due(0)
    pace.committed(commit_seconds=30.0, state_bytes=900, all_bytes=1000)
    assert not pace.due(300)  # the state took 27 s, so nothing is due for 900 s,
    assert pace.due(900)  # unless waiting rows outweigh it


def test_arrays_are_copied(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5") as writer:
        rows, state = rows_of(0), state_after(1)
        writer.append(rows, lambda: state)
        rows["samples/energy"][...] = np.nan
        writer.commit(state)
        state["rng"][...] = 0
        assert writer.state["rng"].tolist() == [8]
    check_rows(open_reader(tmp_path / "run.h5"), 1)


def test_a_reader_of_a_live_run_sees_whole_commits_only(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer, open_reader(path) as reader:
        for block in range(4):
            append(writer, block, block + 1, commit_each=False)
            reader.refresh()
            assert reader.n_blocks == block
            assert reader.live
            writer.commit(state_after(block + 1))
            assert reader.n_blocks == block  # until it looks again
            reader.refresh()
            check_rows(reader, block + 1)
        writer.finish(state_after(4))
        check_rows(reader, 4)  # the parts are gone from under it
        assert reader.finished
        assert not reader.live


def test_a_reader_that_looks_seldom_finds_all_that_was_committed(tmp_path: Path) -> None:
    with begin(tmp_path / "run.h5") as writer:
        append(writer, 0, 1)
        reader, done = open_reader(writer.path), 1
        for more in (1, 2, 3, 6, 7, 13):
            append(writer, done, done + more)
            done += more
            reader.refresh()
            assert reader.n_blocks == done
            check_rows(reader, done)


def test_a_commit_that_fails_at_the_end_is_an_error_unless_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Writer, *, wait: bool) -> None:
        raise StorageError("the disk is full")

    for body, wanted in ((None, StorageError), (ZeroDivisionError, ZeroDivisionError)):
        writer = begin(tmp_path / "run.h5", overwrite=True)
        with pytest.raises(wanted), monkeypatch.context() as patch, writer:
            patch.setattr(Writer, "_collect", fail)
            if body:
                raise body


def test_images_are_a_function_of_their_contents(tmp_path: Path) -> None:
    meta = {"time": 0.0}

    def image(junk: int) -> bytes:
        header = commit.Header("id", 0, 0, 0, "a", "b", index=np.zeros((4, 2), np.int64))
        np.random.default_rng(junk).bytes(junk)
        contents = commit.Contents(schema.check_streams(STREAMS), {}, state_after(1), meta, "{}", {"w": np.eye(3)})
        return commit.segment_image(header, contents)

    assert image(1) == image(100_000)


def test_a_large_state_has_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit, "LARGE_STATE_BYTES", 1000)
    path, n = tmp_path / "run.h5", 40

    def state(block: int) -> dict[str, np.ndarray]:
        return {"chains": np.full(500, block)}

    with begin(path) as writer:
        for block in range(n):
            append(writer, block, block + 1, commit_each=False)
            writer.commit(state(block + 1))
    names = Names(path)
    assert names.state_numbers() == [1, 2, 4, 8, 16, 32, 37, 38, 39, 40]
    assert open_reader(path).state["chains"][0] == n
    for number in (39, 40):
        names.state(number).write_bytes(names.state(number).read_bytes()[:-60])
    with pytest.warns(UserWarning, match=r"seg-00000039.h5 has no whole state: .* 0-37 are whole; 38-39 will"):
        writer = resume(path)
    with writer:
        assert writer.n_blocks == 38
        assert writer.state["chains"].tolist() == [38] * 500
        append(writer, 38, n, commit_each=False)
        writer.finish(state(n))
    with open_reader(path) as reader:
        check_rows(reader, n)
        assert reader.state["chains"][0] == n
