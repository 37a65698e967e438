"""Runs that learn of rows that lack entries: their bits, what they hold, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.data import packing
from fastbm.learning.monitor import row_sums
from fastbm.runs.fit import evaluation
from tests.support import missing as gaps
from tests.support.machines import UNITS, draw, machine, parameters
from tests.support.missing import errors_of
from tests.support.runs import assert_same


@pytest.mark.parametrize("units", UNITS)
def test_arrays_masks_and_files_give_the_same_bits(units: str, tmp_path: Path) -> None:
    model = machine("visible", units, seed=11)
    rows = gaps.rows_with_gaps(model, 60)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["single"], file["double"] = rows.astype(np.float32), rows
    masked = np.ma.masked_array(np.where(np.isnan(rows), 7, rows).astype(np.int8), np.isnan(rows))
    given = [rows, masked, f"{tmp_path}/a.h5:single", f"{tmp_path}/a.h5:double", iter([rows[:40], rows[40:]])]
    common = {"method": "monte-carlo", "epochs": 3, "n_chains": 32, "units": units, "l2": 1e-3, "l2_bias": 1e-3}
    runs = [bm.fit(data, **common) for data in given]
    for run in [*runs, bm.open(bm.fit(masked, **common, out=tmp_path / "run.h5").path)]:
        assert np.array_equal(run.model.weights, runs[0].model.weights)
        assert run.data["rows"].dtype == np.float64
        assert np.array_equal(run.data["rows"], rows, equal_nan=True)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("visible", {"method": "monte-carlo"}),
        ("restricted", {"method": "pcd", "clamped": "gibbs"}),
        ("general", {"method": "monte-carlo", "clamped": "annealed"}),
        ("general", {"method": "mean-field", "learning_rate": 0.01}),
    ],
)
def test_bits_do_not_depend_on_threads_or_on_a_stop(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = machine(kind, seed=12, scale=0.3)
    rows = gaps.rows_with_gaps(model, 90)
    sizes = {} if options["method"] in ("exact", "mean-field") else {"batch_size": 30, "n_chains": 40}
    common = {"init": model, "epochs": 6, "l2": 0.1} | sizes | options
    plain = bm.fit(rows, **common, threads=1)
    both = bm.fit(rows, **common, threads=2)
    stopped = bm.fit(rows, **common, out=tmp_path / "a.h5", max_seconds=0.0)
    assert not stopped.finished
    assert_same(both, plain)
    assert_same(bm.resume(tmp_path / "a.h5", threads=2), plain)


def test_bootstrap_resamples_rows_with_what_they_lack() -> None:
    planted = machine("visible", seed=13)
    rows = gaps.rows_with_gaps(planted, 1500, part=0.2)
    run = bm.fit(rows, method="exact", errors="bootstrap", n_resamples=8)
    whole = bm.fit(draw(planted, 1500), method="exact", errors="fisher")
    assert 1.0 < np.median(errors_of(run) / errors_of(whole)) < 2.5


def test_the_preset_samples_what_would_take_long_to_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(0)
    rows = np.where(generator.random((120, 60)) < 0.4, np.nan, generator.integers(0, 2, (120, 60)))
    rows[:, 0] = np.arange(120) % 2
    quick = {"epochs": 1, "evaluate": "none", "n_chains": 16}
    run = bm.fit(rows, method="pcd", n_hidden=40, **quick)
    assert run.config["fit"]["clamped"] == "gibbs"
    assert run.config["fit"]["engine"] == "phases"
    assert bm.fit(rows[:, :8][:50], method="pcd", n_hidden=3, **quick).config["fit"]["clamped"] == "exact"
    layers = bm.BoltzmannMachine([np.zeros((8, 3)), np.zeros((3, 2))], units="binary")
    assert bm.fit(rows[:, :8][:50], method="pcd", init=layers, **quick).config["fit"]["clamped"] == "gibbs"
    with pytest.raises(ValueError, match=r"clamped='exact' sums over what rows lack, which .* Use clamped='gibbs'"):
        bm.fit(rows, method="pcd", n_hidden=40, clamped="exact", **quick)
    monkeypatch.setattr(evaluation, "forecast_of_known", lambda *_: 100.0)
    run = bm.fit(rows, method="pcd", n_hidden=8, epochs=1, n_chains=16, holdout=np.nan_to_num(rows))
    assert sorted(run.evaluation) == ["holdout_log_likelihood", "log_z", "log_z_error"]
    assert f"{100 * np.isnan(rows).mean():.1f} % of entries missing" in str(run.summary())
    monkeypatch.setattr(row_sums, "LONGEST_SECONDS", 1e-9)
    with pytest.raises(ValueError, match="evaluate='exact' asks for the likelihood of rows that lack entries"):
        bm.fit(rows[:, :8][:50], method="monte-carlo", evaluate="exact", l2=1e-3)


def test_rows_that_stay_in_their_file_are_read_again_with_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "KEPT", 8)  # bytes
    rows = gaps.rows_with_gaps(machine("visible", seed=14), 80)
    rows[:30] = np.nan_to_num(rows[:30], nan=1.0)  # the first gap comes late
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["rows"] = rows
    common = {"method": "monte-carlo", "epochs": 4, "n_chains": 16}
    plain = bm.fit(rows, **common)
    bm.fit(f"{tmp_path}/rows.h5:rows", **common, out=tmp_path / "a.h5", max_seconds=0.0)
    assert "rows" not in bm.open(tmp_path / "a.h5").data
    bm.fit(f"{tmp_path}/rows.h5:rows", **common, out=tmp_path / "b.h5", max_seconds=0.0)
    assert_same(bm.resume(tmp_path / "a.h5"), plain)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["rows"] = np.nan_to_num(rows, nan=-1.0)
    with pytest.raises(bm.StorageError, match="holds other rows than those that the run began with"):
        bm.resume(tmp_path / "b.h5")


def test_whole_rows_may_be_judged_by_rows_that_lack_entries() -> None:
    planted = machine("restricted", seed=15)
    rows, held = draw(planted, 300), gaps.rows_with_gaps(planted, 40)
    run = bm.fit(rows, holdout=held, units="spin", n_hidden=2, epochs=3, patience=3)
    expected = gaps.log_p_of_known(*parameters(run.model), "spin", held).mean()
    assert run.evaluation["holdout_log_likelihood"][-1] == pytest.approx(expected, abs=1e-9)
    assert "pseudo_likelihood" in run.metrics
    assert "holdout_pseudo_likelihood" not in run.metrics
    assert np.array_equal(run.data["holdout"], held, equal_nan=True)


def test_units_that_are_constant_where_they_are_known_are_named() -> None:
    rows = np.array([[1.0, np.nan, 0.0], [1.0, 1.0, np.nan], [np.nan, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.warns(bm.ConvergenceWarning) as caught:
        bm.fit(rows, row_weights=[1, 1, 1, 1, 0], method="monte-carlo", epochs=1, n_chains=16)
    texts = [str(one.message) for one in caught]
    assert "where entries are known, unit 2 is never on: its bias may run to -infinity" in texts[0]
    assert "where entries are known, unit 0 is always on: its bias may run to +infinity" in texts[1]


HOLES = [[1, np.nan, 0], [0, 1, 1], [np.nan, 0, 1], [1, 1, 0]]
EMPTY = [np.nan] * 3
CLASSES = {"classify": {}, "labels": [0, 1, 0, 1], "holdout": [[1, 0, 1]], "holdout_labels": [0]}
WATCHED = {"n_hidden": 40, "method": "pcd", "layout": "general", "patience": 2, "holdout": HOLES}


@pytest.mark.parametrize(
    ("text", "rows", "options"),
    [
        (
            "data must have at least one known entry in each row; 1 row has none, the first is row 1",
            [HOLES[0], EMPTY],
            {},
        ),
        ("2 rows have none, the first is row 0", [EMPTY, *HOLES, EMPTY], {}),
        ("each unit known in at least one row; never known: 1. Leave", [[1, np.nan], [0, np.nan]], {}),
        (
            "known in at least one row that counts; never known: 0. Leave",
            [[np.nan, 0], [np.nan, 1], [1, 0]],
            {"row_weights": [1, 1, 0]},
        ),
        ("holdout must have at least one known entry in each row", HOLES, {"holdout": [EMPTY]}),
        ("'pseudolikelihood' needs whole rows.*'monte-carlo', 'pcd' or 'exact'", HOLES, {"method": "pseudolikelihood"}),
        ("method='tap' needs whole rows.* or fill the entries in by fastbm.complete", HOLES, {"method": "tap"}),
        (r"free='contrastive' \(method='cd'\) starts chains at whole rows", HOLES, {"method": "cd", "n_hidden": 2}),
        ("free='contrastive'", HOLES, {"method": "monte-carlo", "free": "contrastive"}),
        ("errors='fisher' needs whole rows.*Use errors='bootstrap'", HOLES, {"errors": "fisher"}),
        ("fidelity needs whole rows", HOLES, {"fidelity": True}),
        ("classify needs whole rows", HOLES, CLASSES),
        ("classify needs whole rows", np.nan_to_num(HOLES), CLASSES | {"holdout": [[1, np.nan, 1]]}),
        ("patience=2 needs a likelihood of held-out rows.*or entries are missing", HOLES, WATCHED),
        ("clamped_sweeps goes with hidden units, or missing entries, that are sampled", HOLES, {"clamped_sweeps": 5}),
    ],
)
def test_what_cannot_be_done_with_missing_entries_is_refused(text: str, rows: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=text):
        bm.fit(np.array(rows, float), **{"method": "exact"} | options)


def test_pseudo_likelihood_needs_whole_rows() -> None:
    with pytest.raises(ValueError, match="the pseudo-likelihood needs whole rows"):
        bm.pseudo_likelihood(bm.models.curie_weiss(2), [[1.0, np.nan]])
