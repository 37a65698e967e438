"""Exact sums as runs: stored, stopped, killed, gone on with, and done by others; the bits are the same."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm
from fastbm._base.halting import Halted
from fastbm.exact.pieces import Work
from fastbm.exact.plan import Part, Speeds, Wanted, combine
from fastbm.inference.exact import sums
from fastbm.inference.exact.method import Exact
from fastbm.inference.exact.settings import ExactSettings
from fastbm.inference.exact.sums import ExactSums
from fastbm.inference.result import from_json, to_json
from fastbm.runs.infer.task import CellsTask
from tests.support import crash, machines
from tests.support.machines import machine

LATTICE = bm.models.ising((9, 9), periodic=False)
USUAL = Exact().as_dict()


def pieces_of(model: bm.BoltzmannMachine, n: int) -> Any:
    from fastbm.exact.blocks import sum

    return sum.plan(model, 0.7, Wanted(), threads=1, max_bytes=4e9, speeds=Speeds(), min_pieces=n)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sum is large, and every piece a slice."""
    monkeypatch.setattr(sums, "SLICE_SECONDS", 1e-6)
    settle = ExactSums._settle

    def settled(self: ExactSums, settings: ExactSettings) -> sums.Settled:
        found = settle(self, settings)
        return sums.Settled(found.settings, found.why, found.seconds, 16)

    monkeypatch.setattr(ExactSums, "_settle", settled)


MODEL = bm.models.random_machine(12, scale=1.0, bias_scale=0.4, seed=5)


# Pieces


def test_work_that_is_left_and_gone_on_with_gives_the_same_bits() -> None:
    planned = pieces_of(MODEL, 16)
    whole = Work(planned, 1)
    while not whole.done:
        whole.advance()
    work = Work(planned, 1)
    for k in range(planned.n_pieces):
        assert work.progress == (k, planned.n_pieces)
        after = Work(planned, 1)
        after.restore({name: np.array(array) for name, array in work.state().items()})
        after.advance()
        work = after
    assert_same_part(work.result, whole.result)
    with pytest.raises(ValueError, match="was cut into 16 pieces by another version; now 8"):
        Work(pieces_of(MODEL, 8), 1).restore(work.state())
    one = pieces_of(MODEL, 1).piece(0, 1)
    assert whole.result.log_z == pytest.approx(one.log_z, rel=1e-13)
    np.testing.assert_allclose(whole.result.pairs, one.pairs, atol=1e-13)


def assert_same_part(one: Part, other: Part) -> None:
    assert one.log_z == other.log_z
    for name in ("energy", "energy_variance", "up", "pairs", "distribution", "lowest"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_an_executor_gives_the_same_bits(kind: str) -> None:
    planned = pieces_of(MODEL, 16)
    expected = combine_in_order([planned.piece(k, 1) for k in range(planned.n_pieces)])
    pool = ThreadPoolExecutor(3) if kind == "threads" else ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    with pool:
        work = Work(planned, 1, pool)
        while not work.done:
            work.advance()
    assert_same_part(work.result, expected)


def combine_in_order(parts: list[Part]) -> Part:
    found = parts[0]
    for part in parts[1:]:
        found = combine((found, part))
    return found


COMES = threading.Event()


@dataclass(frozen=True)
class Failing:
    """A sum whose third piece fails, or never comes."""

    how: str
    name = "failing"
    n_pieces = 8
    named_pairs = None

    def piece(self, k: int, threads: int, halt: Callable[[], bool] = bool) -> Part:
        if k == 2 and self.how == "raises":
            raise TimeoutError("the piece's own")
        if k == 2:
            COMES.wait(20)
        return Part(float(k))


def test_errors_of_pieces_come_back_and_the_others_are_cancelled() -> None:
    with ThreadPoolExecutor(1) as pool:
        work = Work(Failing("raises"), 1, pool)
        work.advance()
        work.advance()
        with pytest.raises(TimeoutError, match="the piece's own"):
            work.advance()
        assert work._handed is not None and not work._handed._waiting


def test_a_stop_cancels_what_waits_for_the_executor() -> None:
    with ThreadPoolExecutor(1) as pool:
        work = Work(Failing("waits"), 1, pool)
        work.advance()
        work.advance()
        assert work._handed is not None
        started, first = time.monotonic(), list(work._handed._waiting)
        with pytest.raises(Halted):
            work.advance(lambda: time.monotonic() - started > 0.2)
        assert time.monotonic() - started < 5
        assert all(future.cancelled() for future in first[1:])
        COMES.set()
        while not work.done:
            work.advance()
    assert work.progress == (8, 8)


def test_infer_takes_an_executor(tmp_path: Path) -> None:
    model = bm.models.sherrington_kirkpatrick(14, seed=1)
    alone = bm.infer(model, "exact", engine="gray")
    with ThreadPoolExecutor(2) as pool:
        machines.assert_same_inference(bm.infer(model, "exact", engine="gray", executor=pool), alone)
        stored = bm.infer(model, "exact", engine="gray", executor=pool, out=tmp_path / "run.h5")
        machines.assert_same_inference(stored, alone)
        assert "executor" not in str(bm.open(tmp_path / "run.h5").config)
        with pytest.raises(TypeError, match="exact has no option 'executor'"):
            bm.compare(model, {"exact": {"executor": pool}})


@pytest.mark.parametrize(("engine", "cut"), [("blocks", (1, 4)), ("gray", (16, 0))])
def test_how_a_sum_is_cut_depends_on_neither_executor_nor_speed(engine: str, cut: tuple[int, int]) -> None:
    model = bm.models.curie_weiss(36)
    settings = ExactSettings.of(model, **USUAL | {"engine": engine})
    common: dict[str, Any] = {"beta": 1.0, "clamp": None, "moments": True, "threads": 1}
    with ThreadPoolExecutor(1) as pool:
        for executor in (None, pool):
            for speeds in (Speeds(), Speeds(product_term=3e-10), Speeds(product_term=3e-12, gray_state=1e-11)):
                found = ExactSums(model, settings, **common, executor=executor, measured=lambda s=speeds: s).settled
                assert (found.min_pieces, found.n_prefix) == cut
        small = ExactSums(MODEL, ExactSettings.of(MODEL, **USUAL), **common, executor=pool).settled
    assert (small.min_pieces, small.n_prefix) == (1, 0)
    older = sums.Settled(settings, **{"why": "", "seconds": 9.0, "min_pieces": 1})
    assert older.n_prefix == 0


def test_the_limit_of_time_holds_on_the_workers_that_there_are() -> None:
    model = bm.models.curie_weiss(48)
    with ThreadPoolExecutor(4) as pool:
        with pytest.raises(ValueError, match=r"on 4 workers: .*the limit is max_forecast_seconds=600"):
            bm.infer(model, "exact", executor=pool, moments=False)
        settings = ExactSettings.of(model, **USUAL | {"engine": "blocks", "max_forecast_seconds": 5000.0})
        common: dict[str, Any] = {"beta": 1.0, "clamp": None, "moments": False, "threads": 1}
        assert ExactSums(model, settings, **common, executor=pool).settled.n_prefix == 8
        with pytest.raises(ValueError, match="on 1 thread: about"):
            ExactSums(model, settings, **common)


# Runs


def begin(path: Path | None, **options: Any) -> bm.Inference:
    return bm.infer(MODEL, "exact", beta=0.7, engine="blocks", out=path, **options)


def task_of(path: Path) -> CellsTask:
    from fastbm.runs.spec import Given, build
    from fastbm.store import open_reader

    reader = open_reader(path)
    return build(reader.spec, reader.inputs, 1, Given())


def test_what_was_chosen_stands_in_the_spec_and_is_not_chosen_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bm.infer(LATTICE, "exact", out=tmp_path / "run.h5")
    cell = bm.open(tmp_path / "run.h5").config["cells"][0]
    assert cell["options"] == {
        "engine": "elimination",
        "max_forecast_seconds": 600.0,
        "max_gigabytes": 4.0,
        "energy_variance": True,
        "pairs": [],
    }
    assert cell["plan"]["min_pieces"] == 1

    def choose(*arguments: Any, **options: Any) -> None:
        raise AssertionError("chosen again")

    monkeypatch.setattr(sums, "choose", choose)
    task = task_of(tmp_path / "run.h5")
    while not task.done:
        task.advance()


def stop_after(n_slices: int) -> Callable[[Any, Any], None]:
    seen: list[int] = []

    def progress(task: Any, rows: Any) -> None:
        seen.append(1)
        if len(seen) == n_slices:
            signal.raise_signal(signal.SIGINT)

    return progress


@pytest.mark.parametrize("clamp", [None, ([0, 3], [[1, -1], [1, 1], [-1, 1]])])
def test_a_sum_that_was_stopped_between_pieces_goes_on(cut: None, clamp: Any, tmp_path: Path) -> None:
    from fastbm.runs.infer.verb import infer_run

    about = {"beta": 0.7, "clamp": clamp, "commit_seconds": 0}
    infer_run(MODEL, "exact", {"engine": "blocks"}, **about, out=tmp_path / "whole.h5")
    path = tmp_path / "run.h5"
    with pytest.raises(bm.Interrupted, match=r"stopped by SIGINT after piece 5 of \d+; nothing is lost"):
        infer_run(MODEL, "exact", {"engine": "blocks"}, **about, out=path, progress=stop_after(5))
    n_more = 0
    while not bm.open(path).finished:
        try:
            bm.resume(path, progress=stop_after(7), threads=1 + n_more % 2)
        except bm.Interrupted:
            n_more += 1
    assert n_more >= 1
    crash.assert_same_run(tmp_path / "whole.h5", path)
    found = bm.open(path).inference
    np.testing.assert_allclose(found.log_z, bm.infer(MODEL, "exact", beta=0.7, clamp=clamp).log_z, rtol=1e-13)


def test_a_comparison_with_an_exact_cell_stopped_within_it(cut: None, tmp_path: Path) -> None:
    methods = {"mean-field": {}, "exact": {"engine": "blocks"}, "sampled-states": {"n_chains": 8, "n_sweeps": 20}}
    about = {"beta": [0.3, 0.7], "commit_seconds": 0}
    bm.compare(MODEL, methods, **about, out=tmp_path / "whole.h5")
    path = tmp_path / "run.h5"
    with pytest.raises(bm.Interrupted, match="after cell 1 of 6"):
        bm.compare(MODEL, methods, **about, out=path, progress=stop_after(4))
    bm.resume(path)
    crash.assert_same_run(tmp_path / "whole.h5", path)


def test_max_seconds_loses_at_most_a_piece(cut: None, tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    with pytest.raises(bm.Interrupted):
        from fastbm.runs.infer.verb import infer_run

        infer_run(MODEL, "exact", {"engine": "blocks"}, out=path, progress=stop_after(1))
    for _ in range(3):
        assert not bm.resume(path, max_seconds=0.0).finished
    task = task_of(path)
    task.restore(dict(bm.open(path)._reader.state))
    assert task.progress[0] == 4
    assert bm.resume(path).finished


def work(path: Path) -> None:
    """Begin or go on, a commit after every piece."""
    from fastbm.runs.infer.verb import infer_run

    try:
        bm.resume(path, threads=1)
    except bm.StorageError as error:
        if "does not exist" not in str(error):
            raise
        clamp = ([0], np.where(np.arange(12)[:, None] % 2, 1, -1))
        infer_run(MODEL, "exact", {"engine": "blocks"}, clamp=clamp, out=path, threads=1, commit_seconds=0)


def test_kills_cost_a_piece_and_no_bit(cut: None) -> None:
    machines.close_pools()
    with crash.memory_folder() as folder:
        work(folder / "warm.h5")
        machines.close_pools()
        crash.kill_and_compare(work, folder, n_kills=2, n_lives=3)


# Storing


def test_sparse_moments_are_stored_to_the_last_bit(tmp_path: Path) -> None:
    for clamp in (None, ([0, 7], [1, -1]), ([0, 7], [[1, -1], [1, 1]])):
        found = bm.infer(LATTICE, "exact", beta=0.4, clamp=clamp)
        back = from_json(to_json(found), 0.0)
        assert to_json(back) == to_json(found)
        pairs = zip(np.atleast_1d(back.covariance), np.atleast_1d(found.covariance), strict=True)
        for one, other in pairs:
            assert isinstance(one, scipy.sparse.csr_array)
            assert one.shape == other.shape and np.array_equal(one.toarray(), other.toarray())
        path = tmp_path / f"{np.ndim(clamp and clamp[1])}.h5"
        stored = bm.infer(LATTICE, "exact", beta=0.4, clamp=clamp, out=path)
        assert to_json(stored) == to_json(found)
        assert str(bm.open(path).summary()) and str(bm.open(path).comparison)


def test_all_units_clamped_is_a_run_too(tmp_path: Path) -> None:
    model = machine("visible", "binary", offset=1.0)
    rows = np.array([[0, 1, 1, 0, 1], [1, 1, 1, 1, 1]])
    found = bm.infer(model, "exact", clamp=(range(5), rows), out=tmp_path / "run.h5")
    np.testing.assert_allclose(found.log_z, -model.energy(rows))


# Stops


SCRIPT = """
import os, signal, threading, time
import fastbm as bm
from fastbm.exact.calibration import measured

def stop():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

bm.infer(bm.models.curie_weiss(27), "exact", engine={engine!r})  # compiles
measured()  # and what the forecast of a long sum asks for does, once on a machine
threading.Timer(1.0, stop).start()
try:
    bm.infer(bm.models.curie_weiss({n}), "exact", engine={engine!r}, threads={threads}, max_forecast_seconds=1e9)
except KeyboardInterrupt as error:
    print(type(error).__name__, time.monotonic() - sent)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("engine", ["gray", "blocks"])
def test_ctrl_c_stops_a_long_sum_in_memory_promptly(engine: str, threads: int) -> None:
    n = 38 if engine == "gray" else 40
    code = SCRIPT.format(n=n, engine=engine, threads=threads)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    name, seconds = done.stdout.split()
    assert name == "Interrupted"
    assert float(seconds) < 5.0  # 0.2 on a machine that does nothing else; the sum takes minutes
