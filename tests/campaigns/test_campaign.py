"""Campaigns: the same bytes whoever computes them, grids that grow, cells that fail, folders that are refused."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.campaigns import generations, shard, task
from fastbm.campaigns.attempts import DIED, MOST_DEATHS
from tests.support import machines, pace
from tests.support.campaign_kills import contents, tables, write

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bm.Campaign:
    """A campaign that one process did."""
    return bm.campaign(tables(), out=tmp_path_factory.mktemp("campaign") / "whole", threads=1)


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forked: nothing is imported again."""
    machines.close_pools()
    monkeypatch.setattr(bm.workers, "METHODS", ("fork",))


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def failing(where: Callable[[dict[str, Any]], bool], error: Callable[[], Any]) -> Any:
    """What computes a row, but that some cells fail."""
    row = task.ShardTask._row

    def computed(self: Any, cell: dict[str, Any]) -> Any:
        if where(cell["keys"]):
            error()
        return row(self, cell)

    return computed


def in_parts(out: Path) -> None:
    for part in ("3/3", "1/2", "2/2"):  # other cuts, the second time
        bm.campaign(tables(), out=out, part=part)


def with_executor(make: Callable[[], Executor]) -> Callable[[Path], None]:
    def act(out: Path) -> None:
        with make() as executor:
            bm.campaign(tables(), out=out, executor=executor)

    return act


WAYS = {
    "a pool of our own": lambda out: bm.campaign(tables(), out=out, workers=2),
    "a pool of processes": with_executor(lambda: ProcessPoolExecutor(2, mp_context=get_context("fork"))),
    "threads": with_executor(lambda: ThreadPoolExecutor(2)),
    "parts": in_parts,
    "its file": lambda out: bm.campaign(write(out.parent, tables()), out=out, threads=2),
}


@pytest.mark.parametrize("way", WAYS)
def test_bytes_are_the_same_whoever_computes_them(way: str, whole: bm.Campaign, tmp_path: Path) -> None:
    WAYS[way](tmp_path / "out")
    assert contents(tmp_path / "out") == contents(whole.path)
    assert bm.open(tmp_path / "out").finished


def test_a_cell_is_what_its_tables_run_alone(whole: bm.Campaign) -> None:
    from fastbm.campaigns import grid
    from tests.support.campaigns import row_of

    for cell, row in zip(grid.read(tables()).cells, whole.table.rows, strict=True):
        for name, value in row_of(cell.tables).items():
            assert row[name] == value or (value is None and row[name] != row[name]), name
    assert whole.status.done == len(whole) == 8 and whole.failed == {}
    assert repr(whole).endswith("8 of 8 cells done, 0 failed>")


def test_a_grid_that_grows_computes_nothing_twice(
    whole: bm.Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bm.campaign(tables(), out=tmp_path / "out")
    before = contents(tmp_path / "out")
    more = tables(fields=(0.0, 0.1, 0.2))
    grown = bm.campaign(more, out=tmp_path / "out")
    after = contents(tmp_path / "out")
    assert {name: after[name] for name in before} == before and len(after) == 8
    assert len(grown) == len(grown.table) == 12
    at_once = bm.campaign(more, out=tmp_path / "other").table
    for beta, field, energy in zip(at_once["beta"], at_once["field"], at_once["energy"], strict=True):
        assert grown.table.where(beta=beta, field=field)["energy"] == energy
    monkeypatch.setattr(task.ShardTask, "_row", None)  # all are there
    assert len(bm.campaign(tables(), out=tmp_path / "out")) == 12


def test_a_cell_that_fails_is_recorded_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = tables()
    del said["grid"]["model.field"]
    said["grid"]["sample.n_chains"] = [8, 0]
    file, out = write(tmp_path, said), tmp_path / "out"
    assert call("run", file, "--out", out, "-q") == 1
    assert "4 of 8 cells failed: sample.n_chains must be at least 1; got 0." in capsys.readouterr().err
    found = bm.open(out)
    assert found.status.failed == 4 and found.status.done == 4 and found.finished
    assert set(found.failed.values()) == {"sample.n_chains must be at least 1; got 0."}
    assert np.isnan(found.table["energy"]).sum() == 4
    assert call("show", out) == call("status", out) == 0
    assert "n_chains must be at least 1" in capsys.readouterr().out
    assert call("retry", out, "-q") == 1 and len(bm.open(out).generations) == 2
    assert bm.open(out).status == found.status.__class__(8, 4, 4, 0, 0, 0, None, bm.open(out).status.core_hours)


def test_a_campaign_without_a_result_says_how_to_begin_anew(tmp_path: Path) -> None:
    said = tables(1, keep="runs", n_shards=1)
    said["sample"]["n_chains"], out = 0, tmp_path / "out"
    assert bm.campaign(said, out=out).status.failed == 2
    said["sample"]["n_chains"] = 8
    text = f"No cell of it has a result: to begin anew there, remove {out}/generation-*.json and {out}/shards."
    with pytest.raises(bm.StorageError, match=re.escape(text)):
        bm.campaign(said, out=out)
    (out / "generation-0000.json").unlink()
    shutil.rmtree(out / "shards")
    assert bm.campaign(said, out=out).status.done == 2
    said["sample"]["n_chains"] = 9
    with pytest.raises(bm.StorageError, match="Name another folder"):
        bm.campaign(said, out=out)


def test_failed_cells_are_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises() -> None:
        raise MemoryError("Unable to allocate 3 TB")

    with monkeypatch.context() as patch:
        patch.setattr(task, "columns_of", lambda run: raises())
        found = bm.campaign(tables(), out=tmp_path / "out")
    assert set(found.failed.values()) == {"MemoryError: Unable to allocate 3 TB"}
    file = write(tmp_path, tables())
    assert call("retry", tmp_path / "out", "-q") == 0
    assert call("table", tmp_path / "out", "--out", tmp_path / "again.csv") == 0
    assert call("run", file, "--out", tmp_path / "other", "-q") == 0
    assert call("table", tmp_path / "other", "--out", tmp_path / "other.csv") == 0
    assert (tmp_path / "again.csv").read_text() == (tmp_path / "other.csv").read_text()


def test_a_cell_that_kills_its_worker_three_times_is_recorded(
    whole: bm.Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_bad(keys: dict[str, Any]) -> bool:
        return keys == {"sample.beta": 0.1, "model.field": 0.1}

    parent = os.getpid()
    monkeypatch.setattr(
        task.ShardTask, "_row", failing(is_bad, lambda: os.getpid() == parent or os.kill(os.getpid(), signal.SIGKILL))
    )
    found = bm.campaign(tables(), out=tmp_path / "out", workers=2)
    assert list(found.failed.values()) == [DIED.format(n=MOST_DEATHS)]
    kept = found.table.done()
    assert len(kept) == 7 and set(kept["energy"]) < set(whole.table["energy"])
    assert not list((tmp_path / "out" / "shards").glob("*.attempts"))


def test_workers_that_cannot_begin_end_the_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "begin", lambda *_: os._exit(1))
    with pytest.raises(bm.StorageError, match="workers die before they begin a cell"):
        bm.campaign(tables(), out=tmp_path / "out", workers=2)


def test_an_executor_that_dies_is_told_with_the_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(shard, "begin", lambda *_: os._exit(1))
        with (
            ProcessPoolExecutor(2, mp_context=get_context("fork")) as executor,
            pytest.raises(bm.Interrupted, match="a worker of the executor died"),
        ):
            bm.campaign(tables(), out=tmp_path / "out", executor=executor)
    assert bm.resume(tmp_path / "out").finished


def test_a_shard_that_another_process_writes_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastbm.runs.workers.coordinator.BUSY_SECONDS", 0.1)
    out = tmp_path / "out"
    with pytest.raises(bm.Interrupted):
        bm.campaign(tables(), out=out, max_seconds=0.0)
    from fastbm.store.lock import Lock
    from fastbm.store.names import Names

    lock = Lock(Names(shard.path_of(out, 0, 2)))
    assert call("run", write(tmp_path, tables()), "--out", out, "-q", "--part", "1/1") == 0
    assert call("resume", out, "-q") == 3
    assert bm.open(out).status.waiting == 2
    lock.release()
    assert call("resume", out, "-q") == 0


def test_all_files_of_a_campaign_are_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    bm.campaign(tables(2, keep="runs", n_shards=2), out=out, part="1/2")
    assert call("verify", out) == 0
    assert capsys.readouterr().out.count("are whole; finished") == 3  # a shard, and two cells
    kept = next((out / "cells").glob("*.h5"))
    kept.write_bytes(kept.read_bytes()[:-100])
    assert call("verify", out) == 1 and call("verify", out, "--sha256") == 2


@pytest.fixture
def said() -> Iterator[dict[str, Any]]:
    yield tables()


def test_other_settings_are_refused_by_their_names(whole: bm.Campaign, said: dict[str, Any]) -> None:
    said["sample"]["n_sweeps"], said["campaign"]["seed"] = 11, 5
    with pytest.raises(bm.StorageError, match=r"sample\.n_sweeps is 11 here and 10 there; seed is 5 here and 0 there"):
        bm.campaign(said, out=whole.path)
    other = {**tables(), "infer": {"method": "exact"}}
    del other["sample"], other["grid"]["sample.beta"]
    with pytest.raises(bm.StorageError, match=r"is a campaign with other settings: infer is absent there|infer is"):
        bm.campaign(other, out=whole.path)
    assert len(whole.refresh().generations) == 1


@pytest.mark.parametrize("part", ["0/4", "5/4", "1/0", "2", "a/b", 3])
def test_parts_that_there_are_not_are_refused(part: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="part must be"):
        bm.campaign(tables(), out=tmp_path / "out", part=part)
    assert call("run", write(tmp_path, tables()), "--part", part) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "campaign").exists()


def test_what_goes_with_campaigns_alone_is_refused_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    single = {name: table for name, table in tables().items() if name not in ("grid", "campaign")}
    assert call("run", write(tmp_path, single), "--part", "1/2") == 2
    assert "--part goes with campaigns" in capsys.readouterr().err
    assert call("run", write(tmp_path, tables()), "--workers", "2", "--mpi") == 2
    assert call("run", write(tmp_path, tables()), "--overwrite") == 2
    assert call("status", tmp_path) == 2 and "holds no campaign" in capsys.readouterr().err
    assert call("run", write(tmp_path, tables()), "-q", "--max-seconds", "0") == 3
    for verb in ("watch", "merge", "report"):
        assert call(verb, tmp_path / "campaign") == 2
        assert "which is the folder of a campaign. fastbm.open(FOLDER)" in capsys.readouterr().err


def test_verbs_of_single_runs_name_those_of_campaigns(whole: bm.Campaign) -> None:
    text = r"^{} must be the file of a run; got .*, which is the folder of a campaign. .*resume, retry and extend"
    for verb, argument in ((bm.verify, "path"), (bm.merge, "path"), (bm.extend, "run")):
        with pytest.raises(bm.StorageError, match=text.format(argument)):
            verb(whole.path)
    with pytest.raises(bm.StorageError, match=r"holds no machine: fastbm\.open\('.*'\) reads its runs"):
        bm.load(whole.path)
    with pytest.raises(bm.StorageError, match=text.format("run")):
        bm.extend(whole)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=f"path must be text or a Path; .*Name where it is: {str(whole.path)!r}"):
        bm.resume(whole)  # type: ignore[arg-type]
    with pytest.raises(bm.StorageError, match=r"\(it is the folder of a campaign\). It is never overwritten"):
        bm.sample(bm.models.curie_weiss(4), n_sweeps=2, out=whole.path, overwrite=True)
    with pytest.raises(ValueError, match="data is of a single run; path is the folder of a campaign"):
        bm.resume(whole.path, data=[[1]])


def test_bad_arguments_are_refused(whole: bm.Campaign, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for options, error, text in (
        ({"out": tmp_path / "file"}, bm.StorageError, "is no folder"),
        ({"out": 3}, TypeError, "out must be a path"),
        ({}, ValueError, "needs a folder"),
        ({"out": tmp_path / "a", "executor": 3}, TypeError, "executor must be"),
        ({"out": tmp_path / "a", "stop": 3}, TypeError, "stop must be a fastbm.runs.stop.Stop"),
        ({"out": tmp_path / "a", "workers": 0}, ValueError, "workers must be at least 1"),
        ({"out": tmp_path / "a", "workers": 2, "executor": ThreadPoolExecutor(1)}, ValueError, "not both"),
    ):
        with pytest.raises(error, match=text):
            bm.campaign(tables(), **options)
    with pytest.raises(TypeError, match="tables must be"):
        bm.campaign(3)  # type: ignore[arg-type]
    with pytest.raises(AttributeError, match="rows of its table"):
        whole.run(whole.ids[0])
    with pytest.raises(KeyError, match="no cell that is done"):
        whole.keys_of("0")


def test_other_versions_are_refused_unless_they_are_taken(
    whole: bm.Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bm.campaign(tables(), out=tmp_path / "out", part="1/2")
    monkeypatch.setattr(shard, "versions_of", lambda verb: {"numpy": "1.0"})
    with pytest.raises(bm.StorageError, match=r"numba .* and None is here.* in a worker"):
        bm.campaign(tables(), out=tmp_path / "out")
    monkeypatch.setattr(generations, "versions_of", lambda verb: {"fastbm": "0", "numpy": "1.0", "numba": "2"})
    with pytest.raises(bm.StorageError, match=r"numpy .* and 1\.0 is here"):
        bm.campaign(tables(), out=tmp_path / "out")
    bm.campaign(tables(), out=tmp_path / "out", exact=False)
    assert contents(tmp_path / "out") == contents(whole.path)


def test_a_beginning_that_makes_no_sense_is_told(tmp_path: Path) -> None:
    bm.campaign(tables(), out=tmp_path / "out", part="1/4")
    file = tmp_path / "out" / "generation-0000.json"
    found = json.loads(file.read_text())
    others = [{"why": "grdi"}, {"why": "retry"}, {"shards": ["a"]}, {"tables": {**found["tables"], "grid": 3}}]
    texts = [json.dumps({**found, **other}) for other in ({"format": 9}, *others)] + ["{"]
    for text, told in zip(texts, ["reads up to", *["makes no sense"] * 5], strict=True):
        file.write_text(text)
        with pytest.raises(bm.StorageError, match=told):
            bm.open(tmp_path / "out")


@pytest.mark.parametrize("kind", ["infer", "fit", "compare"])
def test_other_verbs_are_cells_too(kind: str, tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "infer": {"model": {"name": "ising", "shape": [3, 3]}, "infer": {"method": "ais", "n_chains": 8, "n_betas": 4}},
        "compare": {"model": {"name": "ising", "shape": [3, 3]}, "compare": {"methods": ["mean-field", "exact"]}},
        "fit": {"data": {"source": "bars"}, "fit": {"method": "pseudolikelihood"}},
    }[kind]
    if kind == "fit":
        rows = tmp_path / "rows.npy"
        np.save(rows, np.random.default_rng(1).integers(0, 2, (40, 6)))
        said["data"]["source"] = str(rows)
        said["grid"] = {"fit.seed": [1, 2]}
    else:
        said["grid"] = {f"{kind}.beta": [0.2, 0.4]}
    found = bm.campaign(said, out=tmp_path / "out", workers=2)
    assert found.failed == {} and len(found.table) == 2 and found.verb == kind


@pytest.mark.parametrize(("keep", "seconds"), [("summary", 0.01), ("runs", 0.05)])
def test_stopped_by_the_clock_within_cells_a_campaign_ends_the_same(keep: str, seconds: float, tmp_path: Path) -> None:
    said, n_stops = tables(2, keep=keep, n_shards=2), 0
    said["sample"]["n_sweeps"] = 40
    with pace.short_blocks():
        whole = bm.campaign(said, out=tmp_path / "whole")
        while not (tmp_path / "out").exists() or not bm.open(tmp_path / "out").finished:
            with contextlib.suppress(bm.Interrupted):
                bm.campaign(said, out=tmp_path / "out", max_seconds=seconds)
            n_stops += 1
            assert n_stops < 200
    assert n_stops > 1 and contents(tmp_path / "out") == contents(whole.path)


DASK = """
import subprocess, sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        subprocess.run([*sys.argv[1:], "--scheduler", cluster.scheduler_address], check=True)
"""
WITH_MPI = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", "-m", "fastbm"]


@pytest.mark.slow  # in processes of their own: what they leave behind must not be in that of other tests
@pytest.mark.parametrize("way", ["processes", "distributed", "mpi4py"])
def test_bytes_are_the_same_on_what_a_cluster_has(way: str, whole: bm.Campaign, tmp_path: Path) -> None:
    start, more = [sys.executable, "-m", "fastbm"], ["--workers", "2"]
    if way != "processes":
        pytest.importorskip(way)
    if way == "distributed":
        (tmp_path / "cluster.py").write_text(DASK)
        start, more = [sys.executable, str(tmp_path / "cluster.py"), *start], []
    if way == "mpi4py":
        start, more = WITH_MPI, ["--mpi"]
    words = [*start, "run", str(write(tmp_path, tables())), "-q", *more]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert contents(tmp_path / "campaign") == contents(whole.path)


@pytest.mark.slow
def test_an_address_where_no_scheduler_listens_is_told(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "fastbm", "run", str(write(tmp_path, tables())), "--scheduler", "tcp://127.0.0.1:9"]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "no Dask scheduler listens at tcp://127.0.0.1:9" in done.stderr
