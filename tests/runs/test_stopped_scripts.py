"""Stops in one process: where a signal is lost, where it must wait, whose handlers stay, and the clock."""

from __future__ import annotations

import ctypes
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.report import tables
from fastbm.runs import begin as run_module, stop as run_stop
from fastbm.runs.loop import execute
from fastbm.runs.stop import SIGNALS, Broken, Stop
from fastbm.runs.toml import file as config
from fastbm.store import Memory, Stream, disk
from fastbm.store.merge import write as merging
from tests.support import stopping
from tests.support.combinations import each
from tests.support.crash import assert_same_run
from tests.support.runs import LEARNING, assert_same, fit, sample

FILE = '[model]\nname = "ising"\nshape = [3, 3]\n[sample]\nbeta = 0.4\nn_chains = 4\nn_sweeps = 20\n'
COMPARE = '[model]\nname = "ising"\nshape = [3, 3]\n[compare]\nmethods = ["mean-field"]\nbeta = [0.1, 0.2, 0.3]\n'
PATIENCE = 60.0  # seconds, for what takes none


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "draw_picture", lambda run, path: path)  # it takes most of the time


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def write(text: str = FILE) -> str:
    Path("run.toml").write_text(text)
    return "run.toml"


def raising(number: int) -> Callable[..., None]:
    return lambda *_, **__: signal.raise_signal(number)


def before(function: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The same function, with a signal that comes before it is called first."""
    came: list[int] = []

    def signalled(*arguments: Any, **options: Any) -> Any:
        if not came:
            came.append(number)
            signal.raise_signal(number)
        return function(*arguments, **options)

    return signalled


def wait_to_be_broken_off() -> None:
    """Go on, interruptibly, for much longer than it takes to be broken off."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(0.01)


# Whose signals, and whose handlers


@each(number=SIGNALS, begin=[sample, fit])
def test_a_script_with_a_file_hears_all_signals(begin: Callable[..., bm.Run], number: int) -> None:
    handlers = [signal.getsignal(one) for one in SIGNALS]
    name = signal.Signals(number).name
    with pytest.raises(bm.Interrupted, match=f"stopped by {name} after .*nothing is lost.*resume") as caught:
        begin("run.h5", progress=raising(number), **({"n_sweeps": 10**9, "thin": 10**5} if begin is sample else {}))
    assert [signal.getsignal(one) for one in SIGNALS] == handlers
    assert isinstance(caught.value, KeyboardInterrupt)
    assert bm.open("run.h5")._reader.n_blocks > 0


def test_without_a_file_ctrl_c_alone_is_heard() -> None:
    seen = []
    sample(progress=lambda task, rows: seen.append([signal.getsignal(number) for number in SIGNALS]))
    assert seen[0][0] not in (signal.default_int_handler, signal.SIG_DFL)
    assert seen[0][1:] == [signal.SIG_DFL, signal.SIG_DFL]


def test_handlers_of_others_and_ignored_signals_stay_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    kept = [signal.getsignal(number) for number in SIGNALS]
    try:
        signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

        def progress(task: Any, rows: Any) -> None:
            for number in SIGNALS:
                signal.raise_signal(number)

        assert sample("run.h5", progress=progress).finished
    finally:
        for number, handler in zip(SIGNALS, kept, strict=True):
            signal.signal(number, handler)
    assert set(heard) == {signal.SIGINT, signal.SIGTERM}


def test_a_process_that_was_forked_off_within_a_run_is_ended_by_signals() -> None:
    code = """
import os, signal, sys, time
import fastbm as bm

def progress(task, rows):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"x")
        time.sleep(3600)
    os.read(reader, 1)
    os.kill(child, signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os._exit(0)

bm.sample(bm.models.ising((3, 3)), n_chains=2, n_sweeps=10, out="run.h5", threads=1, progress=progress)
"""
    with stopping.start(before="", code=code) as child:
        told, errors = child.communicate()
    assert told.split() == ["-15"], errors


# Where a signal comes


@pytest.mark.parametrize("number", SIGNALS)
def test_before_anything_is_begun(
    number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, name = write(), signal.Signals(number).name
    for place, function in ((config, "read"), (run_module, "build")):
        with monkeypatch.context() as patch:
            patch.setattr(place, function, before(getattr(place, function), number))
            assert call("run", file, "--out", "a.h5", "-q") == 128 + number
        assert capsys.readouterr().err == f"fastbm: stopped by {name} before anything was begun.\n"
        assert not Path("a.h5").exists() and not Path("a.h5.parts").exists()
    assert call("run", file, "--out", "a.h5", "-q", "--max-seconds", "0") == 3
    for place, function in ((tables, "open_run"), (run_module, "build")):
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.setattr(place, function, before(getattr(place, function), number))
            assert call("resume", "a.h5", "-q") == 3
        message = f"fastbm: stopped by {name} before it went on; nothing is lost. Go on with: fastbm resume a.h5\n"
        assert capsys.readouterr().err == message
    assert call("resume", "a.h5", "-q") == 0


@contextmanager
def signal_at_operation(place: int, number: int) -> Iterator[list[str]]:
    """Raise a signal at one of the file operations of the main thread; yield the names of those that came."""
    seen: list[str] = []

    def counted(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                seen.append(name)
                if len(seen) == place + 1:
                    signal.raise_signal(number)
            return original(*arguments)

        return operation

    with pytest.MonkeyPatch.context() as patch:
        for name in disk.OPERATIONS:
            patch.setattr(disk, name, counted(name, getattr(disk, name)))
        yield seen


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_at_any_file_operation(step: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first segment, the last commit and the merge: told in one line, and the same bytes at the end."""
    file = write(FILE + "[store]\ncommit_seconds = 0.0\n")
    assert call("run", file, "--out", "whole.h5", "-q") == 0
    monkeypatch.setattr(run_stop, "MERGE_SECONDS", 0.0)
    codes: list[int] = []
    seen: list[str] = []
    while len(seen) >= step * (len(codes) - 1):  # until there is no such operation any more
        capsys.readouterr()
        with signal_at_operation(step * len(codes), signal.SIGTERM) as seen:
            codes.append(call("run", file, "--out", "a.h5", "-q"))
        message = capsys.readouterr().err
        if len(seen) > step * (len(codes) - 1):
            assert codes[-1] == 3, message
            assert message.startswith("fastbm: stopped by SIGTERM") and message.count("\n") == 1, message
            assert message.endswith("Go on with: fastbm resume a.h5\n"), message
            assert call("resume", "a.h5", "-q") == 0
        assert_same_run(Path("whole.h5"), Path("a.h5"))
        Path("a.h5").unlink()
    assert codes.count(3) >= 2


def test_a_merge_is_left_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_stop, "MERGE_SECONDS", 0.0)
    look = merging.stop_if_asked
    message = "stopped by SIGTERM while the run, which is finished, was merged; nothing is lost"
    for begin in (sample, bm.resume):
        monkeypatch.setattr(merging, "stop_if_asked", before(look, signal.SIGTERM))
        with pytest.raises(bm.Interrupted, match=message) as caught:
            begin(Path("run.h5"))
        assert caught.value.run.finished
        assert not Path("run.h5").exists() and not list(Path().rglob("*.tmp"))
    assert_same(bm.resume("run.h5"), sample())
    assert Path("run.h5").is_file()


def test_a_merge_that_is_nearly_done_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_stop, "MERGE_SECONDS", 1e9)
    monkeypatch.setattr(merging, "stop_if_asked", before(merging.stop_if_asked, signal.SIGTERM))
    with pytest.raises(bm.Interrupted, match="stopped by SIGTERM when the run was finished; nothing is lost"):
        sample("run.h5")
    assert Path("run.h5").is_file() and not Path("run.h5.parts").exists()


@pytest.mark.parametrize("begin", [sample, *LEARNING])
def test_a_first_block_may_be_broken_off_anywhere(
    begin: Callable[..., bm.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait long for the compiler; here it is broken off at its end, when all in it has been changed."""
    build = run_module.build

    def built(*arguments: Any) -> Any:
        task = build(*arguments)
        advance = task.advance
        task.advance = lambda: (advance(), signal.raise_signal(signal.SIGTERM))
        return task

    monkeypatch.setattr(run_module, "build", built)
    with pytest.raises(bm.Interrupted, match=r"after [a-z]+ 0 of"):
        begin("run.h5")
    monkeypatch.setattr(run_module, "build", build)
    assert_same(bm.resume("run.h5"), begin())


# Where an exception is lost


def lost_in_a_callback(number: int) -> None:
    ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))()


def lost_in_a_finaliser(number: int) -> None:
    class Ends:
        def __del__(self) -> None:
            signal.raise_signal(number)

    Ends()


@pytest.mark.parametrize("lose", [lost_in_a_callback, lost_in_a_finaliser])
@pytest.mark.parametrize("number", SIGNALS)
def test_a_request_that_python_drops_is_made_again(
    lose: Callable[[int], None], number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", dropped.append)
    hook = sys.unraisablehook
    stop, was_lost = Stop(SIGNALS), False
    with pytest.raises(Broken), stop, stop.breaking():
        lose(number)
        was_lost = True
        wait_to_be_broken_off()
    assert was_lost and stop.requested == signal.Signals(number).name
    assert not dropped and capsys.readouterr().err == ""
    assert sys.unraisablehook is hook


def test_other_errors_that_python_drops_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: dropped.append(unraisable.exc_type))

    class Fails:
        def __del__(self) -> None:
            raise ArithmeticError

    with Stop():
        Fails()
    assert dropped == [ArithmeticError]


# The clock


class Counting:
    """A task of three blocks that may be broken off; the second waits for ever."""

    unit, atomic, streams = "step", True, {"x": Stream("<i8")}

    def __init__(self) -> None:
        self.n = 0

    @property
    def done(self) -> bool:
        return self.n >= 3

    @property
    def progress(self) -> tuple[int, int]:
        return self.n, 3

    def advance(self) -> Mapping[str, np.ndarray]:
        self.n += 1
        if self.n == 2:
            threading.Event().wait(PATIENCE)
            raise AssertionError("it was not broken off")
        return {"x": np.array([self.n])}

    def state(self) -> dict[str, np.ndarray]:
        return {"n": np.array(self.n)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.n = int(state["n"])


def test_the_clock_breaks_off_a_long_block() -> None:
    task, stop = Counting(), Stop()
    memory = Memory(spec={}, streams=task.streams, state=task.state())
    stop.limit(0.5)
    assert not execute(task, memory, stop=stop)
    assert stop.requested == "max_seconds" and not stop.signalled
    assert stop.message == "stopped by max_seconds after step 1 of 3;"
    assert int(memory.state["n"]) == 1


def test_a_first_block_is_done_whole_when_there_is_no_time() -> None:
    for _ in range(2):
        task, stop = Counting(), Stop()
        stop.limit(0.0)
        assert not execute(task, Memory(spec={}, streams=task.streams, state=task.state()), stop=stop)
        assert task.n == 1


@pytest.mark.parametrize("text", [FILE, COMPARE], ids=["sample", "compare"])
def test_max_seconds_on_the_command_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(text)
    assert call("run", file, "--out", "whole.h5", "-q", "--max-seconds", "1000") == 0
    capsys.readouterr()
    if text is COMPARE:
        assert call("compare", file, "--out", "a b.h5", "-q", "--max-seconds", "0") == 3
    else:
        assert call("run", file, "--out", "a b.h5", "-q", "--set", "store.max_seconds=0.0") == 3
    message = capsys.readouterr().err.splitlines()
    assert message[-1].startswith("fastbm: stopped by max_seconds after ")
    assert message[-1].endswith("; nothing is lost. Go on with: fastbm resume 'a b.h5'")
    for _ in range(3):
        assert call("resume", "a b.h5", "-q", "--max-seconds", "0") in (0, 3)
    assert call("resume", "a b.h5", "-q") == 0
    assert_same_run(Path("whole.h5"), Path("a b.h5"))


def test_max_seconds_that_mean_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("run", write(), "--max-seconds", "-1") == 2
    assert call("run", write(), "--set", "store.max_seconds=-1.0") == 2
    assert "max_seconds must be at least 0" in capsys.readouterr().err
    sample("run.h5", max_seconds=0.0)
    with pytest.raises(ValueError, match="max_seconds must be at least 0"):
        bm.resume("run.h5", max_seconds=-1)


def test_time_counts_from_the_start_of_the_process_where_that_is_the_command() -> None:
    """The process is older than its limit before the command begins; within another program only the call counts."""
    code = "from fastbm.cli import shared; from fastbm.runs import stop;"
    code += "shared.process_age = lambda: stop.process_age() + 900;"
    file = write(FILE.replace("n_sweeps = 20", "n_sweeps = 100_000\nthin = 100"))
    words = ["run", file, "-q", "--max-seconds", "900"]
    with stopping.start(*words, "--out", "a.h5", before=stopping.SLOW, code=code + stopping.MAIN) as child:
        message = "".join(child.communicate(timeout=stopping.DEADLINE))
    assert child.returncode == 3 and "stopped by max_seconds after sweep" in message, message
    assert stopping.n_blocks("a.h5") == 1
    assert call(*words, "--out", "b.h5") == 0


def test_the_age_of_a_process_is_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [run_stop.elapsed(text) for text in (" 00:05\n", "01:02:03", "2-00:00:01")] == [5.0, 3723.0, 172801.0]
    if run_stop.PROC_STAT.exists() and shutil.which("ps"):
        first = run_stop.process_age()
        monkeypatch.setattr(run_stop, "PROC_STAT", Path("none"))
        by_ps = run_stop.process_age()
        monkeypatch.undo()
        assert first - 2.0 <= by_ps <= run_stop.process_age() + 2.0
    monkeypatch.setattr(run_stop, "PROC_STAT", Path("none"))
    monkeypatch.setenv("PATH", "")
    assert 0.0 < run_stop.process_age() <= time.process_time()
