"""Cells that did not converge are computed for longer, with the tables of their own grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from tests.support.campaign_kills import tables

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as left:
        cli.main([str(word) for word in words])
    return int(left.value.code or 0)


def test_runs_of_cells_are_kept_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, out = tables(2, keep="runs", n_shards=2), tmp_path / "out"
    found = bm.campaign(said, out=out)
    summary = bm.campaign(tables(2, n_shards=2), out=tmp_path / "summary")
    assert len(list((out / "cells").iterdir())) == 4
    first = found.run(found.ids[0])
    assert first.finished and first.config["sample"]["n_sweeps"] == 10
    for name in ("energy", "m2"):
        np.testing.assert_array_equal(found.table[name], summary.table[name])
    lowest = set(found.unconverged)
    assert lowest, "no cell of so few sweeps should have converged"
    assert call("extend", out, "--unconverged", "--factor", 3, "-q") == 0
    longer = bm.open(out)
    assert {name for name in found.ids if longer.run(name).config["sample"]["n_sweeps"] == 30} == lowest
    assert longer.factors == dict.fromkeys(lowest, 3.0) and len(longer.table) == 4
    assert call("extend", out) == 2


def test_cells_of_summaries_are_computed_again_for_longer(tmp_path: Path) -> None:
    said, out = tables(2, n_shards=2), tmp_path / "out"
    found = bm.campaign(said, out=out)
    longer = found.extend(3)
    said["sample"]["n_sweeps"] = 30
    other = bm.campaign(said, out=tmp_path / "other")
    assert set(longer.table["n_samples"]) <= {80, 240} and 240 in longer.table["n_samples"]
    assert len(longer) == len(other) == 4 and longer.factors == dict.fromkeys(found.unconverged, 3.0)
    again = longer.extend(2)
    assert set(again.factors.values()) <= {2.0, 3.0, 6.0}
    with pytest.raises(ValueError, match="factor must be above 1"):
        longer.extend(1)
    with pytest.raises(ValueError, match=r"factor must leave sample.n_sweeps at most \d+; it would be .*e\+301 where"):
        again.extend(1e300)
    with pytest.raises(ValueError, match=r"samples of 8 chains take about .* GB in memory"):
        again.extend(1e13)
    assert len(again.refresh().generations) == len(longer.refresh().generations) and again.failed == {}


def test_cells_of_an_earlier_grid_stay_those_of_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What one grid varies may stand in the tables of another: in the table, and for longer, a cell keeps its own."""
    hot, both, cold = (tables(2, fields=(0.0,), n_shards=1) for _ in range(3))
    for said, beta in ((hot, 0.0), (cold, 2.0)):
        del said["grid"]["sample.beta"]
        said["sample"]["beta"] = beta
    _, earlier, found = (bm.campaign(said, out=tmp_path / "out") for said in (hot, both, cold))
    assert found.table["beta"].tolist() == [0.0, 0.1, 0.8, 2.0] and len(found.table.average("field")) == 4
    monkeypatch.setattr(bm.Campaign, "unconverged", earlier.ids)
    longer = found.extend(100).table.where(beta=0.0)
    assert longer["n_samples"] == 8000 and abs(longer["energy"]) < 0.2, "at beta = 2 it is -2"
    assert call("show", tmp_path / "out") == 0
    assert "sample.beta" not in capsys.readouterr().out, "the last grid has none"
