"""Annealed importance sampling against exact sums: unbiased, with error bars that cover."""

# Coverage: 95 % intervals over 100 seeds hold the truth in 88 to 99.5 % of cases. Unbiasedness and agreement: within
# four standard errors, which fails one right estimate in 16000; seeds are fixed.

from __future__ import annotations

import math

import helpers
import numpy as np
import pytest
from helpers import UNITS, assert_covers, calm, machine

import fastbm as bm

end_threads = helpers.end_threads

SEEDS = range(100)
LAYERED = ("restricted", "layers")


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


@pytest.mark.parametrize("units", UNITS)
def test_ais_with_clamped_units_in_every_layer(units: str) -> None:
    model = machine("layers", units, seed=4)
    found, truth = (
        bm.infer(model, method, clamp=([0, 4, 6], [1, 1, 1]), **options)
        for method, options in (("ais", {"n_chains": 256, "n_betas": 200}), ("exact", {}))
    )
    assert abs(found.log_z - truth.log_z) < 4 * found.log_z_error + 1e-6
    assert found.bound == "stochastic lower"


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
