"""Runs that are unfinished, live or failed can be opened, and go on as if never stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from tests.support import crash
from tests.support.runs import LEARNING, assert_same, begin_and_stop, fit, sample


@pytest.mark.parametrize("begin", [sample, fit, *(pytest.param(one, marks=pytest.mark.slow) for one in LEARNING[1:])])
def test_stopped_by_the_clock_and_resumed_again_and_again(begin: Callable[..., bm.Run], tmp_path: Path) -> None:
    options = {"n_sweeps": 6_000_000, "thin": 200_000} if begin is sample else {}
    whole, path = tmp_path / "whole.h5", tmp_path / "run.h5"
    begin(whole, **options)
    run = begin_and_stop(begin, path, **options)
    assert not run.finished
    assert not run.live
    assert "unfinished" in repr(run)
    stops = 0
    while not run.finished:
        assert stops < 40, "every resumption must get a block further"
        assert not path.exists()
        assert path.with_name("run.h5.parts").exists()
        assert str(run.summary())
        run = bm.resume(path, max_seconds=0.0)
        stops += 1
    assert stops >= 3
    crash.assert_same_run(whole, path)
    assert_same(bm.open(whole), run)
    assert bm.resume(path).finished, "there is nothing left to do"
    crash.assert_same_run(whole, path)


def test_a_live_run_can_be_read(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.h5", []

    def look(task: Any, rows: Any) -> None:
        run = bm.open(path)
        assert run.live
        assert not run.finished
        with pytest.raises(bm.StorageError, match="is being written"):
            bm.resume(path)
        with pytest.raises(bm.StorageError, match=r"exists|is being written"):
            fit(path)
        seen.append((len(run.metrics["step"]), run))

    fit(path, epochs=6, commit_seconds=0, progress=look)
    counts = [count for count, _ in seen]
    assert counts == sorted(counts)
    first = seen[0][1]
    assert not first.live
    assert len(first.refresh().metrics["step"]) == 6
    assert first.finished
    assert_same(first, fit(epochs=6))


def test_a_run_that_failed_can_be_opened_and_resumed(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.h5", []

    def fail(task: Any, rows: Any) -> None:
        seen.append(rows)
        if len(seen) == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fit(path, progress=fail, commit_seconds=0)
    run = bm.open(path)
    assert not run.finished
    assert not run.live
    assert_same(bm.resume(path), fit())
