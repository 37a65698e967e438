"""When learning has converged, when it has not, and when it diverges."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support.machines import UNITS, draw, machine


def test_convergence_does_not_depend_on_what_is_recorded() -> None:
    rows = draw(machine("visible", "binary"), 500)
    for every in (1, 4, 1000):
        run = bm.fit(rows, method="exact", monitor_every=every, weights_every=every)
        assert run.converged, f"monitor_every={every}"


def test_a_start_that_is_the_maximum_has_converged() -> None:
    rows = draw(machine("visible", "binary"), 500)
    learned = bm.fit(rows, method="exact").model
    again = bm.fit(rows, method="exact", init=learned, tolerance=1e-5)
    assert again.converged
    np.testing.assert_allclose(again.model.weights, learned.weights, atol=1e-4)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("method", ["exact", "pseudolikelihood", "rise", "log-rise"])
@pytest.mark.parametrize("n_more", [0, 10])  # of 14 units, states are no table
def test_a_unit_that_others_decide_has_no_maximum(method: str, n_more: int, units: str) -> None:
    """No pair shows that: unit 3 is up where two of three others are."""
    rows = np.random.default_rng(0).integers(0, 2, (400, 3))
    more = np.random.default_rng(1).integers(0, 2, (400, n_more))
    rows = np.c_[rows, rows.sum(axis=1) > 1.5, more].astype(int)
    rows = rows if units == "binary" else 2 * rows - 1
    with pytest.warns(bm.ConvergenceWarning, match=f"{method} has no finite optimum .*: couplings or biases grow"):
        run = bm.fit(rows, method, evaluate="none")
    assert run.converged is False
    assert "without end" in run.doubt or "gradient is" in run.doubt
    assert bm.fit(rows, method, evaluate="none", l2=1e-4, epochs=2_000).converged


@pytest.mark.parametrize(("unlike", "has_maximum"), [(True, False), (False, True)])
def test_a_step_to_infinity_is_no_maximum(unlike: bool, has_maximum: bool) -> None:
    """Where rows do not vary, the first step is long: to an end that is none, or past one that it returns to."""
    rows = np.random.default_rng(0).integers(0, 2, (400 if unlike else 40, 13))  # fewer than parameters leave much open
    rows[:, 0] ^= 1 - (rows[:, 0] ^ rows[:, 1] | rows[:, 0] ^ rows[:, 2]) if unlike else 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert bm.fit(rows, "exact", evaluate="none").converged is has_maximum
    assert any("no finite optimum" in str(one.message) for one in caught) is not has_maximum
    assert bm.fit(rows, "exact", evaluate="none", l2=1e-3).converged


def test_resamples_without_a_maximum_are_told() -> None:
    """They begin where the fit ended, near the end of their own way to infinity."""
    rows = np.random.default_rng(0).integers(0, 2, (400, 6))
    rows[:, 0] ^= 1 - (rows[:, 0] ^ rows[:, 1] | rows[:, 0] ^ rows[:, 2])
    with pytest.warns(bm.ConvergenceWarning) as caught:
        bm.fit(rows, "exact", errors="bootstrap", evaluate="none")
    assert "resamples were not learned to the end" in str(caught[-1].message)


@pytest.mark.parametrize("method", ["exact", "pseudolikelihood", "rise"])
def test_a_unit_that_is_constant_has_no_maximum(method: str) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (400, 4))
    rows[:, 2] = 0
    for penalty, converged in ({"l2": 0.01}, False), ({"l2": 0.01, "l2_bias": 0.01}, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bm.ConvergenceWarning)
            assert bm.fit(rows, method, evaluate="none", epochs=2_000, **penalty).converged is converged


@pytest.mark.parametrize(
    ("method", "options"), [("exact", {}), ("exact", {"tolerance": 2e-4}), ("monte-carlo", {})], ids=str
)
def test_a_pair_that_is_never_on_together_has_no_maximum(method: str, options: dict[str, Any]) -> None:
    rows = (np.random.default_rng(0).random((20_000, 5)) < 0.2).astype(int)
    rows[rows[:, 0] == 1, 2] = 0
    with pytest.warns(bm.ConvergenceWarning, match=r"never on together, \(0, 2\)"):
        run = bm.fit(rows, method, errors="fisher", **options)
    assert run.converged is False
    assert "there is no finite optimum" in run.doubt
    assert np.argwhere(np.isinf(run.errors["weights"][-1])).tolist() == [[0, 2], [2, 0]]
    assert bm.fit(rows, method, l2=1e-3, **options).converged


@pytest.mark.parametrize("case", ["constant", "copies", "bars", "general"])
def test_hidden_units_have_no_maximum_at_infinity(case: str) -> None:
    rows, options = (np.random.default_rng(5).random((1_000, 4)) < 0.3).astype(int), {"n_hidden": 2}
    if case == "constant":
        rows[:, 3], options["l2"] = 1, 1e-3
    elif case == "bars":
        rows, options = bm.data.bars_and_stripes(2), {"n_hidden": 3}
    else:
        rows[:, 3] = rows[:, 2]
    layout = "general" if case == "general" else "restricted"
    with pytest.warns(bm.ConvergenceWarning, match="no finite optimum|runs to"):
        run = bm.fit(rows, "exact", layout=layout, evaluate="none", **options)
    assert run.converged is False
    assert "without end" in run.doubt


@pytest.mark.parametrize("tolerance", [0.1, 1e-2, 1e-4])
@pytest.mark.parametrize("method", ["exact", "pseudolikelihood"])
def test_a_maximum_is_one_at_any_tolerance(method: str, tolerance: float) -> None:
    for seed in range(6):
        rows = draw(machine("visible", "spin", seed=seed, scale=0.3), 1000)
        assert bm.fit(rows, method, evaluate="none", tolerance=tolerance).converged


@pytest.mark.parametrize("method", ["exact", "pseudolikelihood"])
def test_a_strong_maximum_is_one(method: str) -> None:
    """Two units differ in as few rows as they can without the maximum at infinity."""
    rows = np.random.default_rng(0).integers(0, 2, (100_000, 4))
    rows[:, 1] = rows[:, 0]
    rows[:4] = [[1, 0, 0, 1], [0, 1, 1, 1], [1, 0, 1, 0], [0, 1, 0, 0]]
    run = bm.fit(rows, method, evaluate="none")
    assert run.converged
    assert run.model.weights[0, 1] > 20.0


def test_too_few_iterations_have_not_converged() -> None:
    rows = draw(machine("visible", "binary"), 500)
    assert not bm.fit(rows, method="exact", epochs=2).converged
    assert bm.fit(rows, method="pcd", epochs=2).converged is None


def test_learning_rates_that_diverge_are_told() -> None:
    rows = bm.data.bars_and_stripes(2)
    text = r"learning diverged in epoch .*Lower learning_rate"
    with pytest.raises(ValueError, match=text), np.errstate(all="ignore"):
        bm.fit(rows, method="exact", optimizer="sgd", l2=10.0, learning_rate=1e30, epochs=50, evaluate="none")
