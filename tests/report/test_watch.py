"""`fastbm watch`: a run is seen from outside, as it goes on, stops, is damaged or ends."""

import io
import os
import re
import signal
import time
from dataclasses import replace

import h5py
import numpy as np
import pytest
from rich.console import Console

import fastbm as bm
from fastbm import cli
from fastbm.report.watch import screen
from fastbm.report.watch.view import Watch
from fastbm.runs.status import Status, span, status_of
from fastbm.store import open_reader
from tests.support import runs, samples
from tests.support.watching import Steps, begun, flip, hold, parts_of

ESCAPE = "\x1b"


def gibbs(out, **options):
    return samples.work("gibbs", out, **options)


def call(*words):
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return left.value.code


@pytest.fixture(autouse=True)
def narrow(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.h5"


@pytest.fixture
def terminal(monkeypatch):
    """A terminal of 80 columns and 24 rows; all that is written to it."""
    written = io.StringIO()

    def make(**options):
        return Console(file=written, force_terminal=True, width=80, height=24, color_system=None, highlight=False)

    monkeypatch.setattr(screen, "Console", make)
    return written


@pytest.mark.parametrize("begin", [gibbs, runs.fit], ids=["sample", "fit"])
def test_lines_where_there_is_no_terminal(begin, path, monkeypatch, capsys):
    begun(begin, path)
    Steps(monkeypatch, path)
    assert call("watch", "run.h5") == 0
    printed = capsys.readouterr().out
    assert ESCAPE not in printed
    lines = [line for line in printed.splitlines() if re.match(r"20\d\d-", line)]
    assert len(lines) >= 3
    assert all(" run.h5 live; " in line for line in lines[:-1])
    assert " run.h5 finished; " in lines[-1]
    counts = [int(re.search(r"(\d+) of \d+", line)[1]) for line in lines]
    assert counts == sorted(set(counts)) or counts[:-1] == sorted(set(counts[:-1]))
    assert "100.0 %" in lines[-1]
    assert "file" in printed and "finished  " in printed  # the summary


def test_nothing_is_said_twice(path, monkeypatch, capsys):
    begun(gibbs, path, 3)
    steps = Steps(monkeypatch, path, then=lambda n: n % 4 == 0)
    assert call("watch", "run.h5") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " run.h5 live; " in line]
    assert len(set(lines)) == len(lines) < steps.n


def test_a_terminal_is_drawn_again_in_its_place(path, monkeypatch, terminal):
    begun(gibbs, path, 3)
    Steps(monkeypatch, path)
    assert screen.watch("run.h5", every=1.0, wait=0.0, once=False) == 0
    frames = re.split(r"\x1b\[\d+A|\x1b\[2K", terminal.getvalue())
    assert len(frames) > 3
    plain = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", terminal.getvalue())
    assert max(len(line) for line in plain.replace("\r", "\n").splitlines()) <= 80
    words = (
        "sample: gibbs, 8 chains",
        "sherrington_kirkpatrick, 30 spin units",
        "sweeps",
        "energy",
        "r_hat",
        "finished",
    )
    for word in words:
        assert word in plain, word
    assert set("▁█") <= set(plain)
    assert f"{ESCAPE}[?25h" in terminal.getvalue()  # the cursor is back


def test_a_stopped_run_is_told_once_with_the_way_out(path, monkeypatch, capsys, terminal):
    begun(gibbs, path, 3)
    (parts_of(path) / "lock").write_text("")
    assert screen.watch("run.h5", every=1.0, wait=0.0, once=False) == 3
    assert terminal.getvalue().count("fastbm resume run.h5") == terminal.getvalue().count("stopped") == 1 or (
        "fastbm resume run.h5" in terminal.getvalue()
    )
    monkeypatch.undo()
    os.chdir(path.parent)
    assert call("watch", "run.h5") == 3
    out = capsys.readouterr().out
    assert out.count("stopped") == out.count("Go on with: fastbm resume run.h5") == 1


def test_a_killed_writer_is_seen(path):
    begun(gibbs, path, 2)
    watch = Watch(path)
    assert watch.view().status.state == "live"
    hold(path, born="1")
    view = watch.view()
    assert view.status.state == "stopped"
    assert f"pid {os.getpid()}" in view.status.text and "is gone" in view.status.text
    assert view.seconds_left is None


def test_a_writer_on_another_host_is_told_by_its_commits(path):
    begun(gibbs, path, 2)
    hold(path, host="node7")
    watch = Watch(path)
    view = watch.view()
    assert view.status.state == "live"
    assert re.search(r"pid \d+ on node7 since .*, not to be seen from here; last commit \d+ s ago", view.status.text)
    before = time.time() - 7200.0
    os.utime(parts_of(path), (before, before))
    view = watch.view()
    assert view.status.state == "silent"
    assert view.status.command == f"fastbm resume {path}"


def test_the_last_commit_before_a_writer_leaves_is_not_missed(path, monkeypatch):
    """It may come between the look at the rows and the look at the writer."""
    begun(gibbs, path, 2)
    reader = open_reader(path)
    bm.resume(path)
    assert not reader.finished
    assert status_of(reader) == Status("finished", "one file")


@pytest.mark.parametrize("number", [2, 3])
def test_damage_is_told_with_what_is_whole(number, path, capsys):
    begun(gibbs, path, 6)
    flip(parts_of(path) / f"seg-{number + 3:08d}.h5")
    (parts_of(path) / "lock").write_text("")
    assert call("watch", "run.h5") == 1
    out = " ".join(capsys.readouterr().out.split())
    assert re.search(rf"seg-{number + 3:08d}.h5 is damaged: sha256 differs. Blocks 0-\d are whole", out)
    assert out.count("Go on with: fastbm resume run.h5") == 1
    assert call("watch", "run.h5", "--once") == 1


def test_damage_that_is_computed_again_is_watched_on(path):
    begun(gibbs, path, 6)
    flip(parts_of(path) / "seg-00000006.h5")
    (parts_of(path) / "lock").write_text("")
    watch = Watch(path)
    assert watch.view().status.state == "damaged"
    with pytest.warns(UserWarning, match="will be recomputed"):
        bm.resume(path, max_seconds=0.0)
    hold(path)
    watch._again = 0.0
    view = watch.view()
    assert view.status.state == "live"
    assert not watch._reader.damage


def test_a_run_that_is_not_there(path, monkeypatch, capsys):
    assert call("watch", "run.h5") == 2
    assert "run.h5 does not exist: no such run" in capsys.readouterr().err
    steps = []

    def sleep(seconds):
        steps.append(seconds)
        if len(steps) == 2:
            gibbs(path)

    monkeypatch.setattr(screen.time, "sleep", sleep)
    assert call("watch", "run.h5", "--wait", "1000") == 0
    assert len(steps) == 2
    assert "finished" in capsys.readouterr().out


@pytest.mark.parametrize("drawn", [False, True])
def test_ctrl_c_leaves_quietly(drawn, path, monkeypatch, capsys, request):
    if drawn:
        written = request.getfixturevalue("terminal")
    begun(gibbs, path, 2)

    def interrupt(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(screen.time, "sleep", interrupt)
    assert call("watch", "run.h5") == 0
    captured = capsys.readouterr()
    assert not captured.err
    assert "Traceback" not in (written.getvalue() if drawn else captured.out)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_cursor_back_before_it_ends_the_watch(number, path, monkeypatch, terminal):
    begun(gibbs, path, 2)
    ended = []
    monkeypatch.setattr(screen.time, "sleep", lambda seconds: os.kill(os.getpid(), number))
    monkeypatch.setattr(
        screen.signal, "raise_signal", lambda n: ended.append((n, signal.getsignal(n), terminal.getvalue()))
    )
    screen.watch("run.h5", every=1.0, wait=0.0, once=False)
    [(told, handler, written)] = ended
    assert told == number and handler is signal.SIG_DFL
    assert written.count(f"{ESCAPE}[?25l") == written.count(f"{ESCAPE}[?25h") == 1


def test_one_look(path, capsys):
    begun(gibbs, path, 4)
    assert call("watch", "run.h5", "--once") == 0
    out = capsys.readouterr().out
    assert ESCAPE not in out
    assert "live" in out and "sweeps" in out and " of 264" in out
    bm.resume(path)
    assert call("watch", "run.h5", "--once") == 0
    assert "finished" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("--every", "0"), ("--wait", "-1"), ("--every", "soon")])
def test_bad_options(words, capsys):
    assert call("watch", "run.h5", *words) == 2
    assert words[0] in capsys.readouterr().err


def test_a_look_where_nothing_is_new_opens_no_file(path, monkeypatch):
    begun(gibbs, path, 4)
    watch = Watch(path)
    first = watch.view()
    monkeypatch.setattr(h5py, "File", lambda *a, **k: pytest.fail("HDF5 was asked"))
    monkeypatch.setattr(os, "listdir", lambda *a: pytest.fail("the folder was listed"))
    second = watch.view()
    assert replace(second, status=first.status) == first


def test_a_look_at_one_commit_more_opens_a_few_files(path, monkeypatch):
    begun(gibbs, path, 8)
    watch = Watch(path)
    before = watch.view().progress.done
    bm.resume(path, max_seconds=0.0)
    hold(path)
    opened = []
    file = h5py.File
    monkeypatch.setattr(
        h5py, "File", lambda name, *a, **k: opened.append(os.path.basename(name)) or file(name, *a, **k)
    )
    view = watch.view()
    assert view.progress.done > before
    assert len(set(opened)) <= 4
    assert view.rate is None or view.rate > 0.0


def test_the_rate_is_that_of_the_last_commits(path):
    begun(gibbs, path, 6)
    hold(path, start=0.0)
    for number in range(20):
        file = parts_of(path) / f"seg-{number:08d}.h5"
        if file.exists():
            os.utime(file, (1000.0 + 10.0 * number, 1000.0 + 10.0 * number))
    watch = Watch(path)
    view = watch.view()
    (first, before), (last, done) = watch._past[0], watch._past[-1]
    assert last.time - first.time == 10.0 * (last.number - first.number)
    assert view.rate == (done - before) / (last.time - first.time)
    assert view.seconds_left == 0.0  # the last commit is long ago


@pytest.mark.parametrize("name", ["tempering", "annealing", "population", "until", "burn-in", "best"])
def test_every_sampler_can_be_watched_from_its_first_commit_on(name, path):
    samples.work(name, path, max_seconds=0.0, commit_seconds=0.0, merge=False)
    for k in range(4):
        for view in (Watch(path).view(),):
            assert view.progress.done <= view.progress.total
            for line in view.lines:
                assert line.text and "nan" not in line.text
        if view.status.state == "finished":
            break
        samples.calm(bm.resume, path, max_seconds=0.0 if k < 2 else None)
    assert view.status.state == "finished"
    assert "energy" in {line.label for line in view.lines}
    if name == "tempering":
        assert {"swap rates", "round trips"} <= {line.label for line in view.lines}


def test_the_sweeps_are_named_that_diagnostics_cover(path):
    bm.sample(bm.models.ising((3, 3)), n_chains=512, n_sweeps=200, observables=["overlap"], burn_in=20, out=path)
    said = {line.label: line.text for line in Watch(path).view().lines}
    assert said["r_hat"].endswith("; sweeps 157-220")  # 64 rows of 512 chains fill a window


def test_sparks():
    assert screen.spark(np.arange(8.0), 60) == "▁▂▃▄▅▆▇█"
    assert screen.spark(np.arange(800.0), 8) == "▁▂▃▄▅▆▇█"
    assert screen.spark(np.ones(3), 60) == "▁▁▁"
    assert screen.spark(np.array([0.0, np.nan, 1.0]), 60) == "▁ █"
    assert screen.spark(np.arange(8.0), 60, ascii_only=True).isascii()
    assert screen.spark(np.full(3, np.nan), 60) == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 s"), (119.0, "119 s"), (180.0, "3 min"), (7200.0, "2 h"), (864000.0, "10 days")]
)
def test_spans(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(1234.0, "1230/s"), (2.0, "2/s"), (0.5, "30/min"), (0.001, "3.6/h"), (1e-6, "0.0036/h")]
)
def test_rates(rate, text):
    assert screen._rate(rate, "sweep") == text


@pytest.mark.parametrize("columns", [60, 80])
def test_sparks_fit_beside_long_names(path, columns):
    runs.fit(path, epochs=70, holdout=runs.ROWS[:4])
    console = Console(file=io.StringIO(), width=columns)
    console.print(screen.drawn(Watch(str(path)).view(), console))
    lines = console.file.getvalue().splitlines()
    bars = [line.strip() for line in lines if set(line.strip()) & set("▁▂▃▄▅▆▇█")]
    assert any("holdout-pseudo-likelihood" in line for line in lines)
    assert len(bars) == 3 and len(set(map(len, bars))) == 1  # none is broken into two
