"""Learning by chains comes to the data's moments, says whether it did, and whether it went astray."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm._base.checks import ConvergenceWarning
from fastbm.learning import rules
from fastbm.learning.errors.statistics import Statistics
from fastbm.learning.moments import Parameters, PhaseMoments
from fastbm.learning.monitor.divergence import independent
from fastbm.learning.monitor.moment_test import CALLS, FORGOTTEN, STRETCHES, MomentTest
from fastbm.learning.optimise import coordinates, rotation
from fastbm.learning.settings import FitSettings
from fastbm.learning.training_set import Sample
from fastbm.runs.fit.task import FitTask
from tests.support.machines import DATA, draw


def log_likelihood(run: bm.Run) -> float:
    return float(run.evaluation["log_likelihood"][-1])


def spikes(n: int) -> np.ndarray:
    path = DATA / "example50.mat"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        return np.asarray(file["spikes50"])[:, :n].astype(np.uint8)


def glass(beta: float, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.normal(scale=beta / np.sqrt(10), size=(10, 10)), 1)
    return draw(bm.BoltzmannMachine(upper + upper.T, 0.1 * generator.normal(size=10), units="spin"), 10_000)


@pytest.mark.parametrize(
    "name", ["cold glass", *(pytest.param(name, marks=pytest.mark.slow) for name in ("spikes", "warm glass"))]
)
def test_defaults_come_to_the_maximum_within_the_noise_of_the_data(name: str) -> None:
    rows = spikes(15) if name == "spikes" else glass(2.0 if name == "cold glass" else 0.5, 1)
    n_parameters = rows.shape[1] * (rows.shape[1] + 1) / 2
    best = log_likelihood(bm.fit(rows, method="exact", weights_every=0, monitor_every=500))
    for seed in (0, 1):
        run = bm.fit(rows, method="monte-carlo", seed=seed, weights_every=0, monitor_every=50)
        assert run.converged
        # the maximum itself is as far above the machine that the data are from, on the average
        assert best - log_likelihood(run) < n_parameters / (2 * len(rows))


def test_rows_that_are_equal_come_to_the_maximum_of_the_penalty() -> None:
    rows = np.ones((50, 3), int)
    for data in (rows, bm.Moments(np.ones(3), np.ones((3, 3)), n_samples=50, units="binary")):
        assert bm.fit(data, "monte-carlo", l2=0.01, l2_bias=0.01, weights_every=0).converged


@pytest.mark.slow
def test_weighted_rows_with_gaps_settle() -> None:
    rows, generator = glass(0.5, 1)[:600, :6].astype(float), np.random.default_rng(0)
    rows[generator.random(rows.shape) < 0.3] = np.nan
    rows = rows[~np.isnan(rows).all(axis=1)]
    for weights in (generator.integers(0, 2, len(rows)), generator.random(len(rows))):
        run = bm.fit(rows, "monte-carlo", row_weights=weights, weights_every=0, monitor_every=100)
        assert run.converged


@pytest.mark.parametrize("name", ["gaps", "many units", "few of many pairs"])
def test_who_says_that_it_converged_is_near_the_maximum(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the metric is a rough one, and moments differ little along the way that is left."""
    rows = glass(1.0 if name == "many units" else 2.0, 1)[:2000].astype(float)
    if name == "gaps":
        rows[np.random.default_rng(0).random(rows.shape) < 0.15] = np.nan
    else:
        monkeypatch.setattr(coordinates, "MOST_PARAMETERS", 0)
        monkeypatch.setattr(rotation, "MOST_UNITS", 10 if name == "many units" else 0)
    best = log_likelihood(bm.fit(rows, method="exact", weights_every=0, monitor_every=500, tolerance=1e-5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = bm.fit(rows, method="monte-carlo", weights_every=0, monitor_every=50, epochs=400)
    assert run.converged is (name != "few of many pairs")
    assert (best - log_likelihood(run) < 55 / (2 * len(rows))) is run.converged


def test_steps_that_were_told_apart_keep_their_meaning() -> None:
    rows = glass(0.5, 2)[:200]
    options: dict[str, Any] = {"method": "monte-carlo", "epochs": 3, "weights_every": 0}
    for told in ({"learning_rate": 0.01}, {"centring": True}, {"schedule": "linear"}, {"optimizer": "sgd"}):
        assert bm.fit(rows, **told, **options).config["fit"]["optimizer"] == "sgd"
    slow = bm.fit(rows, learning_rate=1e-3, **options)
    assert slow.converged is False  # moments that are off are told in the summary
    assert slow.summary()["converged"] is False


def test_a_penalty_is_part_of_what_learning_comes_to() -> None:
    rows = glass(0.5, 2)
    run = bm.fit(rows, "monte-carlo", l2=0.3, l2_bias=0.3, weights_every=0, monitor_every=100)
    assert run.converged
    assert "penalty" in run.evidence
    best = bm.fit(rows, "exact", l2=0.3, l2_bias=0.3).model
    assert np.abs(run.model.weights - best.weights).max() < 0.02


def test_steps_that_are_too_few_have_not_converged() -> None:
    with pytest.warns(ConvergenceWarning, match=r"has not converged: after 2 epochs .* (bias|weights)\[.*Raise epochs"):
        run = bm.fit(glass(2.0, 3), method="monte-carlo", epochs=2, weights_every=0)
    assert run.converged is False


def test_verdicts_are_as_often_wrong_as_they_say() -> None:
    """Gaussian moments with known noise: differences of 0 pass, one of six times the noise does not."""
    like = bm.BoltzmannMachine(np.zeros((6, 6)), units="spin")
    statistics, generator = Statistics(like), np.random.default_rng(5)
    passed = np.zeros(2)
    for off in (0, 1):
        for _ in range(60):
            test = MomentTest(statistics, 10_000)
            truth = generator.normal(scale=0.01, size=(7, 6))  # of the data, whose noise is as large
            for _ in range(FORGOTTEN + STRETCHES * CALLS):
                noise = 0.08 * generator.normal(size=(7, 6))
                pairs = np.triu(truth[:6], 1) + np.triu(truth[:6], 1).T
                clamped = PhaseMoments(truth[6], (pairs,))
                moved = np.triu(noise[:6], 1)
                moved[0, 1] += off * 6 * 0.01 * np.sqrt(2.0)
                test.add(clamped, PhaseMoments(noise[6], (moved + moved.T,)))
            passed[off] += test.verdict(Parameters.of(like)).passed
    assert passed[0] >= 56
    assert passed[1] <= 3


def test_tests_of_moments_go_on_from_any_state() -> None:
    """A run that is stopped inside of a test before an epoch ends in the same bits."""
    rows = (glass(0.5, 4)[:60, :4] > 0).astype(np.uint8)
    start = bm.BoltzmannMachine(np.zeros((4, 4)), units="binary")
    given = dict.fromkeys(FitSettings.__dataclass_fields__) | {"seed": 1, "n_chains": 8, "n_sweeps": 1}
    given.pop("method")
    settings = rules.check(start, len(rows), "monte-carlo", given)

    def task() -> FitTask:
        return FitTask(start, {"rows": rows}, settings, classify=None, threads=1)

    straight, states = task(), []
    while not straight.done:
        straight.advance()
        states.append({name: np.array(array) for name, array in straight.state().items()})
    assert straight.n_epochs < settings.epochs
    for place in (100, 100 + FORGOTTEN + 2, 100 + FORGOTTEN + CALLS * 7 + 1):
        resumed = task()
        resumed.restore(states[place])
        while not resumed.done:
            resumed.advance()
        assert resumed.n_epochs == straight.n_epochs
        for name, array in straight.state().items():
            np.testing.assert_array_equal(resumed.state()[name], array, err_msg=name)


@pytest.mark.parametrize(
    "options",
    [{"method": "monte-carlo"}, {"method": "pcd", "n_hidden": 3, "epochs": 20}, {"method": "mean-field", "epochs": 20}],
    ids=["monte-carlo", "pcd", "mean-field"],
)
def test_learning_that_diverges_is_told_and_the_best_kept(options: dict[str, Any]) -> None:
    rows = (glass(0.5, 6)[:500, :8] > 0).astype(np.uint8)
    with pytest.warns(ConvergenceWarning, match=r"learning diverged: rows came to .* units on their own .*Lower learn"):
        run = bm.fit(rows, learning_rate=1e3, weights_every=0, **options)
    p = rows.mean(axis=0)
    alone = float(np.sum(p * np.log(p) + (1 - p) * np.log(1 - p)))
    assert log_likelihood(run) > alone - 0.01
    assert run.converged is False
    assert "free chains" not in run.summary() and "diverged" in run.summary()


@pytest.mark.parametrize(
    ("method", "moments"), [("pseudolikelihood", False), ("rise", False), ("naive-mean-field", True)]
)
def test_a_machine_that_prefers_other_states_than_the_rows_is_told(method: str, moments: bool) -> None:
    """Rates that all units share: given the others each is as likely as can be, and yet the machine is always up."""
    generator = np.random.default_rng(0)
    rates = 0.03 * np.exp(generator.normal(size=3000))
    rows = (generator.random((3000, 24)) < np.minimum(rates, 0.45)[:, None]).astype(np.uint8)
    data = bm.Moments.of(rows) if moments else rows
    with pytest.warns(ConvergenceWarning, match=rf"{method} comes to prefers states unlike the rows.*monte-carlo"):
        run = bm.fit(data, method)
    p = rows.mean(axis=0)
    alone = float(np.sum(p * np.log(p) + (1 - p) * np.log(1 - p)))
    assert log_likelihood(run) < alone - 2.0 and run.converged is False
    assert f"units on their own have {alone:.4g}" in run.doubt and "worse than independent units" in run.summary()
    assert bm.fit(rows, "pseudolikelihood", l2=0.1).converged
    if method == "rise":  # what has not come to rest is told so
        assert bm.fit(rows, method, epochs=1).doubt.startswith("the gradient is")


@pytest.mark.parametrize(
    ("options", "gaps"), [({"n_hidden": [60, 40]}, False), ({"n_hidden": 3, "epochs": 5, "batch_size": 500}, True)]
)
def test_learning_that_nothing_watched_is_held_against_units_on_their_own_at_the_end(
    options: dict[str, Any], gaps: bool
) -> None:
    """Deep machines have no likelihood to monitor, and of a few steps little is said on the way."""
    rows = (glass(0.5, 6)[:500, :8] > 0).astype(float)
    if gaps:
        rows[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
    p, known = np.nanmean(rows, axis=0), (~np.isnan(rows)).mean(axis=0)
    alone = float(known @ (p * np.log(p) + (1 - p) * np.log(1 - p)))
    settings = {"epochs": 20, "weights_every": 0, **options}
    text = rf"learning is worse than nothing learned: rows came to .* units on their own have {alone:.4g}\."
    with pytest.warns(ConvergenceWarning, match=text):
        run = bm.fit(rows, "pcd", learning_rate=1e4, **settings)
    assert run.converged is False
    assert bm.fit(rows, "pcd", learning_rate=0.05, **settings).converged is None


def test_a_target_below_the_noise_of_the_chains_is_told() -> None:
    rows = glass(0.5, 7)[:500]
    options: dict[str, Any] = {"method": "monte-carlo", "learning_rate": 0.2, "n_chains": 32, "weights_every": 0}
    with pytest.warns(
        ConvergenceWarning, match=r"until=.*0.001.* cannot be met: the noise of 32 chains .* at least \d+"
    ):
        run = bm.fit(rows, until={"moment_error": 1e-3}, epochs=2_000, **options)
    assert run.metrics["step"][-1] < 1_000
    assert run.converged is False


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_the_independent_machine_has_the_means_of_rows_and_of_their_moments(units: str) -> None:
    like = bm.BoltzmannMachine(np.zeros((5, 5)), units=units)
    rows = np.random.default_rng(1).random((40, 5)) < [0.02, 0.3, 0.5, 0.7, 0.98]
    rows[:, 4] = True  # a unit that is never off has a mean below 1
    bits, values = rows.astype(np.uint8), like.convention.values(rows.astype(np.uint8), np.float64)
    moments = {"mean": values.mean(axis=0), "second_moment": values.T @ values / 40, "n_samples": 40}
    expected = like.convention.lo + like.convention.span * (40 * rows.mean(axis=0) + 0.5) / 41
    for data in ({"rows": bits}, moments):
        machine = independent(like, Sample.of(like, data), beta=2.0)
        np.testing.assert_allclose(bm.infer(machine, "exact", beta=2.0).mean, expected, atol=1e-12)


@pytest.mark.parametrize("units", ["spin", "binary"])
def test_noise_of_the_data_is_that_of_a_row_of_bits(units: str) -> None:
    """With chains that are free of noise, a difference of z errors of the data has this z."""
    like = bm.BoltzmannMachine(np.zeros((4, 4)), units=units)
    statistics, span = Statistics(like), like.convention.span
    clamped = PhaseMoments(np.full(4, like.convention.lo + 0.25 * span), (np.zeros((4, 4)),))
    mean = clamped.mean.copy()
    mean[2] += 3.0 * span * np.sqrt(0.25 * 0.75 / 1000)
    test = MomentTest(statistics, 1000)
    for _ in range(FORGOTTEN + STRETCHES * CALLS):
        test.add(clamped, PhaseMoments(mean, (np.zeros((4, 4)),)))
    assert test.verdict(Parameters.of(like)).largest_z == pytest.approx(3.0, rel=0.01)
