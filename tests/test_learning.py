"""Learning climbs the likelihood that it says it climbs, and finds what was planted.

A step of plain ascent at rate 1 is the gradient, so gradients are read off the public call and held against finite
differences of a likelihood that is summed here.
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import helpers
import numpy as np
import pytest
import reference
from helpers import KINDS, UNITS, draw, log_likelihood, machine, parameters
from scipy import stats

import fastbm as bm
from fastbm.clamping import Clamped
from fastbm.learning.clamped import ClampedExact, ClampedGibbs, ClampedMeanField
from fastbm.learning.free import FreeExact, FreeGibbs, FreeMeanField
from fastbm.learning.likelihood import Likelihood
from fastbm.learning.moments import Parameters
from fastbm.learning.phase import PhaseSettings
from fastbm.learning.settings import FitSettings
from fastbm.learning.task import FitTask

end_threads = helpers.end_threads

STEP = 1e-4
EXACT = {"clamped": "exact", "free": "exact", "optimizer": "sgd"}


def some_rows(model: bm.BoltzmannMachine, n_rows: int = 9, seed: int = 0) -> np.ndarray:
    lo = -1 if model.units == "spin" else 0
    return np.where(np.random.default_rng(seed).random((n_rows, model.n_visible)) < 0.6, 1, lo)


def gradient_by_differences(
    model: bm.BoltzmannMachine, rows: np.ndarray, beta: float, l2: float, l2_bias: float
) -> np.ndarray:
    """d/dtheta of the penalised mean log-likelihood: one entry a coupled pair (W_ij and W_ji together), then biases."""
    weights, bias = parameters(model)
    pairs = coupled_pairs(model)

    def value(theta: np.ndarray) -> float:
        w = np.zeros_like(weights)
        for (i, j), x in zip(pairs, theta, strict=False):
            w[i, j] = w[j, i] = x
        b = theta[len(pairs) :]
        penalty = 0.5 * l2 * sum(x * x for x in theta[: len(pairs)]) + 0.5 * l2_bias * (b @ b)
        return log_likelihood(w, b, model.units, rows, beta) - penalty

    theta = np.concatenate([[weights[i, j] for i, j in pairs], bias])
    found = np.empty_like(theta)
    for k in range(len(theta)):
        up, down = theta.copy(), theta.copy()
        up[k] += STEP
        down[k] -= STEP
        found[k] = (value(up) - value(down)) / (2 * STEP)
    return found


def coupled_pairs(model: bm.BoltzmannMachine) -> list[tuple[int, int]]:
    """The pairs i < j that the layout couples."""
    sizes = model.couplings.sizes
    if len(sizes) == 1:
        return [(i, j) for i in range(model.n_units) for j in range(i + 1, model.n_units)]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    layers = [range(a, b) for a, b in zip(starts, ends, strict=True)]
    return [(i, j) for here, there in itertools.pairwise(layers) for i in here for j in there]


def as_vector(model: bm.BoltzmannMachine) -> np.ndarray:
    weights, bias = parameters(model)
    return np.concatenate([[weights[i, j] for i, j in coupled_pairs(model)], bias])


# Gradients


@pytest.mark.parametrize(("beta", "l2", "l2_bias"), [(1.0, 0.0, 0.0), (0.6, 0.3, 0.0), (1.7, 0.1, 0.4)])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_ascent_is_the_gradient_of_the_likelihood(
    kind: str, units: str, beta: float, l2: float, l2_bias: float
) -> None:
    model = machine(kind, units, seed=2)
    rows = some_rows(model)
    run = bm.fit(
        rows, init=model, method="exact", optimizer="sgd", learning_rate=1.0, epochs=1, beta=beta, l2=l2,
        l2_bias=l2_bias, evaluate="none",
    )  # fmt: skip
    slope = as_vector(run.model) - as_vector(model)
    np.testing.assert_allclose(slope, gradient_by_differences(model, rows, beta, l2, l2_bias), atol=1e-6)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_likelihood_that_l_bfgs_climbs_has_this_gradient_and_this_value(kind: str, units: str) -> None:
    model, beta, l2, l2_bias = machine(kind, units, seed=3, offset=2.0), 0.8, 0.2, 0.1
    rows = some_rows(model)
    task = fit_task(model, rows, beta=beta, l2=l2, l2_bias=l2_bias)
    driver = task._driver
    assert isinstance(driver, Likelihood)
    start = driver._centring.vector(Parameters.of(model))
    np.testing.assert_allclose(
        as_vector(driver._centring.parameters(start).machine(model)), as_vector(model), atol=1e-12
    )
    value, slope = driver._objective(start)
    weights, bias = parameters(model)
    penalty = 0.5 * l2 * np.sum(np.triu(weights, 1) ** 2) + 0.5 * l2_bias * bias @ bias
    assert -value == pytest.approx(log_likelihood(weights, bias, units, rows, beta) - penalty, abs=1e-10)
    for k in range(len(start)):
        move = np.zeros_like(start)
        move[k] = STEP
        difference = (driver._objective(start + move)[0] - driver._objective(start - move)[0]) / (2 * STEP)
        assert slope[k] == pytest.approx(difference, abs=1e-6)


def fit_task(model: bm.BoltzmannMachine, rows: np.ndarray, *, threads: int = 1, **changes: Any) -> FitTask:
    settings = {
        "method": "exact", "clamped": "exact", "free": "exact", "optimizer": "l-bfgs", "beta": 1.0, "epochs": 5,
        "learning_rate": 0.1, "momentum": 0.0, "batch_size": len(rows), "n_chains": 8, "n_sweeps": 1,
        "clamped_sweeps": 2, "l2": 0.0, "l2_bias": 0.0, "tolerance": 1e-6, "seed": 0, "weights_every": 1,
        "samples_every": 0, "monitor_every": 1, "evaluate": "auto",
    }  # fmt: skip
    return FitTask(
        model, {"rows": (rows == 1).astype(np.uint8)}, FitSettings(**settings | changes), classify=None, threads=threads
    )


def test_the_twin_of_the_likelihood_is_right() -> None:
    for kind in KINDS:
        model = machine(kind, "binary", seed=1)
        rows = some_rows(model, 3)
        weights, bias = parameters(model)
        free = reference.enumerate_states(weights, bias, "binary", beta=0.7).log_z
        clamped = [-reference.free_energy(row, weights, bias, "binary", 0.7) for row in rows.tolist()]
        assert log_likelihood(weights, bias, "binary", rows, 0.7) == pytest.approx(np.mean(clamped) - free, abs=1e-12)


@pytest.mark.parametrize("units", UNITS)
def test_reported_likelihoods_are_those_of_the_learned_machine(units: str) -> None:
    for kind in KINDS:
        model = machine(kind, units, seed=4)
        rows = some_rows(model, 12)
        for optimizer in ("sgd", "l-bfgs"):
            run = bm.fit(
                rows, init=model, method="exact", optimizer=optimizer, epochs=4, beta=0.9, l2=0.05, holdout=rows[:4]
            )
            weights, bias = parameters(run.model)
            assert run.evaluation["log_likelihood"][-1] == pytest.approx(
                log_likelihood(weights, bias, units, rows, 0.9), abs=1e-9
            )
            assert run.metrics["log_likelihood"][-1] == pytest.approx(
                log_likelihood(weights, bias, units, rows, 0.9), abs=1e-9
            )
            held = log_likelihood(weights, bias, units, rows[:4], 0.9)
            assert run.evaluation["holdout_log_likelihood"][-1] == pytest.approx(held, abs=1e-9)
            arrays = [run.weights[name] for name in run.weights if name.startswith("weights")]
            for stored, array in zip(arrays, run.model.couplings.arrays, strict=True):
                assert np.array_equal(stored[-1], array)
            assert np.array_equal(run.weights["bias"][-1], run.model.flat_bias)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", ["visible", "restricted"])
def test_pseudo_likelihood_is_the_sum_of_the_conditionals(kind: str, units: str) -> None:
    model = machine(kind, units, seed=5)
    rows, beta = some_rows(model, 20), 1.3
    run = bm.fit(rows, init=model, method="exact", optimizer="sgd", learning_rate=0.1, epochs=1, beta=beta)
    weights, bias = parameters(run.model)
    total = 0.0
    for row in rows:
        here = log_likelihood(weights, bias, units, row[None], beta)
        for i in range(model.n_visible):
            other = row.copy()
            other[i] = (-1 if units == "spin" else 0) + 1 - other[i]
            total += here - np.logaddexp(here, log_likelihood(weights, bias, units, other[None], beta))
    assert run.metrics["pseudo_likelihood"][-1] == pytest.approx(total / len(rows), abs=1e-6)


# Phases


def phase_settings(**changes: Any) -> PhaseSettings:
    values = {
        "beta": 0.9,
        "seed": 1,
        "threads": 1,
        "n_chains": 512,
        "n_sweeps": 200,
        "clamped_sweeps": 50,
        "batch_size": 9,
    }
    return PhaseSettings(**{**values, "wants_log_z": False, **changes})


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_clamped_phases_agree(kind: str, units: str) -> None:
    """Sampled as near the exact phase as Student's t allows (false alarms: 1e-6 a number), mean field close by."""
    model = machine(kind, units, seed=6, scale=0.1 if units == "spin" else 0.4)
    rows = np.repeat(some_rows(model).astype(float), 40, axis=0)
    exact = ClampedExact(phase_settings(wants_log_z=True)).moments(model, rows)
    truth = [
        reference.enumerate_states(*parameters(model), units, beta=0.9, clamp=dict(enumerate(r)))
        for r in rows[::40].astype(int).tolist()
    ]
    np.testing.assert_allclose(exact.mean, np.mean([t.mean for t in truth], axis=0), atol=1e-10)
    np.testing.assert_allclose(
        pair_vector(model, exact.pairs),
        [np.mean([t.second_moment[i, j] for t in truth]) for i, j in coupled_pairs(model)],
        atol=1e-10,
    )
    assert exact.log_z == pytest.approx(np.mean([t.log_z for t in truth]), abs=1e-10)

    phase = ClampedGibbs(phase_settings())
    draws = [phase.moments(model, rows) for _ in range(24)]
    for name in ("mean", "pairs"):
        values = np.array([d.mean if name == "mean" else pair_vector(model, d.pairs) for d in draws])
        target = exact.mean if name == "mean" else pair_vector(model, exact.pairs)
        assert_centred(values, target)

    close = ClampedMeanField(phase_settings()).moments(model, rows)
    tolerance = 1e-7 if kind in ("visible", "restricted") else 0.03
    np.testing.assert_allclose(close.mean, exact.mean, atol=tolerance)
    np.testing.assert_allclose(pair_vector(model, close.pairs), pair_vector(model, exact.pairs), atol=tolerance)


def assert_centred(values: np.ndarray, target: np.ndarray) -> None:
    """The mean over the first axis is `target`, by a t-test for every entry at 1e-6."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.all(np.abs(values.mean(axis=0) - target) <= stats.t.isf(5e-7, len(values) - 1) * error + 1e-12)


def pair_vector(model: bm.BoltzmannMachine, pairs: tuple[np.ndarray, ...]) -> np.ndarray:
    """Pair averages in the order of `coupled_pairs`; a full matrix must be symmetric with nothing on its diagonal."""
    if len(model.couplings.sizes) == 1:
        assert np.allclose(pairs[0], pairs[0].T, atol=1e-12)
        assert not np.any(np.diagonal(pairs[0]))
        return pairs[0][np.triu_indices(model.n_units, 1)]
    return np.concatenate([block.ravel() for block in pairs])


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_free_phases_agree(kind: str, units: str) -> None:
    model = machine(kind, units, seed=7, scale=0.1 if units == "spin" else 0.4)
    rows = some_rows(model).astype(float)
    truth = helpers.enumerate_machine(model, 0.9)
    exact = FreeExact(phase_settings()).moments(model, rows)
    second = [truth.second_moment[i, j] for i, j in coupled_pairs(model)]
    np.testing.assert_allclose(exact.mean, truth.mean, atol=1e-10)
    np.testing.assert_allclose(pair_vector(model, exact.pairs), second, atol=1e-10)
    assert exact.log_z == pytest.approx(truth.log_z, abs=1e-10)

    phase = FreeGibbs(phase_settings(n_sweeps=10))
    phase.prepare(model)
    draws = [phase.moments(model, rows) for _ in range(40)][2:]
    for target, values in (
        (truth.mean, [d.mean for d in draws]),
        (second, [pair_vector(model, d.pairs) for d in draws]),
    ):
        assert_centred(np.array(values), target)

    close = FreeMeanField(phase_settings()).moments(model, rows)
    np.testing.assert_allclose(close.mean, truth.mean, atol=0.04)
    np.testing.assert_allclose(pair_vector(model, close.pairs), second, atol=0.04)


def test_the_clamped_phase_is_the_free_phase_of_a_conditioned_machine() -> None:
    model = machine("general", "spin", seed=8)
    row = np.array([[1.0, -1.0, 1.0]])
    clamped = ClampedExact(phase_settings()).moments(model, row)
    smaller = Clamped.of(model, np.arange(3), row.astype(int)).machine(0)
    np.testing.assert_allclose(clamped.mean[3:], bm.infer(smaller, "exact", beta=0.9).mean, atol=1e-12)


# What is learned


def standard_errors(model: bm.BoltzmannMachine, n_rows: int) -> np.ndarray:
    """Of maximum-likelihood couplings and biases of a visible machine, by the Fisher information."""
    states, log_p = helpers.log_joint(*parameters(model), model.units, 1.0)
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


@pytest.mark.parametrize("units", UNITS)
def test_mean_field_learning_recovers_weak_planted_couplings(units: str) -> None:
    planted = machine("visible", units, seed=10, scale=0.06 if units == "spin" else 0.25)
    rows = draw(planted, 40_000)
    run = bm.fit(rows, method="mean-field", units=units, epochs=100, learning_rate=0.3 if units == "spin" else 2.0)
    off = np.abs(as_vector(run.model) - as_vector(planted))
    assert np.all(off < 4.5 * standard_errors(planted, len(rows)) + 0.02)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "pcd", "n_hidden": 8, "learning_rate": 0.5, "n_sweeps": 5},
        {"method": "cd", "n_hidden": 8, "learning_rate": 0.5, "n_sweeps": 10},
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
    run = bm.fit(rows, **{"epochs": 500, "batch_size": len(rows), "n_chains": 128, **options})
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
    path = helpers.data_file("example15.mat")
    run = bm.fit(f"{path}:spikes15", method="exact", l2=1e-5)
    assert run.converged
    assert run.evaluation["log_likelihood"][-1] == pytest.approx(-4.48652, abs=1e-4)
    first = bm.data.load(f"{path}:spikes15").rows[:, :10]
    run = bm.fit(first, method="exact")
    assert run.converged
    assert run.evaluation["log_likelihood"][-1] == pytest.approx(-3.43485, abs=1e-5)


def test_a_batch_that_is_not_all_the_data_is_not_taken_for_it() -> None:
    """150 rows in mini-batches of 100 make one step an epoch, each with other rows."""
    rows = np.zeros((150, 2), int)
    rows[::2, 0] = 1
    rows[::3, 1] = 1
    run = bm.fit(
        rows,
        clamped="exact",
        free="exact",
        optimizer="sgd",
        batch_size=100,
        learning_rate=1.0,
        epochs=400,
        evaluate="none",
    )
    late = run.weights["bias"][200:]
    assert late.std(axis=0).min() > 1e-4, "mini-batches differ from epoch to epoch"


def test_learning_rates_that_diverge_are_told() -> None:
    rows = bm.data.bars_and_stripes(2)
    text = r"learning diverged in epoch .*Lower learning_rate"
    with pytest.raises(ValueError, match=text), np.errstate(all="ignore"):
        bm.fit(rows, method="exact", optimizer="sgd", l2=10.0, learning_rate=1e30, epochs=50, evaluate="none")


# Convergence


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


def test_too_few_iterations_have_not_converged() -> None:
    rows = draw(machine("visible", "binary"), 500)
    assert not bm.fit(rows, method="exact", epochs=2).converged
    assert bm.fit(rows, method="pcd", epochs=2).converged is None


# Choices made by the number of threads or of units


@pytest.mark.parametrize("n_visible", [33, 34, 35, 36])
@pytest.mark.parametrize("layered", [False, True])
def test_the_last_look_does_not_depend_on_threads(n_visible: int, layered: bool) -> None:
    n_visible -= layered
    weights = [np.zeros((n_visible, 1))] if layered else np.zeros((n_visible, n_visible))
    rows = np.zeros((4, n_visible))
    tasks = [
        fit_task(
            bm.BoltzmannMachine(weights, units="binary"),
            rows,
            threads=t,
            clamped="exact",
            free="gibbs",
            optimizer="sgd",
        )
        for t in (1, 2, 16)
    ]
    assert len({task.method for task in tasks}) == 1
    assert len({tuple(sorted(task.streams)) for task in tasks}) == 1


@pytest.mark.parametrize("n_hidden", [300, 1500])
def test_machines_of_any_size_are_learned(n_hidden: int) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (10, 784))
    run = bm.fit(rows, n_hidden=n_hidden, epochs=1, batch_size=10, evaluate="none")
    assert run.model.n_units == 784 + n_hidden


# Refusals


ROWS = [[0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]]


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "method must be one of .*Did you mean 'exact'", {"method": "exakt"}),
        (TypeError, "fit has no argument 'n_hiden'. Did you mean 'n_hidden'", {"n_hiden": 3}),
        (TypeError, "fit has no argument 'learningrate'. Did you mean 'learning_rate'", {"learningrate": 3}),
        (ValueError, "n_hidden must be at least 0", {"n_hidden": -1}),
        (TypeError, "n_hidden must be a whole number", {"n_hidden": 2.0}),
        (ValueError, "layout must be one of 'restricted', 'general'", {"n_hidden": 2, "layout": "deep"}),
        (ValueError, 'layout="restricted" needs n_hidden of at least 1', {"layout": "restricted"}),
        (ValueError, "units must be one of 'spin', 'binary'", {"units": "bits"}),
        (ValueError, "clamped must be one of", {"clamped": "gibs"}),
        (ValueError, "free must be one of", {"free": "tap"}),
        (ValueError, "optimizer must be one of .*Did you mean 'adam'", {"optimizer": "adm"}),
        (ValueError, 'optimizer="l-bfgs" needs exact phases', {"optimizer": "l-bfgs"}),
        (ValueError, 'optimizer="l-bfgs" needs all 4 rows', {"method": "exact", "batch_size": 2}),
        (ValueError, "beta must be above 0", {"beta": 0.0}),
        (ValueError, "epochs must be at least 1; got 0", {"epochs": 0}),
        (ValueError, "learning_rate must be above 0", {"learning_rate": 0.0}),
        (ValueError, "momentum must be at least 0", {"momentum": -0.1}),
        (ValueError, "batch_size must be at least 1", {"batch_size": 0}),
        (ValueError, "n_chains must be at least 1", {"n_chains": 0}),
        (ValueError, "n_sweeps must be at least 1; got -3", {"n_sweeps": -3}),
        (ValueError, "clamped_sweeps must be at least 1", {"clamped_sweeps": 0}),
        (ValueError, "l2 must be at least 0", {"l2": -1e-3}),
        (ValueError, "l2_bias must be at least 0", {"l2_bias": -1e-3}),
        (ValueError, "l2 must be finite", {"l2": np.inf}),
        (ValueError, "tolerance must be above 0", {"tolerance": 0.0}),
        (ValueError, "weights_every must be at least 0", {"weights_every": -1}),
        (ValueError, "monitor_every must be at least 1", {"monitor_every": 0}),
        (ValueError, "evaluate must be one of .*Did you mean 'exact'", {"evaluate": "exakt"}),
        (ValueError, 'evaluate="ais" needs a layered machine', {"evaluate": "ais"}),
        (ValueError, "holdout must have 3 units a row, as data; got 2", {"holdout": [[0, 1]]}),
        (ValueError, "holdout must be 0 or 1", {"holdout": [[-1, 1, 1]]}),
        (ValueError, "holdout is empty", {"holdout": np.zeros((0, 3))}),
        (ValueError, "init has 5 visible units; data has 3", {"init": machine("visible", "binary")}),
        (TypeError, "init must be a BoltzmannMachine; got int", {"init": 3}),
        (ValueError, "seed must be at least 0", {"seed": -1}),
        (ValueError, "threads must be at least 1", {"threads": 0}),
        (ValueError, "max_seconds must be at least 0", {"max_seconds": -1}),
    ],
)
def test_bad_arguments_are_named(error: type[Exception], text: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(error, match=text):
        bm.fit(ROWS, **{"epochs": 1, **arguments})


def test_contrastive_divergence_is_refused_where_hidden_units_are_coupled() -> None:
    for options in (
        {"method": "cd", "n_hidden": 2, "layout": "general"},
        {"method": "pcd", "free": "contrastive", "init": machine("layers", "binary")},
    ):
        with pytest.raises(ValueError, match=r'free="contrastive".*not coupled to one another.*method="monte-carlo"'):
            bm.fit(ROWS, epochs=1, **options)


@pytest.mark.parametrize(
    "options", [{"method": "exact"}, {"method": "pcd", "evaluate": "exact"}], ids=["method", "evaluate"]
)
def test_sums_that_cannot_be_done_are_refused_before_learning_begins(options: dict[str, Any], tmp_path) -> None:
    rows, seen = np.random.default_rng(0).integers(0, 2, (20, 60)), []
    with pytest.raises(ValueError, match=r"2\^60 states"):
        bm.fit(
            rows,
            epochs=2,
            batch_size=20,
            out=tmp_path / "run.h5",
            progress=lambda task, rows: seen.append(rows),
            **options,
        )
    assert not seen
    assert not list(tmp_path.iterdir()), "a refused call leaves nothing behind"


def test_nothing_warns_along_the_way() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bm.fit(ROWS, method="mean-field", n_hidden=2, epochs=3)
        bm.fit(ROWS, method="exact", l2=0.1)
