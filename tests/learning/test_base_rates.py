"""Base rates of the visible units: made of data, carried by learned machines, and no part of the distribution."""

from __future__ import annotations

import copy
import pickle
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import fastbm as bm
from fastbm.data.moments import LEAST_RATE
from fastbm.runs.toml import file as config
from tests.support.small_machines import KINDS, make

ROWS = (np.random.default_rng(0).random((60, 4)) < [0.1, 0.4, 0.6, 0.9]).astype(np.uint8)
RATES = (ROWS.sum(axis=0) + 1.0) / 62.0
VISIBLE, LAYERED = bm.models.curie_weiss(4), bm.models.restricted(4, 2, units="binary")
QUIET: dict[str, Any] = {"evaluate": "none"}


@pytest.mark.parametrize(("layout", "units"), KINDS)
def test_machines_carry_rates_through_units_files_and_copies_but_not_through_conditions(layout, units, tmp_path):
    bare = make(layout, units)
    rates = np.linspace(0.1, 0.9, bare.n_visible)
    model = bare.with_base_rates(rates)
    assert (bare.base_rates, model.with_base_rates(None).base_rates) == (None, None)
    other = model.to_units("spin" if units == "binary" else "binary")
    model.save(tmp_path / "m.h5")
    for found in (model, other, bm.load(tmp_path / "m.h5"), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(found.base_rates, rates)
    with pytest.raises(ValueError, match="read-only"):
        model.base_rates[0] = 0.5
    assert model.condition([0], [1]).base_rates is None
    assert model.to_arrays().keys() == bare.to_arrays().keys()  # what tells machines apart


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([0.5] * 3, r"rates must have one number for each visible unit, \(4,\); got shape \(3,\)"),
        (ROWS, r"got shape \(60, 4\)\. fastbm\.smoothed_rates\(rows, model\)"),
        ([0.5, 0.0, 0.5, 1.0], "rates must be above 0 and below 1, .* got 0 for unit 1, 2 such units"),
        ([0.5, np.nan, 0.5, 0.5], "rates must be finite"),
    ],
)
def test_rates_that_are_none_are_refused(rates: Any, message: str):
    with pytest.raises(ValueError, match=message):
        VISIBLE.with_base_rates(rates)


def test_rates_are_those_of_the_rows_with_one_up_and_one_down_more():
    for data in (ROWS, 2.0 * ROWS - 1.0, bm.Moments.of(ROWS), bm.Moments.of(2 * ROWS.astype(int) - 1), iter([ROWS])):
        model = LAYERED.to_units("spin") if isinstance(data, np.ndarray) and data.min() < 0 else LAYERED
        np.testing.assert_allclose(bm.smoothed_rates(data, model), RATES, rtol=1e-14)
    constant = bm.smoothed_rates(np.ones((5, 4)), LAYERED)
    assert np.allclose(constant, 6 / 7)


def test_rates_of_missing_entries_are_over_those_that_are_known():
    rows = ROWS.astype(float)
    rows[10:, 0] = np.nan
    found = bm.smoothed_rates(rows, LAYERED)
    np.testing.assert_allclose(found, [(ROWS[:10, 0].sum() + 1) / 12, *RATES[1:]])


def test_weights_are_counts_or_shares():
    patterns, counts = np.unique(ROWS, axis=0, return_counts=True)
    np.testing.assert_allclose(bm.smoothed_rates(patterns, LAYERED, counts), RATES)
    few, shares = np.array([[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 1]]), np.array([0.25, 0.75, 0.0])
    np.testing.assert_allclose(bm.smoothed_rates(few, LAYERED, shares), (np.array([0, 1.5, 0.5, 2]) + 1) / 4)


def test_rates_that_are_known_exactly_are_only_kept_from_0_and_1():
    exact = bm.Moments([0.0, 1.0, 0.25, 0.5], np.outer([0, 1, 0.25, 0.5], [0, 1, 0.25, 0.5]) * (1 - np.eye(4)), None,
                       "binary")  # fmt: skip
    for data in (exact, exact.mean):
        assert bm.smoothed_rates(data, LAYERED).tolist() == [LEAST_RATE, 1 - LEAST_RATE, 0.25, 0.5]
    heavy = bm.smoothed_rates(np.ones((2, 4)), LAYERED, [1e60, 1e60])
    assert (heavy < 1).all()
    VISIBLE.with_base_rates(heavy)


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (ROWS[:, :3], {}, "data must be of the machine's 4 visible units; got 3 units"),
        (bm.Moments.of(np.eye(6)), {}, "4 visible units; got 6 units"),
        ([0.5] * 5, {}, "4 visible units; got 5 units"),
        (2.0 * ROWS - 1.0, {}, r"data must be 0 or 1 \(binary units\)"),
        ([0.5, -0.5, 0.1, 0.1], {}, r"rates P\(unit up\), from 0 to 1; got -0\.5 for unit 1\. .*\(1 \+ mean\) / 2"),
        ([0.5] * 4, {"row_weights": [1.0]}, "row_weights goes with rows"),
        (ROWS, {"row_weights": [1.0]}, r"row_weights must have one entry for each row \(60\)"),
    ],
)
def test_data_of_another_machine_are_refused(data: Any, options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        bm.smoothed_rates(data, LAYERED, **options)


LEARNED: dict[str, dict[str, Any]] = {
    "pcd": {"n_hidden": 2, "epochs": 2, "n_chains": 8},
    "general": {"method": "monte-carlo", "n_hidden": 1, "layout": "general", "epochs": 1, "n_chains": 8},
    "deep": {"n_hidden": [2, 2], "epochs": 3, "pretrain_epochs": 1, "n_chains": 8},
    "exact": {"method": "exact", "epochs": 3},
    "mean-field": {"method": "mean-field", "epochs": 2},
    "tap": {"method": "tap"},
    "rise": {"method": "rise", "epochs": 3},
}


@pytest.mark.parametrize("options", LEARNED.values(), ids=LEARNED)
def test_every_rule_leaves_the_rates_of_its_data(options: dict[str, Any]):
    assert np.array_equal(bm.fit(ROWS, **options, **QUIET).model.base_rates, bm.smoothed_rates(ROWS, LAYERED))


def test_learning_from_files_moments_weights_and_gaps_leaves_rates_too(tmp_path: Path):
    weights, gaps = np.arange(60.0), np.where(np.arange(240).reshape(60, 4) % 7 == 0, np.nan, ROWS)
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["rows"] = ROWS
    start = VISIBLE.to_units("binary").with_base_rates([0.5] * 4)
    cases: list[tuple[Any, dict[str, Any], Any]] = [
        (f"{tmp_path}/rows.h5:rows", {"method": "tap"}, ROWS),
        (bm.Moments.of(ROWS), {"method": "tap", "init": start}, bm.Moments.of(ROWS)),
        (gaps, {"n_hidden": 2, "epochs": 1, "n_chains": 8}, gaps),
    ]
    for data, options, same in cases:
        found = bm.fit(data, **options, **QUIET).model.base_rates
        assert np.array_equal(found, bm.smoothed_rates(same, LAYERED))
    found = bm.fit(ROWS, method="tap", row_weights=weights, **QUIET).model.base_rates
    assert np.array_equal(found, bm.smoothed_rates(ROWS, LAYERED, weights))


def test_files_of_runs_and_runs_of_learned_machines_keep_them(tmp_path: Path):
    whole, stopped = tmp_path / "whole.h5", tmp_path / "stopped.h5"
    common: dict[str, Any] = {"n_hidden": 2, "epochs": 3, "n_chains": 8, **QUIET}
    learned = bm.fit(ROWS, out=whole, **common).model
    bm.fit(ROWS, out=stopped, max_seconds=0.0, **common)
    assert np.array_equal(bm.open(stopped).model.base_rates, learned.base_rates)
    while not bm.resume(stopped, max_seconds=0.0).finished:
        pass
    assert bm.open(stopped).model.flat_bias.tobytes() == learned.flat_bias.tobytes()
    tables = {"model": {"source": str(whole)}, "sample": {"n_chains": 4, "n_sweeps": 8}}
    sampled = config.call(tables, "sample")(out=tmp_path / "sampled.h5")
    for run in (bm.open(stopped), bm.open(tmp_path / "sampled.h5")):
        assert np.array_equal(run.model.base_rates, bm.smoothed_rates(ROWS, LAYERED))
    bare = bm.sample(learned.with_base_rates(None), n_chains=4, n_sweeps=8)
    assert np.asarray(sampled.states).tobytes() == np.asarray(bare.states).tobytes()


@pytest.mark.parametrize("method", ["mean-field", "tap"])
def test_machines_of_classes_carry_those_of_their_class(method: str, tmp_path: Path):
    labels = np.arange(60) % 2
    bm.BoltzmannClassifier(method, flip_noise=0.1).fit(ROWS, labels).save(tmp_path / "c.h5")
    for k, machine in enumerate(bm.BoltzmannClassifier.load(tmp_path / "c.h5").machines):
        assert np.array_equal(machine.base_rates, bm.smoothed_rates(ROWS[labels == k], LAYERED))


def test_files_from_before_have_none(tmp_path: Path):
    shutil.copy(Path(__file__).parents[1] / "data" / "format-1.0" / "fit.h5", tmp_path / "fit.h5")
    assert bm.open(tmp_path / "fit.h5").model.base_rates is None
