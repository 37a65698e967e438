"""Campaigns drawn, and a transition found by one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import fastbm as bm
from fastbm.campaigns.table import Table
from tests.support.stopping import start

figures = pytest.importorskip("matplotlib.figure")

KEYS = [
    {"model.shape": shape, "sample.beta": beta, "model.seed": k}
    for shape in ([4, 4], [8, 8])
    for beta in (0.2, 0.1)
    for k in range(3)
]
ROWS = [{"energy": -2.0 * key["sample.beta"] + 0.1 * key["model.seed"]} for key in KEYS]


def test_a_curve_for_each_group_with_errors_over_disorder() -> None:
    axes = figures.Figure().subplots()
    assert bm.plots.campaign(Table.of(KEYS, ROWS), "beta", group="shape", ax=axes) is axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["4x4", "8x8"]
    for line, _, (bars,) in axes.containers:
        np.testing.assert_allclose(line.get_xydata(), [[0.1, -0.1], [0.2, -0.3]])
        low, high = bars.get_segments()[0][:, 1]
        assert high - low == pytest.approx(2.0 * 0.1 / math.sqrt(3.0))
    with pytest.raises(ValueError, match="'shape' holds no numbers"):
        bm.plots.campaign(Table.of(KEYS, ROWS), "shape", ax=axes)
    with pytest.raises(ValueError, match="say which column"):
        bm.plots.campaign(Table.of(KEYS, [{"a": 1.0}] * len(KEYS)), "beta", ax=axes)


@pytest.mark.slow
def test_the_ready_campaign_finds_the_transition(tmp_path: Path) -> None:
    out = tmp_path / "binder"
    with start("run", Path(__file__).parents[2] / "runs" / "binder.toml", "--out", out, "-q", before="") as child:
        child.communicate()
    assert child.returncode == 0
    last = bm.open(out).table.crossing()[-1]
    assert last.groups == ((16, 16), (32, 32)) and last.error < 5e-4
    assert last.x == pytest.approx(math.log(1.0 + math.sqrt(2.0)) / 2.0, abs=5.0 * last.error)
    with start("plot", out, "--x", "beta", "--group", "shape", "--png", tmp_path / "binder.png", before="") as child:
        child.communicate()
    assert child.returncode == 0 and (tmp_path / "binder.png").stat().st_size > 10_000
