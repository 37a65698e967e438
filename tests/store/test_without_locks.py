"""Where a file system has no locks, a run is kept by the name in its lock file, and that is said."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from fastbm.store import holder, lease, lock as acquiring, merge_parts, open_reader, resume
from tests.support import crash, store
from tests.support.places import listing, unchanged
from tests.support.store import N_BLOCKS, append, begin, check_rows, complete, refused, state_after

tmp_path = store.tmp_path
WARNING = (
    r"run.h5 lies on .*: it has no file locks \(flock: No locks available\)\. So two writers on two hosts are not kept "
    r"apart\. Where that matters, write to a local disk and copy the finished file\.$"
)


HEART = lease.Heart


class StillHeart:
    def __init__(self, handle: int) -> None:
        pass

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def no_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(acquiring, "_PAUSE", 0.0)
    monkeypatch.setattr(lease, "Heart", StillHeart)  # children are forked, which must not be beside a thread


def quietly(act: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return act(*arguments, **options)


def test_a_run_is_written_resumed_and_merged(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with pytest.warns(UserWarning, match=WARNING) as caught:
        writer = begin(path)
    assert len(caught) == 1
    with writer:
        append(writer, 0, 3)
    with pytest.warns(UserWarning, match=WARNING):
        writer = resume(path)
    with writer:
        append(writer, 3, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    assert list(listing(tmp_path)) == ["run.h5"]
    quietly(complete, tmp_path / "parts.h5", merge=False)
    merge_parts(tmp_path / "parts.h5")
    crash.assert_same_run(path, tmp_path / "parts.h5")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with quietly(begin, path) as writer:
        append(writer, 0, 1)
        text = f"run.h5 is being written by pid {os.getpid()} on "
        for act in (resume, lambda path: begin(path, overwrite=True), merge_parts):
            unchanged(tmp_path, lambda act=act: act(path), text)
        child = crash.run_child(lambda: refused(lambda: resume(path), text))
        assert child == 0
        append(writer, 1, 2)
    with quietly(resume, path) as writer:
        assert writer.n_blocks == 2


def test_the_lock_of_a_killed_writer_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"

    def work() -> None:
        writer = quietly(begin, path)
        append(writer, 0, 2)
        os.kill(os.getpid(), 9)

    assert crash.run_child(work) == -9
    assert (path.with_name("run.h5.parts") / "lock").read_text().startswith("host ")
    with quietly(resume, path) as writer:
        assert writer.n_blocks == 2


def test_a_writer_on_another_host_is_believed_to_live(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    quietly(begin, path).close()
    lock = path.with_name("run.h5.parts") / "lock"
    lock.write_text(re.sub("host .*", "host node7", holder.myself().text))
    text = f"being written by pid {os.getpid()} on node7 since "
    unchanged(tmp_path, lambda: resume(path), text)
    unchanged(tmp_path, lambda: resume(path), f"If that process is gone, remove {path}.parts/lock.")
    lock.unlink()
    quietly(resume, path).close()


def test_one_process_at_a_time_takes_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    quietly(begin, path).close()
    taking = path.with_name("run.h5.parts") / acquiring.TAKING
    taking.touch()
    unchanged(tmp_path, lambda: resume(path), f"If there is none, remove {path}.parts/lock.taking.")
    taking.unlink()
    quietly(resume, path).close()
    assert not taking.exists()


def test_many_that_come_at_once(tmp_path: Path) -> None:
    path, gate = tmp_path / "run.h5", tmp_path / "gate"
    quietly(begin, path).close()

    def come() -> None:
        writer = None
        while not gate.exists():
            time.sleep(0.001)
        try:
            writer = quietly(resume, path)
        except OSError as error:
            assert "is being written by" in str(error) or "is being taken" in str(error)
        if writer is not None:
            (tmp_path / f"held-{os.getpid()}").touch()
            while not (tmp_path / "end").exists():
                time.sleep(0.001)
            writer.close()

    children = [crash.start_child(come) for _ in range(4)]
    gate.touch()
    losers: list[int] = []
    while len(losers) < 3:
        child, status = os.wait()
        assert child in children
        assert status == 0
        losers.append(child)
    assert len(list(tmp_path.glob("held-*"))) <= 1
    (tmp_path / "end").touch()
    last = next(child for child in children if child not in losers)
    assert crash.ended(last) == 0
    assert len(list(tmp_path.glob("held-*"))) == 1


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_folders_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    truth = os.fsync

    def fsync(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(code, os.strerror(code))
        truth(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.warns(UserWarning, match=r"folders cannot be synced \(fsync: .*a power cut may lose the last commits"):
        writer = begin(tmp_path / "run.h5")
    with writer:
        append(writer, 0, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    with open_reader(tmp_path / "run.h5") as reader:
        check_rows(reader, N_BLOCKS)


def test_an_error_of_the_disk_is_none_of_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fsync)
    unchanged(tmp_path, lambda: quietly(begin, tmp_path / "run.h5"), "input/output error in")

    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", flock)
    refused(lambda: begin(tmp_path / "run.h5"), f"Input/output error (in {tmp_path}).")
    assert set(listing(tmp_path)) <= {"run.h5.parts", "run.h5.parts/lock"}  # it may be another's by now


def test_a_writer_elsewhere_that_shows_no_sign_is_taken_over_and_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer sleeps, as a host does that is cut off; it wakes up when another has gone on with the run."""
    path, lock = tmp_path / "run.h5", tmp_path / "run.h5.parts" / "lock"
    monkeypatch.setattr(lease, "Heart", HEART)
    monkeypatch.setattr(lease, "BEAT", 0.02)
    monkeypatch.setattr(lease, "POLL", 0.02)
    monkeypatch.setattr(lease, "LEASE", 0.4)
    go = tmp_path / "go"

    def work() -> None:
        with quietly(begin, path) as writer:
            append(writer, 0, 2)
            (tmp_path / "begun").touch()
            while not go.exists():
                time.sleep(0.005)
            refused(lambda: append(writer, 2, 3), "was taken over by pid ")

    monkeypatch.setattr(holder.socket, "gethostname", lambda: "node7")
    child = crash.start_child(work)
    monkeypatch.setattr(holder.socket, "gethostname", lambda: "node8")
    while not (tmp_path / "begun").exists():
        time.sleep(0.005)
    refused(lambda: resume(path), f"being written by pid {child} on node7")
    os.kill(child, signal.SIGSTOP)
    with quietly(resume, path) as writer:
        assert writer.n_blocks == 2
        append(writer, 2, 4)
        os.kill(child, signal.SIGCONT)
        go.touch()
        assert crash.ended(child) == 0
        assert lock.read_text().startswith("host node8\n")
        append(writer, 4, N_BLOCKS)
        writer.finish(state_after(N_BLOCKS))
    assert list(listing(tmp_path)) == ["begun", "go", "run.h5"]
    quietly(complete, tmp_path / "whole.h5")
    crash.assert_same_run(path, tmp_path / "whole.h5")
