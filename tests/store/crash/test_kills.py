"""Killed at any file operation, and again while it resumes: a run of arrays ends the same."""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from fastbm._base.checks import StorageError
from fastbm.store import open_reader, resume
from tests.store.crash import fault_points, stories
from tests.store.crash.operations import Operation, die, kill_at
from tests.store.crash.stories import STORIES, check_prefix, stage
from tests.support import crash


def instants(operations: Sequence[Operation], *, every: bool) -> list[int]:
    """The numbers of all operations, or without most of those amid others of their kind."""
    points = [fault_points.point_of(operation) for operation in operations]
    amid = [0 < k < len(points) - 1 and points[k - 1] == points[k] == points[k + 1] for k in range(len(points))]
    return [k for k in range(len(points)) if every or not amid[k] or k % 20 == 0]


def kill_each(name: str, folder: Path, *, every: bool, step: int = 1) -> set[int]:
    """Kill a story at its operations, writes torn, and tell it to its end; return what was found after each kill."""
    told, path, found = stage(name), folder / "run.h5", set()
    for number in instants(told.operations, every=every)[::step]:
        told.set(path)
        assert kill_at(lambda: told.tell(path), number, torn=True) == -signal.SIGKILL, number
        found.add(look(path, told.whole) if not name.startswith("replacement") else look_at_either(path))
        told.tell(path)
        crash.assert_same_contents(told.whole, crash.contents_of(path))
        assert not path.with_name("run.h5.parts").exists()
    return found


def look(path: Path, whole: crash.Contents) -> int:
    """What a reader finds after a kill: a prefix, an error that names the damage, or -1 for no run yet."""
    try:
        return check_prefix(path, whole)
    except StorageError as error:
        assert "does not exist" in str(error) or "is damaged" in str(error)
        return -1


def look_at_either(path: Path) -> int:
    """The old run or the new one is there, whole up to its last commit."""
    with open_reader(path) as reader:
        assert reader.n_rows("samples/energy") == stories.ROWS_A_BLOCK * reader.n_blocks
        return int(reader.spec["seed"])


@pytest.mark.parametrize("name", STORIES)
def test_killed_at_file_operations(folder: Path, name: str) -> None:
    found = kill_each(name, folder, every=False, step=6 if name in ("run", "short") else 29)
    if name == "merge":
        assert found == {stories.N_BLOCKS}, "a merge hides rows for no instant"
    else:
        assert len(found) > 1, "all kills came at one state of the run"


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_killed_at_every_file_operation(folder: Path, name: str) -> None:
    found = kill_each(name, folder, every=True)
    assert found >= ({1, 2} if name.startswith("replacement") else {stories.N_BLOCKS})


def test_files_are_synced_before_they_are_renamed_and_folders_after() -> None:
    operations = stage("run").operations
    names = [operation.name for operation in operations]
    renames = [k for k, name in enumerate(names) if name == "rename"]
    assert len(renames) == 5  # four segments and the merged file
    for k in renames:
        assert names[k - 2 : k] == ["sync", "close"]
        assert (names[k + 1], operations[k + 1].path) == ("sync_folder", operations[k].path.parent)


def test_a_short_run_syncs_five_times() -> None:
    """The first segment with both folders, then the merged file with its own."""
    synced = [operation.name for operation in stage("short").operations if operation.name.startswith("sync")]
    assert synced == ["sync", "sync_folder", "sync_folder", "sync", "sync_folder"]


def test_a_run_killed_before_its_first_block_is_resumable(folder: Path) -> None:
    check_first_commit(folder)


def check_first_commit(folder: Path) -> None:
    """Kill a run when nothing is computed yet; all that it needs is there."""
    path = folder / "run.h5"

    def child() -> None:
        with stories.begin(path):
            die()

    assert crash.run_child(child) == -signal.SIGKILL
    with resume(path) as writer:
        assert writer.n_blocks == 0
        assert writer.spec == {"n_blocks": stories.N_BLOCKS, "seed": 1}


@pytest.mark.parametrize("every", [41, pytest.param(3, marks=pytest.mark.slow)])
def test_killed_at_a_file_operation_and_again_while_it_resumes(folder: Path, every: int) -> None:
    told, path, chance = stage("run"), folder / "run.h5", random.Random(1)
    for number in range(0, len(told.operations), every):
        told.set(path)
        kill_at(lambda: told.tell(path), number, torn=True)
        while kill_at(lambda: told.tell(path), chance.randrange(len(told.operations)), torn=True):
            look(path, told.whole)
        crash.assert_same_contents(told.whole, crash.contents_of(path))
