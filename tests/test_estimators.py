"""Estimators against exact sums: bounds on the right side, error bars that cover, and honesty about convergence.

Coverage: 95 % intervals over 100 seeds and more hold the truth in 88 to 99.5 % of cases. Unbiasedness and agreement:
within four standard errors, which fails one right estimate in 16000; seeds are fixed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import helpers
import numpy as np
import pytest
from helpers import KINDS, UNITS, assert_covers, flat, machine

import fastbm as bm

end_threads = helpers.end_threads

SEEDS = range(100)
LAYERED = ("restricted", "layers")
SMALL = {
    "mean-field": {},
    "sampled-states": {"n_chains": 16, "n_sweeps": 60},
    "gibbs": {"n_chains": 16, "n_sweeps": 200},
}


def calm(function: Callable[..., bm.Inference], *arguments: Any, **options: Any) -> bm.Inference:
    """Call and let it say that it has not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bm.ConvergenceWarning)
        return function(*arguments, **options)


# Annealed importance sampling


@pytest.mark.parametrize("start", ["mean-field", "uniform"])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", LAYERED)
def test_ais_is_unbiased_and_its_errors_cover(kind: str, units: str, start: str) -> None:
    model = machine(kind, units, seed=2, offset=1.5, scale=0.35 if units == "spin" else 0.8)
    truth = bm.infer(model, "exact", beta=1.2)
    found = [bm.infer(model, "ais", beta=1.2, seed=s, n_chains=128, n_betas=20, start=start, threads=1) for s in SEEDS]
    ratio = np.exp([f.log_z - truth.log_z for f in found])
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / math.sqrt(len(ratio))
    assert min(f.ess for f in found) > 30
    assert all(f.converged and f.bound == "stochastic lower" for f in found)
    assert_covers(np.array([abs(f.log_z - truth.log_z) < 1.96 * f.log_z_error for f in found]))
    assert_covers(np.array([np.abs(f.mean - truth.mean) < 1.96 * f.mean_error for f in found]))
    assert_covers(np.array([abs(f.energy - truth.energy) < 1.96 * f.energy_error for f in found]))


@pytest.mark.parametrize("units", UNITS)
def test_ais_follows_a_path_of_its_own_and_many_blocks_of_chains(units: str) -> None:
    model = machine("layers", units, seed=3, scale=1.0)
    truth = bm.infer(model, "exact")
    found = bm.infer(model, "ais", betas=np.linspace(0, 1, 300) ** 2, n_chains=500, start="uniform")
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error
    assert found.log_z_error < 0.02
    assert found.n_samples == 500
    np.testing.assert_allclose(np.diagonal(found.second_moment), found.mean if units == "binary" else 1.0, atol=1e-12)
    assert np.all(np.abs(found.mean - truth.mean) < 5 * found.mean_error)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_ais_is_exact_where_one_layer_is_all_there_is(beta: float) -> None:
    """At beta = 0 every weight is the same, and so it is when nothing but a layer that is summed out is left free."""
    model = machine("restricted", "binary", seed=1)
    if beta == 0:
        found, truth = bm.infer(model, "ais", beta=0.0, n_chains=4, n_betas=2), 7 * math.log(2)
    else:
        row = [1, 0, 1, 1]
        found = bm.infer(model, "ais", clamp=(range(4), row), n_chains=4, n_betas=2)
        truth = -model.free_energy(row)
    assert found.log_z == pytest.approx(truth, abs=1e-5)
    assert found.log_z_error == pytest.approx(0, abs=1e-5)


def test_ais_says_when_few_weights_carry_the_average() -> None:
    model = bm.BoltzmannMachine([np.random.default_rng(1).normal(scale=4.0, size=(8, 8))])
    with pytest.warns(bm.ConvergenceWarning, match="weights carry the average.*n_betas"):
        found = bm.infer(model, "ais", n_betas=2, n_chains=100)
    assert not found.converged
    assert found.ess < 10


def test_one_chain_has_no_error_bar_and_says_so_without_nan() -> None:
    found = bm.infer(machine("restricted"), "ais", n_chains=1, n_betas=10)
    assert found.log_z_error is None
    assert math.isfinite(found.log_z)


def test_few_healthy_chains_have_converged() -> None:
    """No handful of weights is worth more than their number, and what has not converged comes with a warning."""
    found = bm.infer(machine("layers", scale=0.2), "ais", n_chains=8)
    assert found.ess > 7.9
    assert found.converged


def test_ais_of_huge_couplings_is_finite() -> None:
    model = bm.BoltzmannMachine([np.full((3, 2), 1000.0)], units="binary")
    found = calm(bm.infer, model, "ais", n_chains=64, n_betas=2000)
    assert math.isfinite(found.log_z)
    assert found.log_z <= 6000 + 10 * math.log(2)


# Sampled states


@pytest.mark.parametrize("units", UNITS)
def test_sampled_states_are_a_lower_bound_and_the_corrected_value_is_covered(units: str) -> None:
    model = bm.models.random_machine(10, scale=0.7, bias_scale=0.2, units=units, seed=1)
    truth = bm.infer(model, "exact").log_z
    found = [bm.infer(model, "sampled-states", seed=s, n_chains=32, n_sweeps=25, threads=1) for s in range(200)]
    assert all(f.log_z <= truth + 1e-10 and f.bound == "lower" for f in found)
    assert max(f.log_z for f in found) < truth - 0.1, "the set must miss something for the test to tell"
    off = np.array([f.detail["log_z_corrected"] - truth for f in found])
    assert_covers(np.abs(off) < 1.96 * np.array([f.detail["log_z_corrected_error"] for f in found]))


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_states_are_exact_once_all_states_were_seen(kind: str, units: str) -> None:
    model = machine(kind, units, scale=0.3, offset=2.0)
    truth = bm.infer(model, "exact", beta=0.5)
    found = bm.infer(model, "sampled-states", beta=0.5, n_chains=64, n_sweeps=600)
    assert found.detail["n_states"] == 2**model.n_units
    assert found.detail["probability"] == 1
    for name in ("log_z", "energy", "energy_variance"):
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=1e-10)
    np.testing.assert_allclose(found.mean, truth.mean, atol=1e-10)
    np.testing.assert_allclose(found.covariance, truth.covariance, atol=1e-10)
    assert 0 < found.detail["log_z_corrected_error"] < 0.1


def test_sampled_states_that_no_other_chain_meets_give_no_estimate() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="lower bound but no estimate"):
        found = bm.infer(flat(100), "sampled-states", n_sweeps=10)
    assert found.detail["log_z_corrected"] is None
    assert found.log_z < 100 * math.log(2)
    assert not found.converged


def test_good_turing_stands_beside_independent_samples_only() -> None:
    cold = bm.models.ising((6,), coupling=2.0)
    assert "good_turing_missing_mass" not in bm.infer(cold, "sampled-states", n_chains=8, n_sweeps=500).detail
    missing = bm.infer(flat(10), "sampled-states", n_chains=2, n_sweeps=500).detail["good_turing_missing_mass"]
    assert missing == pytest.approx(math.exp(-500 / 1024), abs=0.1)  # 500 draws from 1024 states alike


# Mean field


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_mean_field_is_a_lower_bound(kind: str, units: str, beta: float) -> None:
    for seed in range(3):
        model = machine(kind, units, seed=seed, offset=-2.0)
        found, truth = bm.infer(model, "mean-field", beta=beta), bm.infer(model, "exact", beta=beta)
        assert found.bound == "lower"
        assert found.log_z <= truth.log_z + 1e-10
        assert found.entropy == pytest.approx(found.log_z + beta * found.energy, abs=1e-10)


@pytest.mark.parametrize("units", UNITS)
def test_mean_field_is_exact_without_couplings(units: str) -> None:
    model = bm.BoltzmannMachine(np.zeros((4, 4)), [0.5, -1.0, 0.0, 30.0], units=units, offset=1.0)
    found, truth = bm.infer(model, "mean-field", beta=1.3), bm.infer(model, "exact", beta=1.3)
    assert found.log_z == pytest.approx(truth.log_z, abs=1e-10)
    np.testing.assert_allclose(found.mean, truth.mean, atol=1e-10)
    np.testing.assert_allclose(found.covariance, truth.covariance, atol=1e-10)
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=1e-10)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_mean_field_and_linear_response_are_close_where_couplings_are_weak(kind: str, units: str) -> None:
    model = machine(kind, units, scale=0.05 if units == "spin" else 0.2)
    found, truth = bm.infer(model, "mean-field"), bm.infer(model, "exact")
    np.testing.assert_allclose(found.mean, truth.mean, atol=0.02)
    pairs = np.triu_indices(model.n_units, 1)
    coupled = helpers.parameters(model)[0][pairs] != 0
    error = np.abs(found.covariance - truth.covariance)[pairs][coupled]
    assert error.max() < 0.3 * np.abs(truth.covariance[pairs][coupled]).max()


def test_mean_field_keeps_the_best_of_its_starts() -> None:
    """A ferromagnet in its ordered phase: m = 0 solves the equations, and is not the best that does."""
    model = bm.models.curie_weiss(10, coupling=2.0)
    one, many = (bm.infer(model, "mean-field", n_starts=n) for n in (1, 8))
    assert one.log_z < many.log_z < bm.infer(model, "exact").log_z
    assert abs(many.mean[0]) > 0.9
    assert len(many.detail["bounds of all starts"]) == 8


@pytest.mark.parametrize(
    ("model", "beta"),
    [
        (bm.BoltzmannMachine([[0.0, 1.0], [1.0, 0.0]]), 1.0),
        (bm.models.ising((4, 4)), 0.25),
        (bm.models.ising((3, 3)), 0.25),
    ],
    ids=["pair", "4x4", "3x3"],
)
def test_linear_response_at_the_critical_point_is_not_believed(model: bm.BoltzmannMachine, beta: float) -> None:
    """There the response of mean field diverges: the bound stands, the covariance is not to be believed."""
    found = calm(bm.infer, model, "mean-field", beta=beta)
    assert found.log_z <= bm.infer(model, "exact", beta=beta).log_z + 1e-10
    assert found.covariance is None or not found.converged or np.abs(found.covariance).max() < 1e3


def test_mean_field_that_stops_early_says_so() -> None:
    with pytest.warns(bm.ConvergenceWarning, match="mean-field did not converge.*max_sweeps"):
        found = bm.infer(machine("visible"), "mean-field", max_sweeps=1)
    assert not found.converged
    assert found.log_z <= bm.infer(machine("visible"), "exact").log_z


@pytest.mark.parametrize("damping", [0.0, 0.5, 0.9])
def test_damping_changes_the_way_and_not_the_end(damping: float) -> None:
    model = machine("general", scale=0.3)
    plain, damped = (bm.infer(model, "mean-field", damping=d) for d in (0.0, damping))
    assert damped.log_z == pytest.approx(plain.log_z, abs=1e-9)
    np.testing.assert_allclose(damped.mean, plain.mean, atol=1e-8)


# Markov chains


@pytest.mark.parametrize(("kind", "units"), [("visible", "spin"), ("restricted", "binary"), ("general", "binary")])
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
def test_error_bars_of_chains_cover(kind: str, units: str, rule: str) -> None:
    model = machine(kind, units, seed=5, scale=0.35)
    truth = bm.infer(model, "exact")
    found = [calm(bm.infer, model, rule, seed=s, n_chains=8, n_sweeps=256, threads=1) for s in range(120)]
    assert_covers(np.array([np.abs(f.mean - truth.mean) < 1.96 * f.mean_error for f in found]))
    assert_covers(np.array([abs(f.energy - truth.energy) < 1.96 * f.energy_error for f in found]))
    assert np.mean([f.converged for f in found]) > 0.9


@pytest.mark.parametrize("start", ["random", "up"])
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
def test_error_bars_cover_on_a_flat_machine_from_any_start(rule: str, start: str) -> None:
    """No proposal is ever rejected there, so chains that share an order and a start must part all the same."""
    found = [
        calm(bm.infer, flat(6), rule, seed=s, initial=start, n_chains=16, n_sweeps=64, threads=1) for s in range(60)
    ]
    assert_covers(np.array([np.abs(f.mean) < 1.96 * f.mean_error for f in found]), most=1.0)


@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_moments_of_chains(kind: str, units: str, rule: str) -> None:
    """Five standard errors: one of 200 right means is further off once in 8000 changes of the stream."""
    model = machine(kind, units, scale=0.3, offset=3.0)
    truth = bm.infer(model, "exact", beta=0.9)
    found = bm.infer(model, rule, beta=0.9, n_chains=64, n_sweeps=512)
    assert found.converged
    assert np.all(np.abs(found.mean - truth.mean) < 5 * found.mean_error)
    assert abs(found.energy - truth.energy) < 5 * found.energy_error
    np.testing.assert_allclose(found.second_moment, truth.second_moment, atol=0.08)
    np.testing.assert_allclose(found.covariance, found.second_moment - np.outer(found.mean, found.mean), atol=1e-12)
    assert found.energy_variance == pytest.approx(truth.energy_variance, rel=0.15)
    assert found.log_z is None
    assert found.bound is None
    assert 0 < found.ess <= found.n_samples == 64 * 512


def test_trapped_chains_say_so() -> None:
    """A Hopfield machine far below its transition: each chain falls into the nearest pattern or its mirror."""
    stored = np.where(np.random.default_rng(0).random((3, 60)) < 0.5, -1, 1)
    with pytest.warns(bm.ConvergenceWarning, match="gibbs has not converged: r_hat.*chains disagree"):
        found = bm.infer(bm.models.hopfield(stored), "gibbs", beta=4.0, n_sweeps=500)
    assert not found.converged
    assert found.detail["r_hat"] > 1.5
    run = bm.sample(bm.models.hopfield(stored), beta=4.0, n_sweeps=100)
    overlaps = np.abs(run.states[-1] @ stored.T / 60).max(axis=1)
    assert np.median(overlaps) > 0.9


def test_burn_in_is_long_enough_from_a_cold_start() -> None:
    model = bm.models.curie_weiss(40, coupling=0.5)
    found = bm.infer(model, "gibbs", initial="up", n_chains=64, n_sweeps=200, burn_in="auto")
    assert found.detail["burn_in"] >= 64
    assert np.all(np.abs(found.mean) < 5 * found.mean_error)
    assert bm.infer(model, "gibbs", n_sweeps=100, burn_in=7).detail["burn_in"] == 7


@pytest.mark.parametrize("n_sweeps", [1, 2, 3, 64, 65, 67])
@pytest.mark.parametrize("method", ["gibbs", "sampled-states"])
def test_few_sweeps_are_legal(method: str, n_sweeps: int) -> None:
    """Nothing but ConvergenceWarning may come of it; from a start far off the burn-in uses up all its sweeps."""
    options = {"initial": "up"} if method == "gibbs" else {}
    found = calm(bm.infer, bm.models.curie_weiss(30, coupling=1.2), method, n_sweeps=n_sweeps, n_chains=4, **options)
    assert math.isfinite(found.energy)
    assert n_sweeps > 3 or method != "gibbs" or not found.converged


def test_chains_that_do_not_move_have_finite_numbers() -> None:
    """Frozen chains: the energy is the same in all samples, up to no rounding at all."""
    model = bm.BoltzmannMachine(np.zeros((3, 3)), [800.1, -900.7, 1000.3])
    found = bm.infer(model, "gibbs", n_chains=6, n_sweeps=333)
    assert found.converged
    assert found.energy == pytest.approx(-2701.1, abs=1e-9)
    assert found.detail["tau_int"] == 0.5
    assert found.ess == 6 * 333


# Clamping


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", SMALL)
def test_every_method_clamps(method: str, kind: str, units: str) -> None:
    model = machine(kind, units, scale=0.3)
    lo = -1 if units == "spin" else 0
    rows = np.array([[1, lo], [lo, lo], [1, 1]])
    found = calm(bm.infer, model, method, clamp=([0, model.n_units - 1], rows), **SMALL[method])
    truth = bm.infer(model, "exact", clamp=([0, model.n_units - 1], rows))
    assert found.mean.shape == (3, model.n_units)
    np.testing.assert_array_equal(found.mean[:, [0, -1]], rows)
    np.testing.assert_array_equal(found.covariance[:, 0], 0)
    np.testing.assert_allclose(found.mean, truth.mean, atol=0.25)
    np.testing.assert_allclose(found.energy, truth.energy, atol=0.5)
    if found.log_z is not None:
        assert np.all(found.log_z <= truth.log_z + 1e-10)
    if found.mean_error is not None:
        np.testing.assert_array_equal(found.mean_error[:, [0, -1]], 0)


@pytest.mark.parametrize("units", UNITS)
def test_ais_with_clamped_units_in_every_layer(units: str) -> None:
    model = machine("layers", units, seed=4)
    found, truth = (
        bm.infer(model, method, clamp=([0, 4, 6], [1, 1, 1]), **options)
        for method, options in (("ais", {"n_chains": 256, "n_betas": 200}), ("exact", {}))
    )
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error + 1e-6
    assert found.bound == "stochastic lower"


@pytest.mark.parametrize("method", ["mean-field", "sampled-states", "gibbs", "metropolis", "exact"])
@pytest.mark.parametrize("kind", KINDS)
def test_beta_zero_is_legal_everywhere(method: str, kind: str) -> None:
    model = machine(kind, "binary", offset=1.0)
    found = calm(bm.infer, model, method, beta=0.0)
    np.testing.assert_allclose(found.mean, 0.5, atol=0.05)
    if method in ("mean-field", "exact"):
        assert found.log_z == pytest.approx(model.n_units * math.log(2), abs=1e-12)
    truth = bm.infer(model, "exact", beta=0.0).energy
    assert found.energy == pytest.approx(truth, abs=5 * (found.energy_error or 0) + 1e-9) or method == "sampled-states"


# Side by side


def test_compare_holds_everything_against_exact() -> None:
    models = {"rbm": machine("restricted"), "deep": machine("layers", "binary")}
    methods = {
        "exact": {},
        "mean-field": {},
        "ais": {"n_betas": 100},
        "sampled-states": {"n_sweeps": 100},
        "gibbs": {"n_sweeps": 200},
    }
    found = calm(bm.compare, models, methods, beta=[0.5, 1.0], seed=3)
    assert len(found) == 2 * 2 * 5
    assert [(c.model, c.beta, c.method) for c in found.cells] == [
        (m, b, x) for m in models for b in (0.5, 1.0) for x in methods
    ]
    for row, cell in zip(found.table, found.cells, strict=True):
        truth = bm.infer(models[cell.model], "exact", beta=cell.beta)
        if cell.method in ("mean-field", "sampled-states", "exact"):
            assert row["log_z_off"] == cell.result.log_z - truth.log_z
        if cell.result.bound == "lower":
            assert row["bound_kept"] is True
        assert row["mean_off"] == np.abs(cell.result.mean - truth.mean).max()
    alone = bm.infer(models["rbm"], "ais", beta=0.5, seed=3, n_betas=100)
    helpers.assert_same_inference(found["ais"], alone)
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(found)
    assert "off by" in lines[0]
    with pytest.raises(KeyError, match="no cell has method 'tap'"):
        found["tap"]


def test_compare_without_exact_has_nothing_to_compare() -> None:
    row = bm.compare(machine("visible"), "mean-field").table[0]
    assert row["log_z_off"] is row["bound_kept"] is row["mean_off"] is None


# Refusals


@pytest.mark.parametrize(
    ("error", "text", "method", "options"),
    [
        (ValueError, 'ais needs a layered machine.*"exact"', "ais", {}),
        (TypeError, "gibbs has no option 'n_sweps'. Did you mean 'n_sweeps'", "gibbs", {"n_sweps": 3}),
        (TypeError, "mean-field has no option 'n_chains'", "mean-field", {"n_chains": 3}),
        (ValueError, "n_starts must be at least 1", "mean-field", {"n_starts": 0}),
        (ValueError, "damping must be from 0 to below 1; got 1", "mean-field", {"damping": 1.0}),
        (ValueError, "damping must be at least 0", "mean-field", {"damping": -0.1}),
        (ValueError, "tolerance must be above 0", "mean-field", {"tolerance": 0.0}),
        (ValueError, "max_sweeps must be at least 1", "mean-field", {"max_sweeps": 0}),
        (ValueError, "n_chains must be at least 2; got 1", "sampled-states", {"n_chains": 1}),
        (ValueError, "n_sweeps must be at least 1; got -5", "sampled-states", {"n_sweeps": -5}),
        (ValueError, r"n_sweeps // thin must be at least 1; got 3 // 4", "sampled-states", {"n_sweeps": 3, "thin": 4}),
        (ValueError, "n_sweeps must be at least 1; got 0", "gibbs", {"n_sweeps": 0}),
        (ValueError, r"n_sweeps // thin must be at least 1; got 3 // 4", "gibbs", {"n_sweeps": 3, "thin": 4}),
        (ValueError, "n_chains must be at least 1; got 0", "gibbs", {"n_chains": 0}),
        (TypeError, "burn_in must be a whole number; got 'long'", "gibbs", {"burn_in": "long"}),
        (ValueError, "burn_in must be at least 0", "sampled-states", {"burn_in": -1}),
        (ValueError, "order must be one of .*Did you mean 'permuted'", "metropolis", {"order": "permutted"}),
        (ValueError, "initial must be", "gibbs", {"initial": "hot"}),
    ],
)
def test_bad_options_are_named(error: type[Exception], text: str, method: str, options: dict[str, object]) -> None:
    with pytest.raises(error, match=text):
        bm.infer(machine("visible"), method, **options)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("n_chains must be at least 1", {"n_chains": 0}),
        ("n_betas must be at least 2", {"n_betas": 1}),
        ("start must be one of .*Did you mean 'uniform'", {"start": "uniforn"}),
        ("betas must increase from 0.0 to 1.0", {"betas": [0, 0.5, 0.4, 1]}),
        ("betas must increase from 0.0 to 1.0", {"betas": [0.1, 1]}),
        ("betas must increase from 0.0 to 1.0", {"betas": [0, 0.9]}),
        ("betas must be finite", {"betas": [0, np.nan, 1]}),
    ],
)
def test_bad_paths_are_named(text: str, options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=text):
        bm.infer(machine("restricted"), "ais", **options)


@pytest.mark.parametrize(
    ("error", "text", "arguments"),
    [
        (ValueError, "compare needs at least one model and one method", (machine("visible"), [])),
        (ValueError, "compare needs at least one model and one method", ({}, ["exact"])),
        (ValueError, "method must be one of .*Did you mean 'mean-field'", (machine("visible"), ["mean_field"])),
        (
            TypeError,
            "gibbs has no option 'sweeps'. Did you mean 'n_sweeps'",
            (machine("visible"), {"gibbs": {"sweeps": 1}}),
        ),
        (TypeError, "model must be a BoltzmannMachine; got int", ({"a": 3}, ["exact"])),
        (TypeError, "model must be a BoltzmannMachine", (3, ["exact"])),
    ],
)
def test_bad_comparisons_are_refused(error: type[Exception], text: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(error, match=text):
        bm.compare(*arguments)
