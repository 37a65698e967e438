"""Disks that are really full: the run ends by an exception, room is made, and it ends as if there had been enough."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from fastbm._base.checks import StorageError
from fastbm.store import merge_parts
from tests.store.crash import stories
from tests.store.crash.stories import stage
from tests.support import crash

MIB, PAGE = 1 << 20, 4096
CANNOT_MOUNT = 77
_NEW_MOUNTS, _NEW_USER, _PRIVATE = 0x20000, 0x10000000, 0x44000  # CLONE_NEWNS, CLONE_NEWUSER, MS_REC | MS_PRIVATE


def mount_tmpfs(folder: Path, n_bytes: int) -> bool:
    """Mount a small disk, seen by this process alone and gone with it; false where that is not allowed."""
    libc, user = ctypes.CDLL(None, use_errno=True), os.getuid()
    if libc.unshare(_NEW_MOUNTS if user == 0 else _NEW_MOUNTS | _NEW_USER):
        return False
    if user:
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    if libc.mount(b"none", b"/", None, _PRIVATE, None):
        return False
    return not libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={n_bytes}".encode())


def on_a_small_disk(folder: Path, act: Callable[[], None], n_bytes: int = 48 * MIB) -> None:
    """Do something in a child that has a small disk in `folder`."""

    def child() -> None:
        if not mount_tmpfs(folder, n_bytes):
            os._exit(CANNOT_MOUNT)
        act()

    code = crash.run_child(child)
    if code == CANNOT_MOUNT:
        pytest.skip("no file system can be mounted here")
    assert code == 0


def fill(folder: Path, n_left: int) -> Path:
    """Leave `n_left` pages of a disk."""
    ballast = folder / "ballast"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    with open(ballast, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, free - n_left * PAGE)
    return ballast


@pytest.mark.parametrize("n_left", [0, 1, 3, 6, 9])
def test_a_run_on_a_disk_that_fills_up(folder: Path, n_left: int) -> None:
    whole, path = stage("run").whole, folder / "run.h5"

    def act() -> None:
        with stories.begin(path) as writer:
            ballast = fill(folder, n_left)
            with pytest.raises(StorageError, match=r"no space left in .*Blocks|no space left in .*No blocks") as caught:
                stories.go_on(writer, stories.N_BLOCKS, every=1)
            assert caught.value.resumable
        found = stories.check_prefix(path, whole)
        assert found < stories.N_BLOCKS
        assert found > 0 or n_left < 9
        ballast.unlink()
        stories.work(path)
        crash.assert_same_contents(whole, crash.contents_of(path))

    on_a_small_disk(folder, act)


def test_a_merge_on_a_disk_that_fills_up_leaves_the_parts(folder: Path) -> None:
    whole, path = stage("run").whole, folder / "run.h5"

    def act() -> None:
        stories.go_on(stories.begin(path, merge=False), stories.N_BLOCKS)
        for n_left in (0, 1, 5):
            ballast, before = fill(folder, n_left), stories.taken(folder / "run.h5.parts")
            with pytest.raises(StorageError, match="no space left"):
                merge_parts(path)
            assert sorted(os.listdir(folder)) == ["ballast", "run.h5.parts"]
            assert stories.taken(folder / "run.h5.parts").keys() == before.keys()
            ballast.unlink()
        merge_parts(path)
        crash.assert_same_contents(whole, crash.contents_of(path))

    on_a_small_disk(folder, act)


def test_no_room_for_a_merge_keeps_the_parts_and_says_so(folder: Path) -> None:
    path = folder / "run.h5"

    def act() -> None:
        with stories.begin(path) as writer:
            fill(folder, 100)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                stories.go_on(writer, stories.N_BLOCKS)
        assert ["stays in parts: merging needs" in str(one.message) for one in caught] == [True]
        assert stories.check_prefix(path, stage("run").whole) == stories.N_BLOCKS

    on_a_small_disk(folder, act)


def test_no_room_at_the_start_begins_nothing(folder: Path) -> None:
    def act() -> None:
        fill(folder, 20)
        with pytest.raises(StorageError, match=r"Nothing of .* was begun"):
            stories.begin(folder / "run.h5")
        assert os.listdir(folder) == ["ballast"]

    on_a_small_disk(folder, act)
