"""What is refused or said at once: sums for every row, many units, resamples without a solution, diverging rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fastbm as bm
from fastbm._base.checks import Diverged
from fastbm.data.rows import Rows
from fastbm.learning.learners.closed import learn_resample
from fastbm.learning.monitor import row_sums
from fastbm.learning.planted import rules
from tests.support.learning import fit_task


def rows_of(n_rows: int, n_units: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n_rows, n_units))


def test_fidelity_of_many_units_is_refused_before_learning() -> None:
    with pytest.raises(ValueError, match=r"fidelity is for at most 2048 visible units.*got 2100"):
        bm.fit(rows_of(3, 2_100), method="pcd", n_hidden=2, fidelity=True)


def test_sums_for_every_row_are_forecast_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, held = rows_of(64, 8), rows_of(40, 8, seed=1)
    n_rows, n_all = len(np.unique(rows, axis=0)), len(np.unique(rows, axis=0)) + len(np.unique(held, axis=0))
    asked = {"n_hidden": 3, "layout": "general", "epochs": 1, "clamped": "gibbs", "evaluate": "ais", "holdout": held}
    assert bm.fit(rows, **asked).finished
    monkeypatch.setattr(row_sums, "forecast_seconds", lambda model, moments: 10.0)
    monkeypatch.setattr(row_sums, "LIMITS", type(row_sums.LIMITS)(10.0 * n_all))
    assert bm.fit(rows, **asked).finished
    monkeypatch.setattr(row_sums, "LIMITS", type(row_sums.LIMITS)(10.0 * n_all - 1.0))
    with pytest.raises(
        ValueError, match=f"evaluate='ais' needs a sum .* 3 coupled hidden units for each of {n_all} dist"
    ):
        bm.fit(rows, **asked)
    monkeypatch.setattr(row_sums, "LIMITS", type(row_sums.LIMITS)(10.0 * n_rows - 1.0))
    with pytest.raises(
        ValueError, match=f'clamped="exact" needs .* each of {n_rows} distinct rows of an update.*gibbs'
    ):
        bm.fit(rows, **asked | {"clamped": "exact", "batch_size": 64, "evaluate": "none"})


def test_formulas_bootstrap_rows_that_hold_a_unit_still() -> None:
    rows = rows_of(60, 4)
    rows[:, 2] = 0
    rows[:2, 2] = 1  # on in two rows, which about one resample in seven misses
    run = bm.fit(rows, method="naive-mean-field", errors="bootstrap", n_resamples=40)
    weights, bias = run.errors["weights"][-1], run.errors["bias"][-1]
    assert np.isinf(weights[2, [0, 1, 3]]).all() and np.isinf(bias[2])
    others = np.ix_([0, 1, 3], [0, 1, 3])
    assert np.isfinite(weights[others]).all() and np.isfinite(bias[[0, 1, 3]]).all()
    held = bm.fit(rows, method="naive-mean-field", errors="bootstrap", n_resamples=40, flip_noise=0.05)
    assert np.isfinite(held.errors["weights"]).all()


def test_a_resample_without_a_solution_is_open_everywhere() -> None:
    task = fit_task(bm.models.random_machine(3, units="binary"), rows_of(9, 3), method="tap", optimizer="none")
    settings, like = task.settings, task.start
    copies = rows_of(30, 3).astype(np.uint8)
    copies[:, 2] = copies[:, 0]
    found = learn_resample(like, Rows.of(copies), None, settings)
    assert np.isinf(found.bias).all() and np.isinf(found.weights[0][np.triu_indices(3, 1)]).all()
    still = rows_of(30, 3).astype(np.uint8)
    still[:, 1] = 1
    found = learn_resample(like, Rows.of(still), None, settings)
    assert np.isfinite(found.bias[[0, 2]]).all() and np.isinf(found.bias[1])
    alone = bm.fit(still[:, [0, 2]], method="tap").model
    assert found.weights[0][0, 2] == pytest.approx(alone.weights[0, 1], abs=1e-12)


@pytest.mark.parametrize("method", ["pseudolikelihood", "exact"])
def test_resamples_without_a_maximum_are_warned_of_once(method: str) -> None:
    rows = rows_of(60, 4)
    rows[:, 2] &= 1 - rows[:, 1]
    rows[0, 1:3] = 1  # once together: a third of the resamples never
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        bm.fit(rows, method=method, errors="bootstrap", n_resamples=12)
    ours = [str(one.message) for one in told if issubclass(one.category, bm.ConvergenceWarning)]
    assert len(ours) == 1
    assert "of 12 resamples were not learned to the end" in ours[0] and "(1, 2)" in ours[0]


@pytest.mark.filterwarnings("ignore:data", "ignore:pseudolikelihood has no finite optimum")
@pytest.mark.parametrize("method", ["exact", "pseudolikelihood"])
def test_the_bootstrap_leaves_open_what_no_row_tells(method: str) -> None:
    rows = rows_of(200, 4)
    rows[:, 2] &= 1 - rows[:, 1]
    with pytest.warns(bm.ConvergenceWarning, match="4 of 4 resamples were not learned to the end"):
        errors = bm.fit(rows, method=method, errors="bootstrap", n_resamples=4).errors["weights"][-1]
    assert np.argwhere(np.isinf(errors)).tolist() == [[1, 2], [2, 1]]


@pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
def test_resamples_that_diverge_are_not_what_they_began_with() -> None:
    rows = rows_of(500, 3)
    rows = np.c_[rows, rows[:, 1]]
    run = bm.fit(rows, "monte-carlo", errors="bootstrap", n_resamples=3, epochs=100)
    assert run.errors["weights"][-1][0, 2] > 0.01


def test_a_rule_that_diverges_in_a_comparison_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = bm.models.sherrington_kirkpatrick(5, seed=1)
    up = rows_of(50, 5).astype(np.uint8)
    with np.errstate(all="ignore"), pytest.raises(Diverged, match="Lower learning_rate"):
        rules.learn(
            up,
            planted,
            "exact",
            {"optimizer": "sgd", "learning_rate": 1e200, "l2": 1e200, "epochs": 5},
            seed=0,
            threads=1,
            budget=None,
        )


def test_labels_that_are_not_known_and_classes_without_a_machine() -> None:
    rows, labels = rows_of(40, 4), np.arange(40) % 2
    with pytest.raises(ValueError, match="labels must be known; got nan in row 1"):
        bm.BoltzmannClassifier().fit(rows, np.where(labels == 1, np.nan, 0.0))
    rows[labels == 1] = [1, 0, 1, 1]
    with pytest.raises(ValueError, match=r"^class 1: moments have units that never change"):
        bm.BoltzmannClassifier("tap").fit(rows, labels)
