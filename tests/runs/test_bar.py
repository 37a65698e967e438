"""The bar of a long call: where it is drawn, what it says, and that it is gone when nobody asked for it."""

from __future__ import annotations

import io
import sys
import time
import types
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.runs import bar
from fastbm.runs.infer import call

ROWS = {"metrics/pseudo_likelihood": np.array([-2.0, -1.25]), "metrics/moment_error": np.array([0.5, 0.125])}


class Work:
    """A task of ten sweeps."""

    unit, atomic = "sweep", False

    def __init__(self) -> None:
        self.n = 0

    @property
    def progress(self) -> tuple[int, int]:
        return self.n, 10

    @property
    def done(self) -> bool:
        return self.n == 10


def run(progress: Any, clock: Any, seconds: float = 1.0) -> None:
    task: Any = Work()
    with bar.drawing(progress, task) as each:
        for _ in range(10):
            clock[0] += seconds
            task.n += 1
            if each is not None:
                each(task, ROWS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(bar, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    return now


def to_terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_a_log_file_has_lines_after_twice_as_long_each(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    run(True, clock)
    note = "pseudo-likelihood -1.25, moment error 0.12"
    assert capsys.readouterr().err.splitlines() == [
        f"sweep 2 of 10, {note}, 0:08 left",
        f"sweep 4 of 10, {note}, 0:06 left",
        f"sweep 8 of 10, {note}, 0:02 left",
        f"sweep 10 of 10, {note}, 0:10",
    ]
    run(True, clock, 1000.0)
    assert len(capsys.readouterr().err.splitlines()) == 11
    assert bar._clock(3725.0) == "1:02:05"


@pytest.mark.parametrize(("progress", "seconds"), [(None, 1000.0), (False, 1000.0)])
def test_nobody_looks_at_a_log_file_that_was_not_asked_for(
    clock: list[float], capsys: pytest.CaptureFixture[str], progress: Any, seconds: float
) -> None:
    run(progress, clock, seconds)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("progress", "seconds", "there"), [(None, 1.0, True), (None, 0.05, False), (True, 0.1, True)])
def test_a_terminal_has_a_bar_when_a_call_is_long_or_it_is_asked_for(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, progress: Any, seconds: float, there: bool
) -> None:
    terminal = to_terminal(monkeypatch)
    run(progress, clock, seconds)
    assert ("10/10" in terminal.getvalue()) is there
    assert ("moment error 0.12" in terminal.getvalue()) is there


def test_a_bar_that_nobody_asked_for_is_wiped(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = to_terminal(monkeypatch)
    run(None, clock)
    assert terminal.getvalue().rstrip("\n").endswith("\x1b[2K")  # its line is wiped
    with pytest.raises(ZeroDivisionError), bar.drawing(None, Work()):  # type: ignore[arg-type]
        raise ZeroDivisionError


def test_a_first_block_that_is_long_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, task = to_terminal(monkeypatch), Work()
    monkeypatch.setattr(bar, "PATIENCE", 0.02)
    monkeypatch.setattr(bar, "_begun", set())
    for there in (True, False):  # the code of the second is compiled
        end = time.monotonic() + (5.0 if there else 0.1)
        with bar.drawing(None, task):  # type: ignore[arg-type]
            while time.monotonic() < end and "0/10" not in terminal.getvalue():
                time.sleep(0.01)
        assert ("0/10" in terminal.getvalue()) is there
        terminal.truncate(0)


def test_a_notebook_has_a_bar_in_its_cell(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)
    shell = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
    display = types.SimpleNamespace(HTML=str, display=lambda first, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", shell)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", display)  # type: ignore[arg-type]
    run(None, clock)
    assert shown[0].startswith('<progress value="1" max="10"></progress> sweep 1 of 10, pseudo-likelihood -1.25')
    assert shown[-2].endswith("0:09")
    assert shown[-1] == ""


def test_what_is_no_progress_is_refused_before_anything(tmp_path: Any) -> None:
    model = bm.models.ising((3, 3))
    for act in (
        lambda: bm.sample(model, n_sweeps=3, out=tmp_path / "run.h5", progress="yes"),  # type: ignore[arg-type]
        lambda: bm.extend(bm.sample(model, n_sweeps=3), n_sweeps=2, progress=1),  # type: ignore[arg-type]
        lambda: bm.resume(tmp_path / "run.h5", progress=1),  # type: ignore[arg-type]
        lambda: bm.infer(model, "exact", out=tmp_path / "run.h5", progress=1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="progress must be True, False, None or a function"):
            act()
    assert not list(tmp_path.iterdir())
    assert bm.sample(model, n_sweeps=3, progress=True).finished


def test_a_run_goes_on_where_nobody_can_be_told(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (to_terminal(monkeypatch), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        stream.close()
        run(True, clock)
        run(None, clock, 10.0)
    monkeypatch.setattr(sys, "stderr", None)
    run(True, clock)
    run(None, clock, 10.0)


STEPS = {
    "ais": "step", "gibbs": "sweep", "tempering": "sweep", "population-annealing": "part of the way",
    "sampled-states": "sweep", "bethe": "sweep",
}  # fmt: skip


@pytest.mark.parametrize("method", STEPS)
@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_methods_of_inference_tell_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, method: str, tmp_path: Any
) -> None:
    monkeypatch.setattr(call, "PAUSE", 0.0)
    model = bm.models.sherrington_kirkpatrick(8, seed=1)
    results, told = [], []
    for out in (None, tmp_path / "run.h5"):
        seen: list[tuple[str, int, int]] = []
        progress = lambda task, rows, seen=seen: seen.append((task.unit, *task.progress))  # noqa: E731
        results.append(bm.infer(model, method, progress=progress, out=out))
        told.append([one for one in seen if one[0] == f"{method}: {STEPS[method]}"])
        assert all(0 <= done <= total for _, done, total in seen)
        assert seen[-1] == (method, 1, 1)
    assert told[0]
    assert told[1]
    assert results[0].log_z == results[1].log_z == bm.infer(model, method).log_z


def test_a_bar_follows_the_steps_of_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = to_terminal(monkeypatch)
    for method in ("exact", "ais"):
        bm.infer(bm.models.curie_weiss(6), method, progress=True)
        assert f"{method} " in terminal.getvalue()
        assert "1/1" in terminal.getvalue()
        terminal.truncate(0)
    bm.infer(bm.models.curie_weiss(6), "ais")
    assert terminal.getvalue() == ""
