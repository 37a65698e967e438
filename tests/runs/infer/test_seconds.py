"""Seconds are those of the work: what the compiler takes is counted apart."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Any

import numba
import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.methods import METHODS
from fastbm.kernels import jit
from fastbm.kernels.stopwatch import Stopwatch
from fastbm.learning.planted import rules
from fastbm.runs.infer.task import CellsTask
from tests.support.machines import calm

WORK = 0.05  # seconds


def compile_something() -> float:
    """Compile a function that was never compiled; the seconds that it took."""
    started = time.perf_counter()

    def inner(x: float) -> float:
        return x * x

    callee = numba.njit(inner)
    numba.njit(lambda x: callee(x) + 1.0)(2.0)
    return time.perf_counter() - started


@pytest.fixture
def slow_to_compile(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Have mean field compile something at every call, in another thread, and then work for `WORK` seconds."""
    taken: list[float] = []
    plain = METHODS["mean-field"].run

    @wraps(plain)
    def compiling(self: Any, model: Any, **common: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            taken.append(pool.submit(compile_something).result())
        time.sleep(WORK)
        return plain(self, model, **common)

    monkeypatch.setattr(METHODS["mean-field"], "run", compiling)
    return taken


def test_infer_and_compare_count_compiling_apart(slow_to_compile: list[float], tmp_path: Any) -> None:
    model = bm.models.curie_weiss(6)
    bm.infer(model, "exact")
    bm.infer(model, "mean-field")
    slow_to_compile.clear()
    found = bm.infer(model, "mean-field")
    compared = bm.compare(model, ["exact", "mean-field"], out=tmp_path / "c.h5")
    stored = bm.open(tmp_path / "c.h5").comparison
    for took, one in zip(slow_to_compile, (found, compared["mean-field"]), strict=True):
        assert 0.5 * took < one.compile_seconds <= took
        assert WORK <= one.seconds < WORK + 0.9 * took
    assert stored["mean-field"].compile_seconds == compared["mean-field"].compile_seconds
    assert stored.summary()[1]["compile_seconds"] == stored.table[1]["compile_seconds"] > 0.0
    many = bm.Comparison(compared.cells * 20)
    assert str(many).splitlines()[-1].startswith("Compiling took ")


def test_runs_that_older_versions_began_go_on_without_the_time_to_compile() -> None:
    cell = {"model": "m", "method": "exact", "beta": 1.0, "seed": 0, "options": {}}
    about: dict[str, Any] = {"clamp": None, "moments": True, "threads": 1, "compiling_apart": False}
    task = CellsTask({"m": bm.models.curie_weiss(6)}, [cell], **about)
    state = {"n_done": np.array(0)}
    task.restore(state | task.state())
    rows = task.advance()
    assert rows is not None and set(rows) == set(task.streams) == {"results/result", "meta/seconds"}


def test_rules_are_timed_without_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, taken = rules.make.make, []

    def compiling(*arguments: Any) -> Any:
        taken.append(compile_something())
        return plain(*arguments)

    monkeypatch.setattr(rules.make, "make", compiling)
    found = calm(bm.compare_rules, bm.models.curie_weiss(4), ["pseudolikelihood"], n_rows=50)
    assert found.cells[0].skipped is None
    assert 0.0 < found.cells[0].seconds < 0.9 * taken[-1]


def test_threads_in_the_compiler_count_once_and_those_thrown_out_of_it_do_not() -> None:
    watch, started = Stopwatch(), time.perf_counter()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: compile_something(), range(3)))
    assert 0.0 < watch.compile_seconds <= time.perf_counter() - started
    jit.event.start_event("numba:compiler_lock")  # which never ends, by an interrupt that came while it waited
    watch = Stopwatch()
    time.sleep(WORK)
    assert watch.compile_seconds == 0.0
    inside = threading.Event()

    def compiling() -> None:
        jit.event.start_event("numba:compiler_lock")
        inside.set()
        time.sleep(WORK)
        jit.event.end_event("numba:compiler_lock")

    thread = threading.Thread(target=compiling)
    thread.start()
    inside.wait()
    time.sleep(WORK / 2)
    assert watch.compile_seconds > 0.0, "of a thread that is still in the compiler"
    thread.join()
