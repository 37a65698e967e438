"""One parameter that runs to infinity does not flatten the others, and the picture says so."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

import fastbm as bm
from fastbm.report.pictures import run as pictures
from fastbm.report.pictures.style import clip


def test_what_is_far_larger_than_most_is_drawn_at_the_edge() -> None:
    values = np.array([0.1, -0.3, 0.2, 0.25, -0.15, 1e3, 0.0])
    clipped, limit, told = clip(values)
    assert limit == 0.3 and told == "1 beyond ±0.3 drawn at the edge"
    np.testing.assert_array_equal(clipped, [0.1, -0.3, 0.2, 0.25, -0.15, 0.3, 0.0])
    assert clip(values[:5])[1:] == (0.3, "")
    assert clip(np.zeros(3))[1:] == (1.0, "")
    assert clip(np.array([0.01, 0.5, 0.6]))[1:] == (0.6, "")  # one that is small makes no others far


@pytest.mark.parametrize("n", [3, 6, 10])
def test_two_open_couplings_of_a_few_are_both_drawn_at_the_edge(n: int) -> None:
    values = np.linspace(0.2, 0.5, n)
    values[:2] = 40.0, -300.0
    clipped, limit, told = clip(values)
    assert limit == 0.5 and told == "2 beyond ±0.5 drawn at the edge"
    np.testing.assert_array_equal(clipped[:2], [0.5, -0.5])
    assert clip(np.tile(values, 2), n_times=2)[1:] == (0.5, "4 beyond ±0.5 drawn at the edge")


@pytest.mark.filterwarnings("ignore")
def test_a_coupling_that_data_leave_open_flattens_no_panel() -> None:
    rows = (np.random.default_rng(0).random((300, 12)) < 0.4).astype(np.uint8)
    rows[:, 1] &= 1 - rows[:, 0]  # never on together
    run = bm.fit(rows, method="exact", units="binary", evaluate="none", epochs=2_000, tolerance=1e-12)
    weights = run.model.couplings.arrays[0]
    assert weights[0, 1] < -10.0
    (histogram,) = [axes for axes in pictures._fit(run).axes if "1 beyond" in axes.get_title()]
    assert max(np.abs(histogram.get_xlim())) < 1.0
    matrix = Figure().subplots()
    pictures.draw_coupling_matrix(matrix, run.model.couplings.matrix())
    assert matrix.images[0].get_clim()[1] < 1.0 and "1 beyond" in matrix.get_title()
    panel = Figure().subfigures(1, 1)
    pictures._gallery(panel, pictures._receptive_fields(run)[:, :9], 3, "fields", signed=True)
    assert panel.axes[0].images[0].get_clim()[1] < 1.0 and "drawn at the edge" in panel.axes[0].get_title()
