"""A run that is resumed or extended ends as the one that was never interrupted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from fastbm._base.checks import StorageError
from fastbm.store import merge_parts, open_reader, resume
from tests.support import crash, store
from tests.support.store import N_BLOCKS, SPEC, append, begin, check_rows, complete, state_after

tmp_path = store.tmp_path
whole = store.whole


@pytest.mark.parametrize("stops", [[], [0], [3], [1, 1, 5, 7], [8]])
def test_a_resumed_run_ends_as_the_uninterrupted_one(tmp_path: Path, whole: Path, stops: list[int]) -> None:
    path = tmp_path / "run.h5"
    begin(path).close()
    for stop in stops:
        with resume(path, spec=SPEC) as writer:
            append(writer, writer.n_blocks, stop)
            append(writer, stop, stop + 1, commit_each=False)  # lost: it was never committed
    complete(path)
    crash.assert_same_run(whole, path)


def test_how_commits_fall_changes_nothing(tmp_path: Path, whole: Path) -> None:
    with begin(tmp_path / "run.h5", commit_bytes=1) as writer:
        append(writer, 0, 3, commit_each=False)
        append(writer, 3, N_BLOCKS, commit_each=False)
        writer.finish(state_after(N_BLOCKS))
    crash.assert_same_run(whole, tmp_path / "run.h5")


def test_a_finished_run_is_left_as_it_is(whole: Path) -> None:
    before = whole.read_bytes()
    with resume(whole, spec=SPEC) as writer:
        assert writer.finished
        assert writer.n_blocks == N_BLOCKS
        assert writer.state["rng"].tolist() == [7 + N_BLOCKS]
        with pytest.raises(StorageError, match="is finished"):
            writer.append({}, dict)
        writer.finish({})
    assert whole.read_bytes() == before
    assert os.listdir(whole.parent) == ["whole.h5"]


@pytest.mark.parametrize("merged", [True, False])
def test_a_longer_run_is_the_same_begun_long_or_extended(tmp_path: Path, merged: bool) -> None:
    longer = {**SPEC, "n_chains": 8}
    with begin(tmp_path / "long.h5", spec=longer) as writer:
        append(writer, 0, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    path = tmp_path / "run.h5"
    with begin(path, merge=merged) as writer:
        append(writer, 0, 3)
        writer.finish(state_after(3))
    with resume(path, extend_spec=longer) as writer:
        assert (writer.n_blocks, writer.finished, writer.spec) == (3, False, longer)
        append(writer, 3, 5)
    with open_reader(path) as reader:
        check_rows(reader, 5)
        assert reader.spec == longer
        assert not reader.finished
    with pytest.raises(StorageError, match=r"is not finished \(5 blocks\)"):
        resume(path, extend_spec={**longer, "n_chains": 16})
    with resume(path, spec=longer, extend_spec=longer) as writer:
        append(writer, 5, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    if not merged:
        assert not path.exists()
        merge_parts(path)
    crash.assert_same_run(tmp_path / "long.h5", path)
    assert resume(path, extend_spec=longer).finished


def test_the_first_part_of_an_extended_run_may_not_change(tmp_path: Path, whole: Path) -> None:
    with resume(whole, extend_spec={**SPEC, "n_chains": 8}) as writer:
        append(writer, N_BLOCKS, N_BLOCKS + 1)
    other = complete(tmp_path / "other.h5", spec={"other": 1})
    kept = whole.read_bytes()
    whole.unlink()
    with pytest.raises(StorageError, match=r"the first part of the run in .*parts, is missing"):
        open_reader(whole)
    shutil.copy(other, whole)
    with pytest.raises(StorageError, match="are of different runs"):
        resume(whole)
    whole.write_bytes(kept)
    with open_reader(whole) as reader:
        check_rows(reader, N_BLOCKS + 1)
