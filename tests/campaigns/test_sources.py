"""Files that cells read are found whatever folder workers are in, and are those that the campaign was begun with."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.campaigns import reading, shard
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


def grown(n_cells: int) -> dict[str, Any]:
    """Tables of a campaign that has more and more cells."""
    return {**TABLES["rows"], "grid": {"fit.l2": [0.1 * (k + 1) for k in range(n_cells)]}}


def another() -> None:
    np.save("rows.npy", np.random.default_rng(2).integers(0, 2, (40, 3)))


def moved() -> None:
    os.rename("rows.npy", "moved.npy")


def another_folder() -> None:
    os.chdir("../elsewhere")
    another()


REFUSED: dict[str, tuple[Callable[[], None], str]] = {
    "another file": (another, "there/rows.npy (data.source) is not the file that cells of {out} were computed"),
    "another folder with another file": (another_folder, "elsewhere/rows.npy (data.source) is not the file"),
    "no file": (moved, "rows.npy (data.source) is neither here nor where cells of {out} were begun"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_campaign_goes_on_with_the_files_that_it_began_with(what: str, begun: Path) -> None:
    change, text = REFUSED[what]
    out = begun / "camp"
    assert bm.campaign(grown(2), out=out, part="1/2").status.done == 1
    kept = contents(out)
    change()
    for act in (
        lambda: bm.campaign(grown(3), out=out), bm.open(out).resume, lambda: bm.open(out).extend(factor=2),
    ):  # fmt: skip
        with pytest.raises(bm.StorageError, match=re.escape(text.format(out=out))) as told:
            act()
        assert "begin a new campaign, in another folder" in str(told.value)
    assert contents(out) == kept and len(bm.open(out).generations) == 1


def test_files_that_stay_as_they_are_are_found_from_elsewhere_and_hashed_once(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = begun / "camp"
    bm.campaign(grown(2), out=out, part="1/2")
    os.utime("rows.npy", (1, 1))  # the bytes are the same
    assert len(bm.campaign(grown(3), out=out).table) == 3
    os.chdir("../elsewhere")
    monkeypatch.setattr(reading, "hashlib", None)
    found = bm.campaign(grown(4), out=out)
    assert found.failed == {} and len(found.table) == 4 and len(found.generations) == 3
    os.unlink(begun / "rows.npy")
    assert len(bm.campaign(grown(4), out=out).table) == 4  # nothing is left that would read it


def test_a_campaign_without_notes_goes_on_and_notes_what_new_cells_read(begun: Path) -> None:
    out, file = begun / "camp", begun / "camp" / "generation-0000.json"
    bm.campaign(grown(2), out=out, part="1/2")
    said = json.loads(file.read_text())
    assert set(said.pop("files")) == {"rows.npy", "held.h5"}
    file.write_text(json.dumps(said))
    another()
    assert bm.open(out).resume().status.done == 2
    assert len(bm.campaign(grown(3), out=out).table) == 3
    Path("held.h5").write_bytes(b"")
    with pytest.raises(bm.StorageError, match=r"there/held\.h5 \(data\.holdout_source\) is not the file"):
        bm.campaign(grown(4), out=out)


def test_a_campaign_of_files_that_there_are_not_is_not_begun(begun: Path) -> None:
    moved()
    with pytest.raises(
        bm.StorageError, match=r"rows\.npy does not exist \(data\.source\)\. Nothing was begun in camp\."
    ):
        bm.campaign(grown(2), out="camp")
    assert not Path("camp").exists()
