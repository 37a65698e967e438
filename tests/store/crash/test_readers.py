"""Readers of a live run, through kills and resumes: every look is a prefix of whole commits. Second writers."""

from __future__ import annotations

import os
import random
import select
import signal
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest

from fastbm._base.checks import StorageError
from fastbm.store import create, merge_parts, open_reader, resume
from fastbm.store.parts import Parts
from tests.store.crash import stories
from tests.store.crash.fault_points import point_of
from tests.store.crash.operations import Do, Operation, watching
from tests.store.crash.stories import N_BLOCKS, prefix_of, stage
from tests.support import crash


class Paced:
    """A child that writes a run, and waits for leave after every commit."""

    def __init__(self, work: Callable[[Callable[[int], None]], None]) -> None:
        self._told, tell = os.pipe()
        leave, self._leave = os.pipe()

        def acknowledge(n_blocks: int) -> None:
            os.write(tell, bytes([n_blocks]))
            if not os.read(leave, 1):
                os._exit(1)

        def child() -> None:
            os.close(self._told)
            os.close(self._leave)  # so that the end of the parent is the end of the pipe
            work(acknowledge)

        self.child = crash.start_child(child)
        os.close(tell)
        os.close(leave)

    def wait(self, meanwhile: Callable[[], None]) -> int:
        """Do something again and again until blocks are said to be safe; return how many, -1 at the end."""
        while not select.select([self._told], [], [], 0)[0]:
            meanwhile()
        told = os.read(self._told, 1)
        return told[0] if told else -1

    def go_on(self) -> None:
        """Give leave."""
        os.write(self._leave, b".")

    def end(self, *, kill: bool) -> int:
        """Kill the child, or let it come to its end; return its exit code."""
        if kill:
            os.kill(self.child, signal.SIGKILL)
        os.close(self._told)
        os.close(self._leave)
        return crash.ended(self.child)


def nothing() -> None:
    """Do nothing meanwhile but let others work."""
    os.sched_yield()


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 5))])
def test_every_look_of_a_live_reader_is_a_prefix_of_whole_commits(folder: Path, seed: int) -> None:
    chance, path, whole = random.Random(seed), folder / "run.h5", stage("run").whole
    seen: list[int] = []
    writer = Paced(lambda acknowledge: stories.work(path, acknowledge, every=1))
    assert writer.wait(nothing) == 0
    reader = open_reader(path)
    n_kills = looks = 0

    def look() -> None:
        nonlocal looks
        reader.refresh()
        seen.append(prefix_of(reader, whole))
        looks += 1

    look()
    while True:
        writer.go_on()
        looks, most = 0, chance.randrange(1, 6)
        kill = n_kills < 4 and chance.random() < 0.5
        if kill:  # while it is at work, after some looks
            while looks < most:
                look()
        else:
            told = writer.wait(look)
            look()
            if told < 0:
                break
            assert seen[-1] >= told, "what is said to be safe is seen"
            kill = n_kills < 4 and chance.random() < 0.3
        if kill:
            assert writer.end(kill=True) in (0, -signal.SIGKILL)
            n_kills += 1
            look()
            writer = Paced(lambda acknowledge: stories.work(path, acknowledge, every=1))
            if writer.wait(look) < 0:
                break
    assert writer.end(kill=False) == 0
    look()
    assert seen == sorted(seen)
    assert seen[-1] == N_BLOCKS
    assert reader.finished
    assert not reader.live
    crash.assert_same_contents(whole, crash.contents_of(path))


def test_a_reader_that_lists_parts_while_they_are_merged_sees_the_whole_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts are removed from the last one on: what is left of them for an instant is no shorter run."""
    path, refresh = folder / "run.h5", Parts.refresh
    stories.go_on(stories.begin(path, merge=False), N_BLOCKS)

    class Stop(Exception):
        pass

    def act(operation: Operation, do: Do) -> object:
        if point_of(operation) == "first-segment-unlink":
            raise Stop
        return do(*operation.arguments)

    def merged_meanwhile(self: Parts) -> None:
        with monkeypatch.context() as patch, watching(act), pytest.raises(Stop):
            patch.setattr(Parts, "refresh", refresh)
            merge_parts(path)
        monkeypatch.setattr(Parts, "refresh", refresh)
        refresh(self)

    for reader in (open_reader(path), None):
        stories.go_on(stories.begin(path, merge=False, overwrite=True), N_BLOCKS)
        if reader is not None:
            reader.refresh()
        monkeypatch.setattr(Parts, "refresh", merged_meanwhile)
        reader = reader or open_reader(path)
        reader.refresh()
        assert sorted(os.listdir(path.with_name("run.h5.parts"))) == ["lock", "seg-00000000.h5"]
        assert prefix_of(reader, stage("run").whole) == N_BLOCKS


def test_a_segment_that_is_merged_while_hdf5_opens_it_is_looked_for_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HDF5 looks at a file's name after it has opened it, and has no errno for one that is gone."""
    path, opened = folder / "run.h5", h5py.File
    stories.go_on(stories.begin(path, merge=False), N_BLOCKS)

    def merged_meanwhile(name: Path, *arguments: object) -> h5py.File:
        monkeypatch.setattr(h5py, "File", opened)
        merge_parts(path)
        raise OSError("Unable to synchronously open file (can't retrieve stat info for file)")

    monkeypatch.setattr(h5py, "File", merged_meanwhile)
    assert prefix_of(open_reader(path), stage("run").whole) == N_BLOCKS


def test_a_second_writer_is_refused_and_changes_nothing(folder: Path) -> None:
    check_second_writer(folder)


def check_second_writer(folder: Path) -> None:
    """Try all that writes on a run that a child is writing."""
    path = folder / "run.h5"
    writer = Paced(lambda acknowledge: stories.work(path, acknowledge, every=1))
    writer.wait(nothing)
    writer.go_on()
    assert writer.wait(nothing) == 1
    before = stories.taken(folder)
    acts: dict[str, Callable[[], object]] = {
        "is being written by pid": lambda: resume(path),
        "run.h5 is being written by": lambda: stories.begin(path),
        "Stop it or write elsewhere.": lambda: stories.begin(path, overwrite=True),
        f"pid {writer.child} on": lambda: merge_parts(path),
    }
    for text, act in acts.items():
        with pytest.raises(StorageError) as caught:
            act()
        assert text in str(caught.value)
        assert stories.taken(folder) == before
    assert writer.end(kill=True) == -signal.SIGKILL
    stories.work(path)
    crash.assert_same_contents(stage("run").whole, crash.contents_of(path))


@pytest.mark.parametrize("n_trials", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_of_two_runs_begun_at_once_on_one_path_one_is_refused(folder: Path, n_trials: int) -> None:
    path = folder / "run.h5"
    for _ in range(n_trials):
        crash.remove_run(path)
        go, start = os.pipe()
        done, hold = os.pipe()

        def child(go: int = go, done: int = done, start: int = start, hold: int = hold) -> None:
            os.close(start)
            os.close(hold)
            os.read(go, 1)
            try:
                with create(path, spec={}, streams={}, state={}):
                    os.read(done, 1)  # until the other has tried
            except StorageError as error:
                assert "is being written by pid" in str(error) or "exists" in str(error)
                os._exit(7)

        children = [crash.start_child(child) for _ in range(2)]
        os.write(start, b"..")
        first, status = os.wait()  # the one that is refused; the other holds the run until it is told
        codes = {first: os.waitstatus_to_exitcode(status)}
        os.close(hold)
        os.close(start)
        other = next(one for one in children if one != first)
        codes[other] = crash.ended(other)
        os.close(go)
        os.close(done)
        assert sorted(codes.values()) == [0, 7]
        assert not open_reader(path).finished
