"""Grids that grow with their numbers written otherwise, and entries of [zip] that are there twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastbm as bm
from fastbm.campaigns import grid, settled
from fastbm.campaigns.alike import as_before, refuse_doubles
from tests.support.campaign_kills import tables

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")

LADDER: dict[str, Any] = {
    "model": {"name": "ising", "shape": [4, 4], "field": 0},
    "sample": {"sampler": "tempering", "betas": [0, 0.5, 1], "until": {"ess": 100}},
    "grid": {"model.coupling": {"linspace": [0, 1, 3]}, "sample.seed": [1, 2]},
}
OTHERWISE: dict[str, Any] = {
    "model": {"name": "ising", "shape": [4, 4], "field": 0.0},
    "sample": {"sampler": "tempering", "betas": [0.0, 0.5, 1.0]},
    "grid": {"model.coupling": [0, 0.5, 1], "sample.seed": {"range": [1, 3]}, "sample.until": [{"ess": 100.0}]},
}


@pytest.mark.parametrize(("first", "then"), [(LADDER, OTHERWISE), (OTHERWISE, LADDER)])
def test_cells_are_found_however_their_numbers_are_written(first: dict[str, Any], then: dict[str, Any]) -> None:
    there = set(grid.read(first).cells.ids)
    assert not there & set(grid.read(then).cells.ids)
    found = as_before(grid.read(then), [first])
    assert set(found.cells.ids) == there == set(as_before(found, [first, then]).cells.ids)
    assert as_before(found, [first]) is found and as_before(found, []) is found


def test_a_grid_that_grows_with_whole_numbers_computes_nothing_twice(tmp_path: Path) -> None:
    first = bm.campaign(tables(1, (0.0, 1), n_shards=1), out=tmp_path, threads=1)
    grown = bm.campaign(tables(1, (0, 1.0, 2), n_shards=1), out=tmp_path, threads=1)
    assert [one.n_cells for one in grown.generations] == [2, 1] and set(first.ids) < set(grown.ids)
    assert grown.table["field"].tolist() == [0.0, 1.0, 2.0]


def test_entries_of_zip_that_are_there_twice_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tables(1, (0.0,), n_shards=1)
    said["zip"] = {"sample.n_sweeps": [10, 20, 10], "sample.thin": [1, 1, 1]}
    with pytest.raises(ValueError, match=r"\[zip\] has sample.n_sweeps = 10, sample.thin = 1 twice"):
        bm.campaign(said, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with monkeypatch.context() as patch:
        patch.setattr(settled, "refuse_doubles", lambda plan: None)
        assert len(bm.campaign(said, out=tmp_path / "earlier", threads=1)) == 2
    assert len(bm.resume(tmp_path / "earlier").table) == 2
    refuse_doubles(grid.read(said | {"zip": {"sample.n_sweeps": [10, 20], "sample.thin": [1, 1]}}))
