"""Learning finds what was planted, and the most that the data allow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from tests.support import machines
from tests.support.learning import as_vector, coupled_pairs, gradient_by_differences
from tests.support.machines import UNITS, draw, machine, parameters


def standard_errors(model: bm.BoltzmannMachine, n_rows: int) -> np.ndarray:
    """Of maximum-likelihood couplings and biases of a visible machine, by the Fisher information."""
    states, log_p = machines.log_joint(*parameters(model), model.units, 1.0)
    features = np.concatenate([[states[:, i] * states[:, j] for i, j in coupled_pairs(model)], states.T])
    return np.sqrt(np.diagonal(np.linalg.inv(np.cov(features, aweights=np.exp(log_p), ddof=0))) / n_rows)


@pytest.mark.parametrize("units", UNITS)
def test_exact_learning_recovers_planted_couplings(units: str) -> None:
    """Within 4.5 standard errors, 15 parameters: false alarm once in 10000."""
    planted = machine("visible", units, seed=9)
    rows = draw(planted, 40_000)
    run = bm.fit(rows, method="exact", units=units)
    assert run.converged
    off = as_vector(run.model) - as_vector(planted)
    assert np.all(np.abs(off) < 4.5 * standard_errors(planted, len(rows)))
    assert np.abs(gradient_by_differences(run.model, rows[:1], 1.0, 0, 0)).max() > 0.1, (
        "one row alone is not what was learned"
    )
    moments = bm.infer(run.model, "exact")
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("units", ["binary"])
def test_mean_field_learning_recovers_weak_planted_couplings(units: str) -> None:
    planted = machine("visible", units, seed=10, scale=0.06 if units == "spin" else 0.25)
    rows = draw(planted, 40_000)
    run = bm.fit(rows, method="mean-field", units=units, epochs=100, learning_rate=0.3 if units == "spin" else 2.0)
    off = np.abs(as_vector(run.model) - as_vector(planted))
    assert np.all(off < 4.5 * standard_errors(planted, len(rows)) + 0.02)


def test_mean_field_learns_with_coupled_hidden_units() -> None:
    """Of some rows mixed sweeps come to saddles on the way, where there is no linear response."""
    planted = bm.models.random_machine(12, scale=1.4, units="spin", seed=1)
    rows = draw(planted, 1000)
    run = bm.fit(rows, "mean-field", n_hidden=10, layout="general", epochs=30, seed=1)
    p = rows.mean(axis=0) / 2 + 0.5
    alone = (p * np.log(p) + (1 - p) * np.log(1 - p)).sum()
    assert run.evaluation["log_likelihood"][0] > 0.5 * (alone - bm.infer(planted, "exact").entropy)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"method": "pcd", "n_hidden": 8, "learning_rate": 0.5, "n_sweeps": 5}, marks=pytest.mark.slow),
        pytest.param({"method": "cd", "n_hidden": 8, "learning_rate": 0.5, "n_sweeps": 10}, marks=pytest.mark.slow),
        {
            "method": "pcd",
            "n_hidden": 8,
            "optimizer": "adam",
            "learning_rate": 0.01,
            "n_sweeps": 10,
            "units": "spin",
            "epochs": 150,
        },
        {"method": "monte-carlo", "n_hidden": 6, "layout": "general", "learning_rate": 0.1, "epochs": 150},
        {"method": "pcd", "learning_rate": 0.1},
    ],
    ids=["pcd", "cd", "adam-spin", "1985", "visible"],
)
def test_learning_raises_the_likelihood_of_bars_and_stripes(options: dict[str, Any]) -> None:
    rows = bm.data.bars_and_stripes(3)
    if options.get("units") == "spin":
        rows = 2 * rows.astype(int) - 1
    run = bm.fit(rows, **{"epochs": 500, "batch_size": len(rows), **options})
    likelihood = run.metrics["log_likelihood"]
    best = -np.log(len(rows))
    assert likelihood[-1] > likelihood[0] + (0.6 if options.get("n_hidden") else 0.3)
    assert likelihood.max() <= best + 1e-9
    assert run.evaluation["log_likelihood"][-1] == pytest.approx(likelihood[-1], abs=1e-9)


def test_hidden_units_find_what_visible_ones_cannot() -> None:
    """Exclusive or: no visible machine knows more than three fair coins, one with a hidden unit does."""
    rows = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]])
    visible = bm.fit(rows, method="exact", l2=1e-4).evaluation["log_likelihood"][-1]
    assert visible == pytest.approx(-3 * np.log(2), abs=1e-6)
    generator = np.random.default_rng(3)
    start = bm.models.restricted(weights=generator.normal(scale=1.5, size=(3, 3)))
    hidden = bm.fit(rows, method="exact", init=start, l2=1e-4).evaluation["log_likelihood"][-1]
    assert hidden > -1.8


def test_the_neurons_at_maximum_likelihood() -> None:
    path = machines.data_file("example15.mat")
    run = bm.fit(f"{path}:spikes15", method="exact", l2=1e-5)
    assert run.converged
    assert run.evaluation["log_likelihood"][-1] == pytest.approx(-4.48652, abs=1e-4)
    first = bm.data.load(f"{path}:spikes15").rows[:, :10]
    run = bm.fit(first, method="exact")
    assert run.converged
    assert run.evaluation["log_likelihood"][-1] == pytest.approx(-3.43485, abs=1e-5)
