"""Which method "auto" takes, and what a budget allows."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.auto import BudgetTooSmall, fit_into, settle
from fastbm.runs.infer import verb
from tests.support.machines import calm, machine


def test_exact_where_it_fits() -> None:
    model = bm.models.sherrington_kirkpatrick(14, seed=1)
    found, truth = bm.infer(model, "auto"), bm.infer(model, "exact")
    assert found.method == "exact" and found.log_z == truth.log_z
    assert "within the budget of 1 minute" in found.detail["auto"]["why"]
    assert "sized" not in found.detail
    assert bm.infer(model, found.method, **found.detail["auto"]["options"]).log_z == found.log_z


def test_exact_by_what_this_machine_takes() -> None:
    """Zeros of a full matrix make a sum short; energies far apart make it long, which "exact" would refuse."""
    about: Any = {"clamp": None, "moments": True, "seed": 0, "threads": 1}
    chain = bm.BoltzmannMachine(np.eye(60, k=1) + np.eye(60, k=-1))
    settled = settle(chain, beta=1.0, budget=1.0, **about)
    assert settled.method == "exact" and "is done within the budget of 1 second" in settled.note["why"]
    glass = bm.models.sherrington_kirkpatrick(36, seed=1)
    assert [settle(glass, beta=beta, budget=60.0, **about).method for beta in (1.0, 100.0)] == ["exact", "tempering"]


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (bm.models.sherrington_kirkpatrick(60, seed=1), "tempering"),
        (bm.models.restricted(50, 40, scale=0.3, seed=1), "ais"),
    ],
)
def test_estimates_where_it_does_not(model: bm.BoltzmannMachine, method: str) -> None:
    found = calm(bm.infer, model, "auto", budget=1.0, beta=0.3)
    about = found.detail["auto"]
    assert found.method == method and method.upper() in about["why"].upper()
    assert "does not fit the budget of 1 second;" in about["why"]
    assert about["mean-field log Z"] == pytest.approx(
        bm.infer(model, "mean-field", beta=0.3, moments=False).log_z, abs=1e-6
    )
    assert found.log_z > about["mean-field log Z"] and found.log_z_error < 0.5
    again = calm(bm.infer, model, method, beta=0.3, **about["options"], **found.detail["sized"])
    assert again.log_z == found.log_z and again.log_z_error == found.log_z_error
    np.testing.assert_array_equal(again.mean, found.mean)


@pytest.mark.parametrize(("budget", "method"), [(0.1, "mean-field"), (5.0, "ais"), (600.0, "tempering")])
def test_large_machines_by_forecast(budget: float, method: str) -> None:
    """The shortest tempering of 1000 units coupled to one another takes some 10 s: no trial may find that out."""
    model = bm.models.sherrington_kirkpatrick(1000, seed=1)
    about: Any = {"beta": 0.3, "clamp": None, "moments": True, "seed": 0, "threads": 1}
    assert settle(model, budget=budget, **about).method == method


@pytest.mark.parametrize(
    ("budget", "method", "options"),
    [(0.1, "mean-field", {}), (2.0, "ais", {"n_betas": 1440}), (10.0, "ais", {"bracket": True})],
)
def test_layers_by_forecast(budget: float, method: str, options: dict[str, Any]) -> None:
    """The look around that a bracket of so many couplings begins with takes a second, the walks of AIS far less."""
    model = bm.models.restricted(784, 200, scale=0.1, seed=1)
    about: Any = {"beta": 1.0, "clamp": None, "moments": True, "seed": 0, "threads": 1}
    settled = settle(model, budget=budget, **about)
    assert (settled.method, settled.options) == (method, options)


def test_moments_of_more_units_than_a_matrix_may_have() -> None:
    model = bm.models.ising((130, 130))
    found = calm(bm.infer, model, "auto", beta=0.3, budget=1.0)
    assert found.method == "mean-field" and found.mean.shape == (16_900,)
    assert "moments=False has an estimate" in found.detail["auto"]["why"]


def test_clamped_units_may_make_it_exact() -> None:
    model = bm.models.sherrington_kirkpatrick(60, seed=1)
    clamp = (np.arange(50), np.ones((3, 50)))
    found = bm.infer(model, "auto", clamp=clamp)
    assert found.method == "exact" and found.log_z.shape == (3,)
    np.testing.assert_array_equal(found.log_z, bm.infer(model, "exact", clamp=clamp).log_z)
    everything = bm.infer(model, "auto", clamp=(np.arange(60), np.ones(60)))
    assert everything.log_z == pytest.approx(-model.energy(np.ones(60)))
    several = calm(bm.infer, model, "auto", clamp=([0], [[1], [-1]]), budget=0.5, moments=False)
    assert several.method != "exact" and several.log_z.shape == (2,)


def test_stored_and_opened(tmp_path: Any) -> None:
    out = tmp_path / "auto.h5"
    found = calm(bm.infer, bm.models.restricted(30, 24, seed=1), "auto", budget=1.0, out=out)
    again = bm.open(out).inference
    assert again.detail["auto"] == found.detail["auto"] and again.detail["sized"] == found.detail["sized"]
    assert again.log_z == found.log_z
    np.testing.assert_array_equal(again.covariance, found.covariance)


@pytest.mark.parametrize(
    ("error", "text", "options"),
    [
        (TypeError, "auto has no option 'n_sweeps'. It takes: budget", {"n_sweeps": 3}),
        (ValueError, "budget must be above 0", {"budget": 0.0}),
        (ValueError, "budget", {"budget": math.nan}),
    ],
)
def test_bad_options(error: type[Exception], text: str, options: dict[str, Any]) -> None:
    with pytest.raises(error, match=text):
        bm.infer(machine("visible"), "auto", **options)


# Sizes


def test_a_size_that_fills_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("fastbm.kernels.stopwatch.time.perf_counter", lambda: clock[0])

    def work(size: int) -> None:
        clock[0] += 0.005 + 1e-5 * size

    size = fit_into(0.5, work, "n", 10, 10**9)
    assert size % 10 == 0
    assert 0.3 < 0.005 + 1e-5 * size < 0.5
    clock[0] = 0.0
    work(fit_into(0.5, work, "n", 10, 10**9, on_top=False))
    assert 0.4 < clock[0] < 0.5, "the trials are part of it"

    def work_of_any_size(size: int) -> None:
        clock[0] += 0.15 + 1e-5 * size

    clock[0] = 0.0
    work_of_any_size(fit_into(0.5, work_of_any_size, "n", 10, 10**9, on_top=False))
    assert clock[0] < 0.5, "no trial is repeated that takes much of it"


def test_no_more_than_there_is_to_do() -> None:
    assert fit_into(0.2, lambda size: None, "n", 1, 5) == 5


def test_a_budget_that_is_too_small() -> None:
    with pytest.raises(BudgetTooSmall, match=r"n = 10, the least that is of any use, takes 0\.0\d+ s"):
        fit_into(0.01, lambda size: time.sleep(0.02), "n", 10, 100)


def test_a_budget_too_small_for_any_estimate() -> None:
    model = bm.models.sherrington_kirkpatrick(60, seed=1)
    by_forecast = bm.infer(model, "auto", budget=1e-9)
    by_trial = bm.infer(model, "auto", budget=0.02, start="uniform", threads=2)
    for found in (by_forecast, by_trial):
        assert (found.method, found.bound) == ("mean-field", "lower")
        assert found.log_z == bm.infer(model, "mean-field").log_z and found.detail["left_out"] > 0.0
    assert "too short for any estimate: log Z is a lower bound" in by_forecast.detail["auto"]["why"]
    assert re.search("= [0-9]+, the least .* Mean field instead: .* lower bound", by_trial.detail["auto"]["fell back"])
    assert bm.infer(model, by_trial.method, **by_trial.detail["auto"]["options"]).log_z == by_trial.log_z
    with pytest.raises(ValueError, match="auto chooses a method for infer alone"):
        bm.log_likelihood(model, np.ones((2, 60)), "auto")
    with pytest.raises(ValueError, match="Did you mean 'auto'"):
        bm.infer(model, "auot")


def test_a_start_goes_to_the_method_that_is_chosen() -> None:
    about: Any = {"beta": 0.3, "clamp": None, "moments": False, "seed": 0, "threads": 1, "budget": 60.0}
    for model, method in (
        (bm.models.sherrington_kirkpatrick(60, seed=1), "tempering"),
        (bm.models.restricted(50, 40, scale=0.3, seed=1), "ais"),
    ):
        means = [0.1] * model.n_units
        settled = settle(model, start=means, **about)
        assert settled.method == method and settled.options["start"] == means
    small = bm.models.sherrington_kirkpatrick(10, seed=1)
    told = verb.make_cell(
        small,
        "model",
        "auto",
        {"exact": False, "start": np.full(10, 0.1)},
        beta=1.0,
        clamp=None,
        moments=False,
        seed=0,
        threads=1,
    )
    assert told["options"]["start"] == [0.1] * 10


@pytest.mark.parametrize(
    ("text", "model", "options"),
    [
        ("auto takes 'exact' here, .* pass exact=False", bm.models.curie_weiss(8), {}),
        ("auto takes 'importance-sampling' here", bm.models.restricted(40, 8, seed=1), {"exact": False}),
        ("auto takes 'mean-field' here", bm.models.sherrington_kirkpatrick(1000, seed=1), {"budget": 0.1}),
        ("start must be one of", bm.models.curie_weiss(8), {"start": "nowhere"}),
    ],
)
def test_a_start_that_would_not_be_used_is_refused(
    text: str, model: bm.BoltzmannMachine, options: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=text):
        bm.infer(model, "auto", **{"start": "uniform"} | options)
