"""Files that cells read are found whatever folder workers are in."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.campaigns import shard
from tests.campaigns.test_campaign import call
from tests.support import machines
from tests.support.campaign_kills import contents, tables, write

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
EXACT: dict[str, Any] = {"grid": {"infer.beta": [0.2, 0.4]}, "infer": {"method": "exact"}}
TABLES: dict[str, dict[str, Any]] = {
    "rows": {
        "data": {"source": "rows.npy", "holdout_source": ["rows.npy", "held.h5:rows"]},
        "fit": {"method": "exact"},
        "grid": {"fit.l2": [0.1, 0.2]},
    },
    "a machine": {"grid": {"model.source": ["machine.h5"], **EXACT["grid"]}, "model": {}, "infer": EXACT["infer"]},
    "a graph": {"model": {"name": "from_rudy", "path": "./graph.txt"}, **EXACT},
}


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with files that cells read, and one beside it with none."""
    (there := tmp_path / "there").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(there)
    rows = np.random.default_rng(1).integers(0, 2, (40, 3))
    np.save("rows.npy", rows)
    with h5py.File("held.h5", "w") as file:
        file["rows"] = rows
    bm.models.ising((2, 2)).save("machine.h5")
    Path("graph.txt").write_text("3 3\n1 2 1\n2 3 1\n1 3 1\n")
    return there


@pytest.mark.parametrize("keep", ["summary", "runs"])
@pytest.mark.parametrize("what", TABLES)
def test_workers_in_another_folder_read_and_write_where_the_campaign_is(what: str, keep: str, begun: Path) -> None:
    said = {**TABLES[what], "campaign": {"keep": keep, "n_shards": 2}}
    machines.close_pools()
    elsewhere = begun.parent / "elsewhere"
    with ProcessPoolExecutor(1, get_context("fork"), os.chdir, (elsewhere,)) as executor:
        found = bm.campaign(said, out="camp", executor=executor)
    assert found.failed == {} and found.status.done == 2 and not os.listdir(elsewhere)
    here = bm.campaign(said, out="here", threads=1)
    assert contents(found.path) == contents(here.path)
    for id in found.ids if keep == "runs" else ():
        assert found.run(id).config == here.run(id).config


def test_shards_that_workers_did_out_of_sight_are_told(
    begun: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shard.ShardJob, "bring_to_end", lambda *_: None)
    assert call("run", write(begun, tables()), "--out", "camp", "-q") == 2
    told = capsys.readouterr().err
    assert "camp: 8 cells are left, as 4 of 4 shards are not here" in told and f"{begun}/camp/shards/0-000.h5" in told
