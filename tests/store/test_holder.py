"""Who writes a run is read from the text of its lock file; nobody who looks takes the lock."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fastbm._base.checks import StorageError
from fastbm.store import holder, lock as lock_module, open_reader, resume
from fastbm.store.holder import COMMITS_MISSED, SILENCE, Holder, is_live, myself, read_holder
from fastbm.store.names import Names
from tests.support import store
from tests.support.store import append, begin, begun, refused

tmp_path = store.tmp_path
WRITER = """
import sys, time
from fastbm.store.lock import Lock
from fastbm.store.names import Names
lock = Lock(Names(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def says(path: Path, found: Holder) -> Names:
    """A run's names, with a lock file that says who writes."""
    names = Names(path)
    names.parts.mkdir(exist_ok=True)
    names.lock.write_text(found.text)
    return names


def test_the_text_is_read_as_it_was_written(tmp_path: Path) -> None:
    here = myself()
    names = says(tmp_path / "run.h5", here)
    found = read_holder(names.lock)
    assert found is not None
    assert found == replace(here, start=found.start)
    assert abs(found.start - here.start) < 0.001
    assert str(found).startswith(f"pid {os.getpid()} on {here.host} since 20")
    assert found.alive


def test_a_longer_text_before_it_leaves_no_trace(tmp_path: Path) -> None:
    here = myself()
    names = says(tmp_path / "run.h5", here)
    names.lock.write_text(here.text + "pid 1\nhost elsewhere\nhalf a li")
    found = read_holder(names.lock)
    assert found is not None
    assert (found.pid, found.host) == (here.pid, here.host)


@pytest.mark.parametrize(
    "text", ["", "pid 12\n", "host a\npid twelve\nstart 1.0\n", "\x00" * 100, "host a\npid 1\nstart 9"]
)
def test_a_file_that_names_nobody(text: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(text)
    assert read_holder(path) is None
    assert read_holder(tmp_path / "none") is None
    assert not is_live(Names(tmp_path / "run.h5"))


def test_what_earlier_versions_wrote_is_read(tmp_path: Path) -> None:
    here = myself()
    names = Names(tmp_path / "run.h5")
    names.parts.mkdir()
    names.lock.write_text(f"host {here.host}\npid {here.pid}\nboot {here.boot}\nstart {here.start:.3f}\n")
    assert is_live(names)
    names.lock.write_text(f"host {here.host}\npid {here.pid}\nboot another\nstart {here.start:.3f}\n")
    assert not is_live(names)


def test_processes_of_this_host_are_looked_for() -> None:
    here = myself()
    assert here.alive is True
    assert replace(here, born="1").alive is False  # the number was given to another process
    assert replace(here, boot="before").alive is False
    assert replace(here, host="elsewhere").alive is None
    assert replace(here, space="of a container").alive is None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        theirs = replace(here, pid=child.pid, born=holder._stat(child.pid)[1])  # type: ignore[index]
        assert theirs.alive is True
    finally:
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        ended = theirs.alive  # it has ended, and is not yet reaped
        child.wait()
    assert ended is False
    assert theirs.alive is False


def test_without_a_table_of_processes_the_number_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_stat", lambda pid: None)
    monkeypatch.setattr(holder, "_born", holder._born.__wrapped__)
    here = myself()
    assert here.born == "unknown"
    assert here.alive is True
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    assert replace(here, pid=child.pid).alive is False


def test_a_writer_elsewhere_is_believed_while_commits_come(tmp_path: Path) -> None:
    names = says(tmp_path / "run.h5", replace(myself(), host="elsewhere"))
    assert is_live(names)
    before = time.time() - SILENCE - 60.0
    os.utime(names.parts, (before, before))
    assert not is_live(names)
    assert is_live(names, commit_seconds=2.0 * (SILENCE + 120.0) / COMMITS_MISSED)


def test_the_text_goes_when_the_lock_does(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, 2)
        reader = open_reader(path)
        assert reader.live
        assert reader.holder is not None
        assert reader.holder.pid == os.getpid()
        lock_module._drop_in_child()  # what a forked child does: the lock and its text are its parent's
        assert reader.live
    parts = begun(tmp_path / "other.h5")
    assert (parts / "lock").read_text() == ""
    assert not open_reader(parts).live


def test_a_look_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.h5"
    with begin(path) as writer:
        append(writer, 0, 2)
        monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("a reader took the lock"))
        reader = open_reader(path)
        assert reader.live
        assert len(reader.read("samples/energy")) == 4


def test_a_killed_writer_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    begun(path)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        reader = open_reader(path)
        assert reader.live
        with pytest.raises(StorageError, match=rf"is being written by pid {child.pid} on .* since 20"):
            resume(path)
        child.send_signal(signal.SIGKILL)
    assert "pid" in (path.with_name("run.h5.parts") / "lock").read_text()
    assert not reader.live
    with resume(path) as writer:  # the lock itself went with the process
        assert writer.n_blocks == 6
        assert reader.live
    assert not reader.live


@pytest.mark.parametrize(("age", "text"), [(0.0, "A process is about to make the first one"), (60.0, "begin it again")])
def test_a_lock_without_a_text_is_that_of_a_writer_that_begins(tmp_path: Path, age: float, text: str) -> None:
    names = Names(tmp_path / "run.h5")
    names.parts.mkdir()
    names.lock.touch()
    os.utime(names.parts, (time.time() - age,) * 2)
    refused(lambda: open_reader(names.merged), text)
