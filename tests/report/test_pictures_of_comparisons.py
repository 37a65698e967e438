"""What is shown of `infer` and `compare`: errors only where exact sums tell them, and no empty panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm import cli
from fastbm.inference.comparison import Cell
from fastbm.report.pictures.compare import LABELS, OFF
from tests.support.machines import calm


def made(method: str, log_z: Any = None, model: str = "m", beta: float = 1.0, **about: Any) -> Cell:
    about = {"log_z_error": None if log_z is None else np.full(np.shape(log_z), 0.1)[()]} | about
    return Cell(model, beta, method, bm.Inference(method, log_z=log_z, **about))


def drawn(*cells: Cell) -> Any:
    figure = bm.plots.figure(bm.Comparison(cells))
    figure.draw_without_rendering()
    return figure


BRACKET = made("ais", 2.0, bound="stochastic lower", detail={"log_z_upper": 2.5})
EXACT = made("exact", 2.0, bound="exact", energy=-1.0, log_z_error=0.0)


@pytest.mark.parametrize(
    ("cells", "quantity", "values"),
    [
        ((BRACKET, made("tempering", 2.1)), "log_z", [2.0, 2.1]),
        ((made("tempering", 2.1), made("tap", 2.2)), "log_z", [2.1, 2.2]),
        ((EXACT,), "log_z", [2.0]),
        ((EXACT, made("gibbs", energy=-1.1, energy_error=0.1)), "energy", [-1.0, -1.1]),
        ((made("gibbs", energy=-1.1),), "energy", [-1.1]),
        ((made("exact", np.array([2.0, 3.0]), bound="exact"),), "log_z", [2.0, 3.0]),
        ((made("ais", np.array([2.0, 3.0])),), "log_z", [2.0, 3.0]),
        ((made("gibbs", energy=np.array([2.0, 3.0])),), "energy", [2.0, 3.0]),
        ((EXACT, made("ais", 2.5)), OFF, [0.5]),
    ],
    ids=["bracket", "nothing", "exact", "exact and gibbs", "gibbs", "patterns", "ais", "gibbs of patterns", "errors"],
)
def test_what_is_drawn_of_a_machine(cells: tuple[Cell, ...], quantity: str, values: list[float]) -> None:
    figure = drawn(*cells)
    axes = figure.axes[0]
    assert axes.get_ylabel() == LABELS[quantity] and len(figure.axes) == (3 if quantity == OFF else 1)
    points = np.concatenate([line.get_ydata() for line in axes.lines if line.get_marker() not in ("_", "None")])
    np.testing.assert_allclose(points.astype(float), values)
    assert len(axes.patches) == (cells[0] is BRACKET)  # the band
    if cells[0] is BRACKET:
        assert axes.patches[0].get_window_extent().transformed(axes.transData.inverted()).intervaly == pytest.approx(
            [2.0, 2.5]
        )


def test_a_machine_without_exact_sum_leaves_others_their_errors() -> None:
    figure = drawn(EXACT, made("ais", 2.5), made("tempering", 2.1), made("ais", 4.0, "n"), made("tempering", 4.1, "n"))
    first, second, costs, _ = figure.axes
    assert (first.get_ylabel(), second.get_ylabel()) == (LABELS[OFF], LABELS["log_z"])
    assert sorted({float(line.get_ydata()[0]) for line in costs.lines}) == pytest.approx([0.1, 0.5])


def test_a_comparison_without_results_is_told_and_one_that_skipped_all_is_no_empty_panel() -> None:
    assert drawn(made("ais", detail={"skipped": "too long"})).axes[0].texts[0].get_text() == "no results"
    with pytest.raises(ValueError, match="nothing to draw yet"):
        drawn()


def test_error_bars_that_nobody_believes_are_hollow_and_not_counted() -> None:
    figure = drawn(EXACT, *(made("ais", 2.0 + off, converged=c) for off, c in ((0.1, True), (0.5, None), (0.9, False))))
    bars = figure.axes[2]
    filled, hollow = (
        [x for line in bars.lines if line.get_marker() != "None" and (line.get_mfc() == "none") == is_hollow
         for x in line.get_xdata()]
        for is_hollow in (False, True)
    )  # fmt: skip
    np.testing.assert_allclose(filled, [1.0])
    np.testing.assert_allclose(hollow, [5.0, 6.0])  # at the edge
    assert "filled points" in bars.get_title(loc="right")
    assert "not said to have converged" in [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("n_models", [1, 3])
def test_a_legend_of_many_methods_stays_within_the_picture(n_models: int) -> None:
    names = ["population-annealing", "importance-sampling", "sampled-states", "reverse-ais", "mean-field", "tempering"]
    cells = [made(name, 2.5, model) for model in "abc"[:n_models] for name in names]
    figure = drawn(*(made("exact", 2.0, model, log_z_error=0.0) for model in "abc"[:n_models]), *cells)
    legend = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= legend.x0 and legend.x1 <= figure.bbox.x1


def test_long_names_stay_within_the_picture() -> None:
    names = ["a machine of many units " * 20, "/home/user/" + "x" * 150]
    figure = drawn(*(made("ais", 2.0, name) for name in names))
    for axes in figure.axes:
        extent = axes.title.get_window_extent()
        assert extent.x0 >= 0.0 and extent.x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("method", "options", "found"),
    [
        ("gibbs", {}, ["energy -", "means -"]),
        (
            "exact",
            {"clamp": ([0, 1], [[1, 1], [1, -1]])},
            ["log Z", "2 patterns", "energy -", "means -1 to 1"],
        ),
    ],
)
def test_a_run_of_infer_shows_what_it_found(
    method: str, options: Any, found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.h5"
    model = bm.models.sherrington_kirkpatrick(6, seed=1)
    calm(bm.infer, model, method, out=path, seed=1, threads=1, **options)
    for word in ("show", "report"):
        with pytest.raises(SystemExit):
            cli.main([word, str(path)])
    shown = " ".join(capsys.readouterr().out.split())
    page = path.with_suffix(".html").read_text()
    for text in found:
        assert text in shown and text.split()[0] in page
    assert bm.open(path).plot().axes[0].has_data()


def test_rules_keep_to_the_width_of_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.chdir(tmp_path)
    bm.compare_rules({"m": bm.models.curie_weiss(4)}, ["naive-mean-field"], n_rows=[100], out="run.h5")
    with pytest.raises(SystemExit):
        cli.main(["show", "run.h5"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
