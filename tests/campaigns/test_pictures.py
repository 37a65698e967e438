"""Campaigns drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastbm as bm
from fastbm.campaigns.table import Table

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
        assert high - low == pytest.approx(2.0 * 0.1 / math.sqrt(3.0) * 4.302653 / 1.959964)
    with pytest.raises(ValueError, match="'shape' holds no numbers"):
        bm.plots.campaign(Table.of(KEYS, ROWS), "shape", ax=axes)
    with pytest.raises(ValueError, match="say which column"):
        bm.plots.campaign(Table.of(KEYS, [{"a": 1.0}] * len(KEYS)), "beta", ax=axes)
