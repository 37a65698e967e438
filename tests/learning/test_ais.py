"""The likelihood by annealed importance sampling: along the way, and its bracket at the end, against exact values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.conditional.layers import lower_bounds
from fastbm.inference.likelihood import log_sums
from fastbm.learning.monitor import ais as looks
from fastbm.runs.fit import evaluation
from fastbm.runs.fit.summary import _bracket
from tests.support.crash import assert_same_run


def rows_of(m: int, n: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    pattern = generator.integers(0, 2, n)
    return ((generator.random((m, 1)) < 0.5) * pattern ^ (generator.random((m, n)) < 0.2)).astype(np.uint8)


@pytest.mark.parametrize("options", [{"n_hidden": 5}, {}, {"method": "exact"}, {"n_hidden": 3, "method": "cd"}])
def test_looks_are_right(options: dict[str, Any]):
    rows, held = rows_of(300, 12), rows_of(70, 12, 1)
    run = bm.fit(rows, holdout=held, epochs=30, ais_every=10, evaluate="none", **options)
    looks = run.likelihood
    last = int(run.metrics["step"][-1])
    assert looks["epoch"].tolist() == sorted({*(k for k in (9, 19, 29) if k <= last), last})
    assert (looks["ess"] > 30).all()
    for k, epoch in enumerate(looks["epoch"]):
        at = int(np.flatnonzero(run.weights["epoch"] == epoch)[0])
        arrays = [run.weights["weights"][at]]
        couplings = run.model.couplings.with_arrays(arrays)
        like = run.model
        machine = like.trusted(couplings, run.weights["bias"][at], like.convention, like.n_hidden, like.offset)
        log_z, error = bm.infer(machine, "exact").log_z, looks["log_z_error"][k]
        assert abs(looks["log_z"][k] - log_z) < 4 * error + 1e-9
        for name, data in (("log_likelihood", rows), ("holdout_log_likelihood", held)):
            exact = float(log_sums(machine, data.astype(float), 1.0, 1)[0].mean()) - log_z
            assert abs(looks[name][k] - exact) < 4 * error + 1e-9
    assert any(name.startswith("log-likelihood by ais, held out, epoch") for name in run.summary())
    assert not any(name.startswith("likelihood") for name in run.metrics)


@pytest.mark.parametrize("ending", [{"patience": 9}, {"learning_rate": 30.0, "batch_size": 20}], ids=["best", "astray"])
@pytest.mark.filterwarnings("ignore:learning diverged:fastbm.ConvergenceWarning")
def test_looks_do_not_depend_on_threads_or_stops(ending: dict[str, Any], tmp_path: Path):
    """Looks are at the last epoch's machine, where learning ends with that of another one."""
    rows, held = rows_of(100, 8), rows_of(30, 8, 1)
    options = {"n_hidden": 3, "epochs": 7, "ais_every": 3, "holdout": held, "n_chains": 70, "evaluate": "ais", **ending}
    whole = bm.fit(rows, out=tmp_path / "whole.h5", threads=2, **options)
    assert np.any(whole.model.weights[0] != whole.weights["weights"][-1])
    run = bm.fit(rows, out=tmp_path / "run.h5", threads=1, max_seconds=0.0, **options)
    while not run.finished:
        run = bm.resume(tmp_path / "run.h5", threads=1, max_seconds=0.0)
    assert_same_run(tmp_path / "whole.h5", tmp_path / "run.h5")
    assert bm.open(tmp_path / "run.h5").likelihood["epoch"].tolist() == [2, 5, 6]


def test_seeds_differ_from_look_to_look():
    run = bm.fit(rows_of(100, 8), epochs=4, ais_every=1, learning_rate=1e-12, evaluate="none")
    assert len(set(run.likelihood["log_z"])) == 4
    np.testing.assert_allclose(run.likelihood["log_z"], run.likelihood["log_z"].mean(), atol=0.1)


@pytest.mark.parametrize("units", ["binary", "spin"])
def test_the_bracket_holds_the_truth(units: str):
    rows, held = rows_of(200, 10), rows_of(50, 10, 1)
    if units == "spin":
        rows, held = 2 * rows.astype(int) - 1, 2 * held.astype(int) - 1
    run = bm.fit(rows, holdout=held, n_hidden=4, epochs=30, learning_rate=0.1, evaluate="ais")
    found = {name: float(values[-1]) for name, values in run.evaluation.items()}
    exact = bm.infer(run.model, "exact").log_z
    assert found["upper_holds"] == 1.0
    assert (
        found["log_z_lower"] - 4 * found["log_z_lower_error"]
        < exact
        < found["log_z_upper"] + 4 * found["log_z_upper_error"]
    )
    assert found["log_z"] == found["log_z_lower"]
    for prefix in ("", "holdout_"):
        clamped = found[f"{prefix}log_likelihood"] + found["log_z"]
        for end, other in (("lower", "upper"), ("upper", "lower")):
            assert found[f"{prefix}log_likelihood_{end}"] == pytest.approx(clamped - found[f"log_z_{other}"])
    text = run.summary()["log-likelihood, held out, bracket"]
    ends = sorted(found[f"holdout_log_likelihood_{end}"] for end in ("lower", "upper"))
    assert text == f"{ends[0]:.6g} to {ends[1]:.6g}"


def test_visible_machines_get_no_bracket():
    run = bm.fit(rows_of(60, 6), epochs=3, evaluate="ais")
    assert "log_z_lower" not in run.evaluation and "log_z" in run.evaluation


def test_what_has_no_cheap_rows_is_refused(tmp_path: Path):
    rows = rows_of(40, 6)
    with pytest.raises(ValueError, match=r'ais_every=2 needs hidden units .* layout="restricted"'):
        bm.fit(rows, method="monte-carlo", n_hidden=3, layout="general", ais_every=2, out=tmp_path / "run.h5")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="ais_every needs rows"):
        bm.fit(bm.Moments.of(rows, units="binary"), method="exact", ais_every=2)
    with pytest.raises(ValueError, match="ais_every goes with learning in epochs"):
        bm.fit(rows, method="tap", ais_every=2)
    with pytest.raises(ValueError, match="ais_every must be at least 0"):
        bm.fit(rows, ais_every=-1)


def test_an_upper_end_that_holds_nothing_is_told():
    ends = {"log_z_lower": 3.0, "log_z_upper": 4.0, "log_likelihood_lower": -9.0, "log_likelihood_upper": -8.0}
    assert _bracket(ends | {"upper_holds": 1.0}) == {
        "log Z, bracket": "3 to 4",
        "log-likelihood, bracket": "-9 to -8",
    }
    assert _bracket(ends | {"upper_holds": 0.0})["log Z, bracket"] == "3 to 4, if chains had converged"
    assert _bracket({"log_z": 3.0}) == {}


def test_deep_machines_get_a_bracket():
    generator = np.random.default_rng(0)
    start = bm.BoltzmannMachine([generator.normal(size=(6, 4)), generator.normal(size=(4, 3))], units="binary")
    run = bm.fit(rows_of(40, 6), init=start, epochs=2, evaluate="ais")
    exact = bm.infer(run.model, "exact").log_z
    errors = run.evaluation["log_z_lower_error"][-1] + run.evaluation["log_z_upper_error"][-1]
    assert abs(run.evaluation["log_z_lower"][-1] - exact) < 4 * errors
    assert abs(run.evaluation["log_z_upper"][-1] - exact) < 4 * errors


@pytest.mark.parametrize("n_hidden", [0, 3])
def test_looks_sum_out_what_rows_lack_and_weigh_rows(n_hidden: int):
    generator = np.random.default_rng(2)
    rows = np.where(generator.random((150, 6)) < 0.15, np.nan, rows_of(150, 6))
    weights = generator.random(150) + 0.05
    run = bm.fit(rows, n_hidden=n_hidden, row_weights=weights, holdout=rows[:40], epochs=2, ais_every=1)
    exact = run.evaluation
    look = {name: values[-1] for name, values in run.likelihood.items()}
    for name in ("log_likelihood", "holdout_log_likelihood"):
        assert abs(look[name] + look["log_z"] - exact[name][-1] - exact["log_z"][-1]) < 1e-10
        assert abs(look[name] - exact[name][-1]) < 4 * look["log_z_error"] + 1e-9


def test_looks_at_more_rows_than_are_summed_take_some_by_weight():
    generator = np.random.default_rng(3)
    rows = (generator.random((5_000, 4)) < 0.4).astype(float)
    rows[:, 1] = rows[:, 0]
    rows[generator.random(rows.shape) < 0.1] = np.nan
    rows = rows[~np.isnan(rows).all(axis=1)]
    weights = np.where(np.arange(len(rows)) < 2_500, 3.0, 1e-9)
    run = bm.fit(rows, row_weights=weights, epochs=2, ais_every=2, learning_rate=0.5, batch_size=500)
    terms = [-np.log(0.5) * np.isnan(row).sum() for row in rows[:2_500]]  # about the scatter of a row
    error = float(np.std(terms) + 1.0) / np.sqrt(4_096)
    assert abs(run.likelihood["log_likelihood"][-1] - run.evaluation["log_likelihood"][-1]) < 4 * error


def test_looks_at_long_sums_over_what_rows_lack_are_refused():
    rows = rows_of(40, 60).astype(float)
    rows[:, :45] = np.where(np.random.default_rng(0).random((40, 45)) < 0.9, np.nan, rows[:, :45])
    rows[0] = 1.0
    with pytest.raises(ValueError, match="ais_every=1 asks for the likelihood of rows that lack entries, which"):
        bm.fit(rows, n_hidden=30, ais_every=1, evaluate="none", epochs=1)


@pytest.mark.parametrize("units", ["binary", "spin"])
def test_looks_at_deep_machines_tell_bounds(units: str, tmp_path: Path):
    generator = np.random.default_rng(1)
    blocks = [generator.normal(scale=0.8, size=size) for size in ((6, 4), (4, 3))]
    start = bm.BoltzmannMachine(blocks, generator.normal(size=13), units=units)
    rows, held = (start.convention.values(rows_of(m, 6, m), np.int8) for m in (90, 30))
    weights = generator.random(90) + 0.1
    run = bm.fit(
        rows, init=start, holdout=held, row_weights=weights, epochs=4, pretrain_epochs=1, ais_every=3,
        out=tmp_path / "run.h5",
    )  # fmt: skip
    look = run.likelihood
    assert look["epoch"].tolist() == [2, 3]
    assert not {"log_likelihood", "holdout_log_likelihood"} & set(look)
    for name, data, w in (("log_likelihood", rows, weights), ("holdout_log_likelihood", held, np.ones(30))):
        bound = np.average(lower_bounds(run.model, data.astype(float), 1.0, 1), weights=w) - look["log_z"][-1]
        assert look[f"{name}_bound"][-1] == pytest.approx(bound, abs=1e-10)
        assert bound <= run.evaluation[name][-1] + 4 * look["log_z_error"][-1]
    assert "log-likelihood by ais, held out, lower bound, epoch 4" in run.summary()
    plots = pytest.importorskip("fastbm.report.pictures.run")
    axes = plots.Figure().subplots()
    plots._draw_ais(axes, run)
    assert axes.get_legend_handles_labels()[1] == ["lower bound by ais, data", "lower bound by ais, held out"]
    with pytest.raises(ValueError, match="ais_every=2 needs whole rows for the bounds of machines of several hidden"):
        bm.fit(np.where(generator.random(rows.shape) < 0.1, np.nan, rows), init=start, ais_every=2, epochs=2)


def test_a_bracket_of_bounds_is_told():
    ends = {"log_likelihood_bound_lower": -9.0, "log_likelihood_bound_upper": -8.0, "upper_holds": 1.0}
    assert _bracket(ends) == {"lower bound, bracket": "-9 to -8"}


@pytest.mark.parametrize("start", ["uniform", "mean-field", np.full(8, 0.4)])
def test_both_looks_begin_where_they_are_told(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along the way and at the end, and after a file has held it."""
    seen: list[Any] = []
    for module in (looks, evaluation):
        run_method = module.run_method

        def spy(*arguments: Any, run_method: Any = run_method, **options: Any) -> Any:
            found = run_method(*arguments, **options)
            seen.append(found.detail["start"])
            return found

        monkeypatch.setattr(module, "run_method", spy)
    bm.fit(rows_of(60, 8), n_hidden=2, epochs=2, ais_every=2, evaluate="ais", ais_start=start)
    assert seen == [start if isinstance(start, str) else "means"] * 2


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("ais_start goes with ais_every or evaluate=\"ais\"; log Z here is looked at by 'exact'", {}),
        ("log Z here is looked at nowhere", {"evaluate": "none"}),
        ("ais_start must be one of", {"ais_start": "base", "ais_every": 1}),
        (r"ais_start must be a name or means of shape \(8,\) or \(10,\)", {"ais_start": [0.5] * 3, "ais_every": 1}),
        ("ais_start holds means of units between 0 and 1", {"ais_start": [1.5] * 8, "ais_every": 1}),
    ],
)
def test_a_start_that_nothing_would_begin_at_is_refused(text: str, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=text):
        bm.fit(rows_of(60, 8), n_hidden=2, epochs=1, out=tmp_path / "run.h5", **{"ais_start": "data"} | options)
    assert not any(tmp_path.iterdir())
