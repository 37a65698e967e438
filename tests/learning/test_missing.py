"""Rows that lack entries: their likelihood, its gradient by every way to infer, and what is learned of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.data.rows import Rows
from fastbm.inference.conditional import completions
from fastbm.learning.learners.likelihood import Likelihood
from fastbm.learning.make import CLAMPED_WITH_GAPS
from fastbm.learning.moments import Parameters
from fastbm.learning.phases import exact as exact_phases
from fastbm.learning.phases.gibbs import held_bias
from fastbm.learning.phases.phase import PhaseSettings
from fastbm.learning.settings import FitSettings
from fastbm.runs.fit.task import FitTask
from tests.support import missing as gaps
from tests.support.combinations import each, pairwise
from tests.support.learning import STEP, as_vector, coupled_pairs
from tests.support.machines import KINDS, UNITS, draw, machine, parameters
from tests.support.missing import errors_of

SUMS = (completions.MOST_LISTED, 0)  # fillings and states of hidden units listed, or sums for each set that is missing


@pytest.fixture(params=SUMS, ids=["listed", "summed"])
def sums(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to sum over what rows lack."""
    for module in (completions, exact_phases):
        monkeypatch.setattr(module, "MOST_LISTED", request.param)


def one_step(rows: np.ndarray, model: bm.BoltzmannMachine, **options: Any) -> np.ndarray:
    """What a step of plain ascent at rate 1 adds: the gradient."""
    settings = {"method": "exact", "optimizer": "sgd", "learning_rate": 1.0, "epochs": 1, "evaluate": "none"}
    return as_vector(bm.fit(rows, init=model, **settings | options).model) - as_vector(model)


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_likelihoods_are_those_of_what_is_known(kind: str, units: str) -> None:
    model, beta = machine(kind, units, seed=1, offset=1.5), 0.8
    rows = gaps.rows_with_gaps(model, 25, part=0.4)
    expected = gaps.log_p_of_known(*parameters(model), units, rows, beta)
    found = bm.log_likelihood(model, rows, beta=beta)
    np.testing.assert_allclose(found.each, expected, atol=1e-12)
    assert found.bound == "exact"
    assert found.error == 0.0
    masked = np.ma.masked_array(np.nan_to_num(rows, nan=1.0), np.isnan(rows))
    assert np.array_equal(bm.log_likelihood(model, masked, beta=beta).each, found.each)


def test_fillings_share_what_is_known() -> None:
    model = bm.BoltzmannMachine([np.zeros((784, 200))])
    rows = np.ones((3, 784))
    rows[:, :12] = np.nan
    blocks = list(completions.Gapped(model, rows * [[1], [1], [-1]]).filled())
    assert sum(len(filled.values) for filled in blocks) == 2  # not one for each filling
    assert completions.forecast_of_known(model, Rows.of(rows == 1, ~np.isnan(rows))) < 0.1


def test_likelihoods_of_rows_that_lack_much_may_be_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = machine("visible", seed=1)
    rows = gaps.rows_with_gaps(model, 6, part=0.6)
    expected = gaps.log_p_of_known(*parameters(model), model.units, rows)
    monkeypatch.setattr(completions, "MOST_LISTED", 0)
    found = bm.log_likelihood(model, rows, clamped="ais", seed=1)
    assert found.error is not None
    assert 0 < found.error < 0.05
    assert abs(found.mean - expected.mean()) < 5 * found.error
    assert found.clamped is not None and found.clamped.converged is True and "clamped rows" not in str(found)
    unsure = replace(found, clamped=replace(found.clamped, converged=None))
    assert "sums of clamped rows by ais: cannot tell" in str(unsure)


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_ascent_is_the_gradient_of_the_likelihood_of_what_is_known(kind: str, units: str) -> None:
    model, beta, l2 = machine(kind, units, seed=2), 0.7, 0.2
    rows = gaps.rows_with_gaps(model, 12)
    slope = one_step(rows, model, beta=beta, l2=l2)
    np.testing.assert_allclose(slope, gaps.gradient_by_differences(model, rows, beta, l2), atol=1e-6)


@pytest.mark.parametrize("n", [9, 10])
def test_the_gradient_of_machines_of_ten_units(n: int) -> None:
    for n_hidden in (0, 4):
        model = bm.models.sherrington_kirkpatrick(n, seed=n)
        model = bm.BoltzmannMachine(np.array(model.weights), 0.3 * np.cos(np.arange(n)), n_hidden=n_hidden)
        rows = gaps.rows_with_gaps(model, 10)
        slope = one_step(rows, model, l2=0.1)
        np.testing.assert_allclose(slope, gaps.gradient_by_differences(model, rows, 1.0, 0.1), atol=1e-6)


@each(kind=KINDS, units=UNITS, weighted=[True, False, False])
def test_l_bfgs_climbs_the_likelihood_of_what_is_known(kind: str, units: str, weighted: bool) -> None:
    model, beta, l2 = machine(kind, units, seed=3), 0.8, 0.2
    rows = np.concatenate([gaps.rows_with_gaps(model, 10)] * 2)  # some are alike
    row_weights = np.random.default_rng(1).random(20) if weighted else None
    data = {"rows": Rows.of((rows == 1).astype(np.uint8), ~np.isnan(rows))}
    data |= {} if row_weights is None else {"weights": row_weights}
    task = FitTask(model, data, settings_of(model, len(rows), beta=beta, l2=l2), classify=None, threads=1)
    driver = task.learner.driver
    assert isinstance(driver, Likelihood)
    start = driver._centring.vector(Parameters.of(model))
    value, slope = driver._objective(start)
    each = gaps.log_p_of_known(*parameters(model), units, rows, beta)
    pairs = as_vector(model)[: len(coupled_pairs(model))]
    assert -value == pytest.approx(np.average(each, weights=row_weights) - 0.5 * l2 * pairs @ pairs, abs=1e-10)
    for k in range(len(start)):
        move = np.zeros_like(start)
        scale = driver._centring.scale[k]  # of the parameter, as the optimiser sees it
        move[k] = STEP * scale
        difference = (driver._objective(start + move)[0] - driver._objective(start - move)[0]) / (2 * STEP)
        assert slope[k] * scale == pytest.approx(difference, abs=1e-6)


def settings_of(model: bm.BoltzmannMachine, n_rows: int, **changes: Any) -> FitSettings:
    from fastbm.learning import rules

    names = FitSettings.__dataclass_fields__
    given = {name: None for name in names if name not in ("method", "engine")}
    return rules.check(model, n_rows, "exact", given | {"seed": 0} | changes, gaps=True)


def phase_settings(beta: float, n_rows: int, seed: int, sweeps: int) -> PhaseSettings:
    return PhaseSettings(
        beta=beta, seed=seed, threads=1, n_chains=1, n_sweeps=1, clamped_sweeps=sweeps, batch_size=n_rows,
        wants_log_z=False,
    )  # fmt: skip


@pairwise(kind=KINDS, units=UNITS, way=["gibbs", "annealed"])
def test_sampled_clamped_moments_are_unbiased(kind: str, units: str, way: str) -> None:
    # about 300 moments in all: 4 standard errors are passed by chance in less than 2 of 100 runs
    model, beta = machine(kind, units, seed=4), 0.9
    rows = gaps.rows_with_gaps(model, 5, part=0.5)
    mean, second = gaps.moments_of_known(model, rows, beta)
    phase = CLAMPED_WITH_GAPS[way](phase_settings(beta, 5 * 100, 3, 30))
    phase.prepare(model)
    found = [phase.moments(model, np.tile(rows, (100, 1))) for _ in range(8)]
    means = np.array([one.mean for one in found])
    pairs = np.array([model.couplings.to_vector(one.pairs) for one in found])
    expected = model.couplings.to_vector(model.couplings.pick(second))
    for values, truth in ((means, mean), (pairs, expected)):
        # at most: a product of units has a standard deviation of half its span; of 30 sweeps 5 are independent
        error = 0.5 * model.convention.span / np.sqrt(5 * 100 * 8 * 5)
        assert np.abs(values.mean(axis=0) - truth).max() < 4 * error
    known = ~np.isnan(rows).any(axis=0)
    np.testing.assert_allclose(means[:, : model.n_visible][:, known], np.tile(mean[: model.n_visible][known], (8, 1)))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_known_units_never_turn(kind: str, units: str) -> None:
    model, beta = machine(kind, units, seed=5, scale=3.0), 0.3
    rows = np.repeat(gaps.rows_with_gaps(model, 20, part=0.5), 10, axis=0)
    known = ~np.isnan(rows)
    up = np.zeros((len(rows), model.n_units), np.uint8)
    up[:, : model.n_visible] = rows == 1
    bias = held_bias(model, up, known, beta)
    # log-odds of staying, in the state of the others that pulls the most
    weights, _ = parameters(model)
    pull = np.abs(weights).sum(axis=1)
    odds = beta * model.convention.span * (np.where(up == 1, bias, -bias) - pull)[:, : model.n_visible]
    assert odds[known].min() >= 40.0 - 1e-9
    assert np.array_equal(bias[:, model.n_visible :], np.tile(model.flat_bias[model.n_visible :], (len(rows), 1)))


def test_mean_field_of_what_is_known_is_that_of_the_conditioned_machine() -> None:
    for units in UNITS:
        model = machine("general", units, seed=6, scale=0.3)
        rows = gaps.rows_with_gaps(model, 7)
        mean, second = np.zeros(model.n_units), np.zeros((model.n_units,) * 2)
        for row in rows:
            known = np.flatnonzero(~np.isnan(row))
            one = bm.infer(model, "mean-field", clamp=(known, row[known]), beta=0.9, n_starts=1)
            # covariances by linear response, whose diagonal no coupling meets
            mean += one.mean / len(rows)
            second += (one.covariance + np.outer(one.mean, one.mean)) / len(rows)
        found = CLAMPED_WITH_GAPS["mean-field"](phase_settings(0.9, 7, 0, 1)).moments(model, rows)
        np.testing.assert_allclose(found.mean, mean, atol=1e-6)
        np.testing.assert_allclose(found.pairs[0], second - np.diag(np.diag(second)), atol=1e-6)


def test_whole_rows_with_a_mask_of_ones_are_whole() -> None:
    rows = draw(machine("visible"), 50)
    run = bm.fit(np.ma.masked_array(rows, np.zeros(rows.shape, bool)), method="exact", l2=0.01)
    assert np.array_equal(run.model.weights, bm.fit(rows, method="exact", l2=0.01).model.weights)
    assert run.data["rows"].dtype == np.int8


def test_entries_missing_at_random_leave_no_bias() -> None:
    # 15 means of 10 fits each, by t with 9 degrees: beyond 7 by chance once in a thousand runs
    planted = machine("visible", seed=8)
    found = []
    for seed in range(10):
        rows = gaps.rows_with_gaps(planted, 3000, seed=seed)
        found.append(as_vector(bm.fit(rows, method="exact", evaluate="none").model) - as_vector(planted))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0)) < 7 * error).all()
    assert error.max() < 0.06
    rows = gaps.rows_with_gaps(planted, 3000)  # what must not be done
    filled_in = bm.fit(np.where(np.isnan(rows), 1.0, rows), method="exact", evaluate="none")
    assert (np.abs(as_vector(filled_in.model) - as_vector(planted)) > 7 * error).any()


@pytest.mark.parametrize(
    "options",
    [
        {"method": "monte-carlo", "epochs": 60, "learning_rate": 0.1},
        {"method": "pcd", "epochs": 10, "learning_rate": 0.03},
    ],
)
def test_rules_that_sample_come_to_what_exact_sums_come_to(options: dict[str, Any]) -> None:
    planted = machine("visible", seed=8, scale=0.3)
    rows = gaps.rows_with_gaps(planted, 3000)
    exact = bm.fit(rows, method="exact", evaluate="none")
    # of the data, had they been whole; the chains add less
    error = errors_of(bm.fit(draw(planted, 3000), method="exact", errors="fisher"))
    common = {"optimizer": "adam", "schedule": "linear", "n_chains": 1024, "evaluate": "none"}
    run = bm.fit(rows, **common | options)
    assert run.config["fit"]["clamped"] == options.get(
        "clamped", {"monte-carlo": "gibbs", "pcd": "exact"}[run.config["fit"]["method"]]
    )
    assert (np.abs(as_vector(run.model) - as_vector(exact.model)) < 1.5 * error).all()


@pytest.mark.filterwarnings("ignore:data")  # units that are always on where they are known
def test_monte_carlo_comes_to_what_exact_comes_to() -> None:
    planted = machine("restricted", seed=9, scale=1.0)
    rows = gaps.rows_with_gaps(planted, 400)
    start = bm.fit(rows, init=planted, method="exact", l2=0.02).model
    exact = one_step(rows, start, l2=0.02)
    assert np.abs(exact).max() < 1e-4
    sampled = [
        one_step(rows, start, method="monte-carlo", l2=0.02, n_chains=2000, clamped_sweeps=20, seed=seed)
        for seed in range(6)
    ]
    scatter = np.std(sampled, axis=0, ddof=1) / np.sqrt(6)
    assert np.abs(np.mean(sampled, axis=0)).max() < 6 * scatter.max()
    assert scatter.max() < 0.02


def test_a_unit_that_half_of_the_rows_lack() -> None:
    planted = machine("visible", seed=10)
    rows = draw(planted, 4000, 3).astype(float)
    rows[::2, 2] = np.nan
    run = bm.fit(rows, method="exact", holdout=rows[:200])
    full = bm.fit(draw(planted, 4000, 3), method="exact", errors="fisher")
    error = errors_of(full)
    assert (np.abs(as_vector(run.model) - as_vector(full.model)) < 4.5 * error).all()
    learned = parameters(run.model)
    for name, some in (("log_likelihood", rows), ("holdout_log_likelihood", rows[:200])):
        expected = gaps.log_p_of_known(*learned, run.model.units, some).mean()
        assert run.evaluation[name][-1] == pytest.approx(expected, abs=1e-9)
        assert run.metrics[name][-1] == pytest.approx(expected, abs=1e-9)
    assert not [name for name in run.metrics if "pseudo" in name]


def test_the_start_knows_the_means_of_what_is_known() -> None:
    rows = np.array([[1.0, np.nan]] * 6 + [[0.0, 1.0]] * 2 + [[0.0, 0.0]] * 4)
    start = bm.fit(rows, method="monte-carlo", epochs=1, learning_rate=1e-12, evaluate="none").model
    for unit, (ups, n) in enumerate([(6, 12), (2, 6)]):
        p = (ups + 0.5) / (n + 1)
        assert start.flat_bias[unit] == pytest.approx(np.log(p / (1 - p)), abs=1e-9)
