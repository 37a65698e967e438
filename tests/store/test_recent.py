"""The last of a run, read from its end; and the whole part of one that is damaged."""

import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from fastbm._base.checks import StorageError
from fastbm.store import commit_at, counters, is_there, last_commit, last_rows, merge_parts, open_reader, resume
from tests.support import store
from tests.support.store import N_BLOCKS, append, begun, check_rows, complete, rows_of

tmp_path = store.tmp_path


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def segment(parts: Path, number: int) -> Path:
    return parts / f"seg-{number:08d}.h5"


def test_commits_and_their_counters(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    assert not is_there(path)
    parts = begun(path, 6)
    assert is_there(path)
    reader = open_reader(path)
    last = last_commit(reader)
    assert (last.number, last.n_blocks) == (6, 6)
    assert last.time == os.stat(segment(parts, 6)).st_mtime
    assert counters(reader, last, ("rng", "none")) == {"rng": np.array([13], np.uint64)}
    third = commit_at(reader, 3)
    assert third.n_blocks == 3
    assert counters(reader, third, ("rng",))["rng"] == 10
    complete(path)
    reader.refresh()
    merged = last_commit(reader)
    assert (merged.number, merged.n_blocks) == (-1, N_BLOCKS)
    assert counters(reader, merged, ("rng",))["rng"] == 7 + N_BLOCKS


def test_states_of_their_own_are_read_and_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.store.commit.LARGE_STATE_BYTES", 0)
    begun(tmp_path / "run.h5", 8)
    reader = open_reader(tmp_path / "run.h5")
    assert counters(reader, last_commit(reader), ("rng",))["rng"] == 15
    with pytest.raises(OSError):
        counters(reader, commit_at(reader, 3), ("rng",))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(("n_rows", "n_commits"), [(1, 1), (5, 64), (100, 2), (100, 100)])
def test_the_last_rows(tmp_path: Path, n_rows: int, n_commits: int, merged: bool) -> None:
    begun(tmp_path / "run.h5", 6)
    if merged:
        complete(tmp_path / "run.h5")
    n_blocks = N_BLOCKS if merged else 6
    reader = open_reader(tmp_path / "run.h5")
    whole = np.concatenate([rows_of(block)["samples/energy"] for block in range(n_blocks)])
    start, rows = last_rows(reader, "samples/energy", n_rows, n_commits)
    wanted = min(n_rows, len(whole) if merged else 2 * n_commits, len(whole))
    assert start == len(whole) - wanted
    assert np.array_equal(rows, whole[start:])


def test_the_last_rows_open_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path / "run.h5", 100)
    reader = open_reader(tmp_path / "run.h5")
    opened: list[str] = []
    file = h5py.File

    def counted(path, *arguments, **options):
        opened.append(str(path))
        return file(path, *arguments, **options)

    monkeypatch.setattr(h5py, "File", counted)
    start, rows = last_rows(reader, "samples/energy", 4, 64)
    assert (start, len(rows)) == (196, 4)
    assert len(set(opened)) <= 12


@pytest.mark.parametrize("number", [1, 3, 6])
def test_the_whole_part_of_a_damaged_run(tmp_path: Path, number: int) -> None:
    path = tmp_path / "run.h5"
    parts = begun(path, 6)
    flip(segment(parts, number))
    with pytest.raises(StorageError, match="sha256 differs"):
        open_reader(path).read("samples/energy")
    reader = open_reader(path, cut=True)
    assert f"seg-{number:08d}.h5 is damaged: sha256 differs" in reader.damage
    safe = f"Blocks 0-{number - 2}" if number > 1 else "No blocks"
    assert f"{safe} are whole; resume the run" in reader.damage
    check_rows(reader, number - 1)
    assert reader.n_blocks == number - 1
    assert reader.state["rng"] == 7 + number - 1
    reader.refresh()
    check_rows(reader, number - 1)
    assert {one.name for one in parts.iterdir()} == {"lock", *(f"seg-{k:08d}.h5" for k in range(7))}


def test_a_missing_segment_ends_the_whole_part(tmp_path: Path) -> None:
    parts = begun(tmp_path / "run.h5", 6)
    segment(parts, 4).unlink()
    reader = open_reader(tmp_path / "run.h5", cut=True)
    assert "seg-00000004.h5 is missing. Blocks 0-2 are whole" in reader.damage
    check_rows(reader, 3)


def test_a_damaged_state_of_its_own_ends_the_whole_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.store.commit.LARGE_STATE_BYTES", 0)
    path = tmp_path / "run.h5"
    parts = begun(path, 6)
    flip(parts / "state-00000006.h5")
    with pytest.raises(StorageError, match=r"run.h5 is damaged: .*parts/state-00000006.h5: sha256 differs."):
        _ = open_reader(path).state
    reader = open_reader(path, cut=True)
    assert "state-00000006.h5 is damaged: sha256 differs. Blocks 0-4 are whole" in reader.damage
    check_rows(reader, 5)
    with pytest.warns(UserWarning), resume(path) as writer:  # a resume begins where the reader ended
        assert writer.n_blocks == 5


def test_sound_runs_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begun(path, 6)
    reader = open_reader(path, cut=True)
    assert not reader.damage
    check_rows(reader, 6)
    complete(path, merge=False)
    merge_parts(path)
    reader = open_reader(path, cut=True)
    assert not reader.damage
    check_rows(reader, N_BLOCKS)


def test_what_was_computed_again_is_read_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    parts = begun(path, 6)
    flip(segment(parts, 4))
    with pytest.warns(UserWarning, match="Set aside"), resume(path) as writer:
        append(writer, writer.n_blocks, 7)
    reader = open_reader(path, cut=True)
    assert not reader.damage
    check_rows(reader, 7)


@pytest.mark.parametrize(
    ("flipped", "missing", "text"),
    [
        ([6], [], "seg-00000006.h5 is damaged: sha256 differs. Blocks 0-4 are whole"),
        ([], [4], "seg-00000004.h5 is missing. Blocks 0-2 are whole"),
        ([1], [4], "seg-00000004.h5 is missing. No blocks are whole"),
    ],
)
def test_a_run_that_cannot_be_opened_tells_what_is_whole(
    tmp_path: Path, flipped: list[int], missing: list[int], text: str
) -> None:
    path = tmp_path / "run.h5"
    parts = begun(path, 6)
    for number in flipped:
        flip(segment(parts, number))
    for number in missing:
        segment(parts, number).unlink()
    with pytest.raises(StorageError, match=re.escape(text)):
        open_reader(path)
