"""Options that go across methods: moments alone, closed forms, schedules, centring, stopping, errors, fidelity."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.data.rows import Rows
from fastbm.learning.methods import RULES
from fastbm.learning.minibatches import order_of_rows
from fastbm.learning.moments import Parameters
from fastbm.learning.monitor.metrics import has_exact_likelihood
from fastbm.learning.optimise.centring import Offsets
from fastbm.learning.phases.phase import PhaseSettings
from fastbm.learning.rules import FREE, check
from fastbm.learning.settings import FitSettings
from tests.support.combinations import each
from tests.support.learning import fit_task

QUIET: dict[str, Any] = {"evaluate": "none"}


def planted(n: int = 6, units: str = "binary", seed: int = 1, scale: float = 0.6) -> bm.BoltzmannMachine:
    return bm.models.random_machine(n, scale=scale, bias_scale=0.3, seed=seed).to_units(units)


def draw(model: bm.BoltzmannMachine, n_rows: int, seed: int = 0) -> np.ndarray:
    return bm.sample(model, sampler="exact", n_chains=1, n_sweeps=n_rows, seed=seed).states[:, 0]


def test_exact_likelihoods_are_metrics_where_all_looks_take_little():
    """28 units take 12 ms a look; specs of older versions say nothing of it, and their files keep what they have."""
    model, rows = bm.models.random_machine(28, seed=1), np.ones((10, 28), np.uint8)
    given: dict[str, Any] = dict.fromkeys(field.name for field in fields(FitSettings) if field.name != "method")
    for changes, told in (
        ({}, False),
        ({"monitor_every": 10}, True),
        ({"epochs": 1}, False),  # as a longer run has it
        ({"free": "exact"}, True),
    ):
        settings = check(model, 10, "monte-carlo", given | {"seed": 0} | changes)
        assert has_exact_likelihood(model, Rows.of(rows), settings.look_seconds) is told
    assert "metrics/log_likelihood" in fit_task(model, rows, free="gibbs", optimizer="sgd").streams


@pytest.mark.parametrize("units", ["binary", "spin"])
@pytest.mark.parametrize("method", ["exact", "mean-field", "naive-mean-field", "tap"])
def test_moments_teach_what_their_rows_do(method: str, units: str):
    rows = draw(planted(units=units), 500)
    moments = bm.Moments.of(rows, units=units)
    settings: dict[str, Any] = {"method": method, "evaluate": "exact"}
    if "epochs" in RULES[method].names():
        settings["epochs"] = 20
    if method == "exact":  # which goes its own way from rows, and from moments, to the same end
        settings |= {"epochs": 60, "tolerance": 1e-10}
    by_rows, by_moments = bm.fit(rows, units=units, **settings), bm.fit(moments, **settings)
    assert np.abs(by_rows.model.weights - by_moments.model.weights).max() < 1e-9
    found = by_moments.evaluation["log_likelihood"][-1]
    assert found == pytest.approx(by_rows.evaluation["log_likelihood"][-1], abs=1e-9)


def test_exact_moments_give_the_machine_back():
    model = planted(7)
    exact = bm.infer(model, "exact")
    run = bm.fit(
        bm.Moments(exact.mean, exact.second_moment, units="binary"), method="exact", tolerance=1e-9, epochs=200
    )
    assert np.abs(run.model.weights - model.weights).max() < 1e-5
    assert run.config["data"]["n_rows"] is None


def test_what_moments_cannot_teach_is_refused():
    moments = bm.Moments.of(draw(planted(), 100), units="binary")
    refused = [
        ("data are moments, from which no hidden units", {"method": "pcd", "n_hidden": 3}),
        ("method='pseudolikelihood' needs rows", {"method": "pseudolikelihood"}),
        ("fidelity needs rows", {"method": "exact", "fidelity": True}),
        ('errors="bootstrap" needs rows', {"method": "exact", "errors": "bootstrap"}),
        ("labels goes with rows", {"method": "exact", "labels": [1]}),
    ]
    for text, options in refused:
        with pytest.raises(ValueError, match=text):
            bm.fit(moments, **options)
    with pytest.raises(ValueError, match="errors need Moments"):
        bm.fit(bm.Moments(moments.mean, moments.second_moment, units="binary"), method="exact", errors="fisher")


@pytest.mark.parametrize("method", ["independent-pair", "naive-mean-field", "tap", "sessak-monasson", "bethe"])
def test_closed_forms_are_runs(method: str, tmp_path: Path):
    model = planted(8, scale=0.2)
    rows = draw(model, 20_000)
    run = bm.fit(rows, method=method, out=tmp_path / "run.h5", holdout=rows[:100])
    assert run.converged is None  # there is nothing to come near to
    assert np.abs(run.model.weights - model.weights).max() < 0.35
    reopened = bm.open(tmp_path / "run.h5")
    assert np.array_equal(reopened.model.weights, run.model.weights)
    assert "holdout_log_likelihood" in reopened.evaluation
    for options in ({"l2": 0.1}, {"optimizer": "adam"}, {"free": "gibbs"}, {"centring": True}, {"l1": 0.1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            bm.fit(rows, method=method, **options)
    with pytest.raises(ValueError, match="ridge goes with methods"):
        bm.fit(rows, method="pcd", ridge=0.1)


def test_flipping_units_does_not_change_what_a_centred_machine_learns():
    """A step in flipped units, flipped back, is the step: the aim of centring."""
    generator = np.random.default_rng(0)
    model = planted(5)
    data, free = generator.random((40, 5)) < 0.3, generator.random((60, 5)) < 0.6

    def step(flip: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        d, f = (np.where(flip, 1 - x, x).astype(float) for x in (data, free))
        gap = Parameters((d.T @ d / 40 - f.T @ f / 60,), d.mean(0) - f.mean(0))
        found = Offsets(model, d.mean(0)).slope(gap)
        # biases at the offsets, where flipping is a change of sign
        return found.weights[0], found.bias + found.weights[0] @ d.mean(0)

    none, some = np.zeros(5, bool), np.array([True, False, True, False, False])
    sign = np.where(some, -1.0, 1.0)
    (plain, bias), (flipped, other) = step(none), step(some)
    assert np.abs(plain - sign[:, None] * flipped * sign).max() < 1e-14
    assert np.abs(bias - sign * other).max() < 1e-14
    assert not np.diag(plain).any()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_centred_restricted_steps_are_the_centred_gradient(optimizer: str):
    """One step from equal chains by the engine of lanes and by hand, penalties included."""
    generator = np.random.default_rng(2)
    start = bm.models.restricted(
        weights=generator.normal(size=(6, 4)),
        visible_bias=generator.normal(size=6),
        hidden_bias=generator.normal(size=4),
    )
    rows = (generator.random((50, 6)) < 0.4).astype(np.uint8)
    options = {"init": start, "epochs": 1, "batch_size": 50, "n_chains": 40, "learning_rate": 1e-3, "samples_every": 1}
    options |= {"l2": 0.3, "l2_bias": 0.2, "beta": 0.5}
    run = bm.fit(rows, method="pcd", centring=True, optimizer=optimizer, **options, **QUIET)
    assert run.config["fit"]["engine"] == ("lanes" if optimizer == "sgd" else "phases")
    states = run.states[-1].reshape(-1, 10)[:, :6].astype(float)
    w, b, c = start.weights[0], *start.bias
    h, y = (1 / (1 + np.exp(-0.5 * (v @ w + c))) for v in (rows, states))
    dv, dh = 0.5 * (rows.mean(0) - states.mean(0)) - 0.2 * b, 0.5 * (h.mean(0) - y.mean(0)) - 0.2 * c
    mu, lam = rows.mean(0), np.full(4, 0.5)
    slope = 0.5 * (rows.T @ h / 50 - states.T @ y / 40) - 0.3 * w - np.outer(mu, dh) - np.outer(dv, lam)
    bias = np.concatenate([dv - slope @ lam, dh - slope.T @ mu])
    moved = run.model.weights[0] - w
    moved_bias = np.concatenate(run.model.bias) - np.concatenate(start.bias)
    if optimizer == "sgd":
        assert np.abs(moved - 1e-3 * slope).max() < 2e-7  # couplings are in float32
        assert np.abs(moved_bias - 1e-3 * bias).max() < 1e-9
    else:
        assert np.array_equal(np.sign(moved), np.sign(slope))
        assert np.array_equal(np.sign(moved_bias), np.sign(bias))


@each(free=["restarted", "annealed", "tempering", "tempering"], layered=[False, True])
def test_free_phases_come_to_the_machines_moments(free: str, layered: bool):
    if layered:
        start = bm.models.restricted(weights=1.5 * np.random.default_rng(0).normal(size=(4, 3)))
        rows = np.random.default_rng(1).integers(0, 2, (64, 4)).astype(np.uint8)
    else:
        start, rows = planted(5), draw(planted(5), 64)
    exact = bm.infer(start, "exact")
    phase = FREE[free](PhaseSettings(1.0, 3, 1, 4_000, 20, 1, 1, False, 5))
    phase.prepare(start)
    found = phase.moments(start, rows)
    spread = np.sqrt(exact.mean * (1 - exact.mean) / 4_000)
    assert (np.abs(found.mean - exact.mean) < 4.5 * spread + 1e-9).all()
    expected = exact.second_moment[:4, 4:] if layered else exact.second_moment - np.diag(np.diag(exact.second_moment))
    assert np.abs(found.pairs[0] - expected).max() < 4.5 * 0.5 / np.sqrt(4_000)


def test_a_falling_rate_settles():
    model = planted(6)
    moments = bm.Moments.of(draw(model, 4_000), units="binary")
    options = {"epochs": 300, "method": "monte-carlo", "learning_rate": 0.5, "n_chains": 32, "n_sweeps": 1, **QUIET}
    errors = {}
    for schedule in ("constant", "linear", "cosine", "inverse"):
        run = bm.fit(moments, schedule=schedule, **options)
        exact = bm.infer(run.model, "exact")
        errors[schedule] = np.sqrt(np.mean((exact.second_moment - moments.second_moment) ** 2))
    assert all(errors[schedule] < errors["constant"] for schedule in ("linear", "cosine", "inverse"))


def test_a_run_stops_when_it_is_told_enough():
    rows = draw(planted(6), 2_000)
    with pytest.warns(bm.ConvergenceWarning, match="a combination of all is off .* Ask for less than until="):
        run = bm.fit(rows, method="monte-carlo", n_chains=512, epochs=500, until={"moment_error": 0.02}, **QUIET)
    assert len(run.metrics["step"]) < 500
    assert run.metrics["moment_error"][-1] <= 0.02
    assert (run.metrics["moment_error"][:-1] > 0.02).all()
    with pytest.raises(ValueError, match="until"):
        bm.fit(rows, method="exact", until={"moments": 0.1})


def test_held_out_rows_say_when_to_stop(tmp_path: Path):
    rows = draw(planted(9, scale=0.5), 60)
    held = draw(planted(9, scale=0.5), 400, seed=5)
    options = {"holdout": held, "epochs": 400, "patience": 5, "learning_rate": 0.3, "n_hidden": 20, "batch_size": 20}
    run = bm.fit(rows, out=tmp_path / "run.h5", **options)
    looks = run.metrics["holdout_log_likelihood"]
    best = int(np.argmax(looks))
    assert len(looks) == best + 6 < 400
    assert run.evaluation["holdout_log_likelihood"][-1] == pytest.approx(looks[best], abs=1e-9)
    again = bm.open(tmp_path / "run.h5")
    assert np.array_equal(again.model.weights[0], run.model.weights[0])
    with pytest.raises(ValueError, match="patience=5 needs held-out rows"):
        bm.fit(rows, patience=5)


@pytest.mark.parametrize("errors", ["fisher", "bootstrap"])
def test_errors_of_couplings_are_in_the_run(errors: str, tmp_path: Path):
    model = planted(5, scale=0.3)
    rows = draw(model, 3_000)
    resamples = {"n_resamples": 40} if errors == "bootstrap" else {}
    run = bm.fit(rows, method="exact", errors=errors, **resamples, out=tmp_path / "run.h5")
    found = bm.open(tmp_path / "run.h5").errors
    upper = np.triu_indices(5, 1)
    z = (run.model.weights - model.weights)[upper] / found["weights"][-1][upper]
    assert 0.2 < np.sqrt(np.mean(z**2)) < 2.5
    assert found["bias"].shape == (1, 5)
    assert "standard error of couplings, median" in run.summary()


def test_fidelity_is_in_the_run(tmp_path: Path):
    rows = draw(planted(6), 2_000)
    run = bm.fit(rows, method="exact", fidelity=True, out=tmp_path / "run.h5")
    assert "largest |z| of covariances" in run.summary()
    assert re.fullmatch(
        r"\S+ nats, \S+ of it to be expected of noise", run.summary()["divergence of population counts"]
    )
    assert run.fidelity.covariance.largest_z < 1
    assert run.fidelity.population.data.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("exact", {}), ("mean-field", {"epochs": 20, "init": planted(5)}), ("tap", {}), ("pseudolikelihood", {}),
        ("rise", {}), ("exact", {"errors": "bootstrap", "n_resamples": 3}),
    ],
)  # fmt: skip
def test_weights_count_as_copies_of_rows(method: str, options: dict[str, Any]):
    rows = draw(planted(5), 300)
    counts = np.random.default_rng(0).integers(0, 4, 300)
    settings = {"method": method, "evaluate": "exact", **options}
    if method not in ("mean-field", "tap"):
        settings["tolerance"] = 1e-9
    copies = np.random.default_rng(1).permutation(np.repeat(rows, counts, 0))
    weighed, copied = bm.fit(rows, row_weights=0.7 * counts, **settings), bm.fit(copies, **settings)
    assert np.abs(weighed.model.weights - copied.model.weights).max() < 1e-6
    found = [run.evaluation["log_likelihood"][-1] for run in (weighed, copied)]
    assert found[0] == pytest.approx(found[1], abs=1e-9)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_mini_batches_are_drawn_by_weight(optimizer: str):
    """Rows without weight are those that differ: they must leave no trace."""
    rows = draw(planted(6), 200)
    weights = np.where(rows[:, 2] == 1, 0.0, 1.0)
    rate = {"sgd": 0.1, "adam": 0.01}[optimizer]
    settings = {"n_hidden": 4, "epochs": 60, "batch_size": 20, "optimizer": optimizer, "learning_rate": rate}
    run = bm.fit(rows, row_weights=weights, **settings)
    means = bm.infer(run.model, "exact").mean[:6]
    assert means[2] < 0.1
    expected = np.average(rows, axis=0, weights=weights)
    assert np.abs(means - expected).max() < 0.15
    order = order_of_rows(3, 0, 0, np.array([0.0, 1.0, 3.0]), slice(None))
    assert len(order) == 3 and 0 not in order
    drawn = np.concatenate([order_of_rows(3, 0, k, np.array([0.0, 1.0, 3.0]), slice(None)) for k in range(2_000)])
    assert abs((drawn == 2).mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / len(drawn))


def test_weights_that_cannot_be_are_refused():
    rows = draw(planted(4), 20)
    for weights, text in (([1.0], "one entry for each row"), (-np.ones(20), "0 or more"), (np.zeros(20), "not all 0")):
        with pytest.raises(ValueError, match=text):
            bm.fit(rows, row_weights=weights)


@pytest.mark.parametrize("method", ["mean-field", "pseudolikelihood", "tap", "cd"])
def test_fisher_errors_of_other_rules_than_maximum_likelihood_are_refused(method: str):
    with pytest.raises(ValueError, match=r"errors='fisher' goes with .* Use errors='bootstrap'"):
        bm.fit(draw(planted(4), 50), method=method, errors="fisher", n_hidden=2 if method == "cd" else 0)


def test_the_summary_says_of_how_many_rows_a_pseudo_likelihood_is() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (300, 4))
    for n_rows, label in ((256, "pseudo-likelihood"), (300, "pseudo-likelihood, of 256 rows")):
        summary = bm.fit(rows[:n_rows], "exact", holdout=rows[:200], evaluate="none").summary()
        assert {label, "holdout-pseudo-likelihood"} <= set(summary)
