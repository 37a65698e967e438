"""Signals stop a run between two blocks, and it can be resumed."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.runs.stop import Stop
from tests.support import machines
from tests.support.runs import LEARNING, MODEL, assert_same, fit, sample


def interrupt_at(block: int) -> Callable[[Any, Any], None]:
    """A progress callback that does as Ctrl-C does, once the `block`-th block with rows is there."""
    seen = []

    def progress(task: Any, rows: Any) -> None:
        seen.extend([rows] if rows else [])
        if len(seen) == block:
            signal.raise_signal(signal.SIGINT)

    return progress


@pytest.mark.parametrize("begin", LEARNING)
def test_ctrl_c_stops_a_run_that_can_be_resumed(begin: Callable[..., bm.Run], tmp_path: Path) -> None:
    path, handler = tmp_path / "run.h5", signal.getsignal(signal.SIGINT)
    with pytest.raises(
        bm.Interrupted, match=r"stopped by SIGINT after epoch 2 of .*nothing is lost.*fastbm.resume\("
    ) as caught:
        begin(path, progress=interrupt_at(2))
    assert signal.getsignal(signal.SIGINT) is handler
    assert isinstance(caught.value, KeyboardInterrupt)
    run = caught.value.run
    assert not run.finished
    assert len(run.metrics["step"]) == 2
    with pytest.raises(bm.Interrupted):
        bm.resume(path, progress=interrupt_at(1))
    assert_same(bm.resume(path), begin())


def test_ctrl_c_in_memory_and_in_sampling(tmp_path: Path) -> None:
    options = {"n_sweeps": 4_000_000, "thin": 200_000}
    whole = sample(**options)
    with pytest.raises(bm.Interrupted) as caught:
        sample(progress=interrupt_at(1), **options)
    run = caught.value.run
    assert "resume" not in str(caught.value) and "nothing is lost" not in str(caught.value)
    with pytest.raises(bm.StorageError, match="one in memory cannot be resumed"):
        bm.resume(run)
    assert 0 < len(run.energy) < 20
    assert np.array_equal(run.energy, whole.energy[: len(run.energy)])
    with pytest.raises(bm.Interrupted) as caught:
        sample(tmp_path / "run.h5", progress=interrupt_at(1), **options)
    assert caught.value.run.path == tmp_path / "run.h5"
    assert_same(bm.resume(tmp_path / "run.h5"), whole)


def test_ctrl_c_at_the_last_block_is_a_finished_run(tmp_path: Path) -> None:
    assert fit(tmp_path / "run.h5", progress=interrupt_at(6)).finished


def test_a_real_signal_from_outside(tmp_path: Path) -> None:
    """A thread sends it while the run is at work; the run goes on until it comes."""
    sender = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])

    def progress(task: Any, rows: Any) -> None:
        if sender.ident is None:
            sender.start()

    with pytest.raises(bm.Interrupted) as caught:
        sample(tmp_path / "run.h5", n_sweeps=10**12, thin=10**9, progress=progress)
    sender.join()
    assert not caught.value.run.finished
    assert bm.resume(tmp_path / "run.h5", max_seconds=0.0).finished is False


def test_a_comparison_that_was_stopped_goes_on(tmp_path: Path) -> None:
    path, methods = tmp_path / "c.h5", ["exact", "mean-field", "sampled-states"]
    with pytest.raises(bm.Interrupted) as caught:
        bm.compare(MODEL, methods, out=path, progress=interrupt_at(1))
    assert len(caught.value.run.comparison) == 1
    found, whole = bm.resume(path).comparison, bm.compare(MODEL, methods)
    assert len(found) == 3
    for k in range(3):
        machines.assert_same_inference(found[k], whole[k])


def test_runs_in_other_threads_leave_signals_alone() -> None:
    found: list[bm.Run] = []
    thread = threading.Thread(target=lambda: found.append(sample()))
    thread.start()
    thread.join()
    assert_same(found[0], sample())


def test_a_second_signal_that_python_drops_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with Stop():
        for text in ("Signal 15 ignored due to race condition", "another"):
            sys.unraisablehook(SimpleNamespace(exc_type=OSError, exc_value=OSError(text)))  # type: ignore[arg-type]
    assert [str(one.exc_value) for one in told] == ["another"]
