"""Sampled states against exact sums: a lower bound, and a corrected value that is covered."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastbm as bm
from tests.support.machines import KINDS, UNITS, assert_covers, calm, flat, machine


@pytest.mark.parametrize("units", ["binary", pytest.param("spin", marks=pytest.mark.slow)])
def test_sampled_states_are_a_lower_bound_and_the_corrected_value_is_covered(units: str) -> None:
    model = bm.models.random_machine(10, scale=0.7, bias_scale=0.2, units=units, seed=1)
    truth = bm.infer(model, "exact").log_z
    options = {"n_chains": 32, "n_sweeps": 25, "threads": 1, "witness": False}
    found = [calm(bm.infer, model, "sampled-states", seed=s, **options) for s in range(200)]
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
    assert "good_turing_missing_mass" not in calm(bm.infer, cold, "sampled-states", n_chains=8, n_sweeps=500).detail
    missing = calm(bm.infer, flat(10), "sampled-states", n_chains=2, n_sweeps=500).detail["good_turing_missing_mass"]
    assert missing == pytest.approx(math.exp(-500 / 1024), abs=0.1)  # 500 draws from 1024 states alike


def test_annealed_states_at_beta_zero_are_free_ones() -> None:
    model = bm.BoltzmannMachine(np.full((3, 3), 5.0) - 5.0 * np.eye(3))
    found = calm(bm.infer, model, "sampled-states", beta=0.0, source="annealing", n_chains=64, n_sweeps=4)
    assert found.log_z == pytest.approx(3 * math.log(2.0))
    assert found.energy == pytest.approx(0.0, abs=1e-12)


def test_annealed_states_give_a_bound_alone() -> None:
    model = bm.models.random_machine(14, scale=1.5, seed=3)
    truth = bm.infer(model, "exact", beta=2.0).log_z
    with pytest.warns(bm.ConvergenceWarning, match="were annealed"):
        found = bm.infer(model, "sampled-states", beta=2.0, source="annealing", n_chains=16, n_sweeps=100)
    assert found.bound == "lower" and truth - 0.1 < found.log_z <= truth + 1e-10
    assert found.detail["log_z_corrected"] is None and not found.converged
    lowest = bm.infer(model, "exact", n_lowest=1).detail["lowest energies"][0]
    assert found.detail["lowest energy"] == pytest.approx(lowest)


def test_tempered_states_are_covered_where_plain_chains_are_trapped() -> None:
    pattern = np.random.default_rng(0).choice([-1.0, 1.0], 14)
    weights = 0.4 * np.outer(pattern, pattern)
    np.fill_diagonal(weights, 0.0)
    model = bm.BoltzmannMachine(weights, 0.05 * pattern)  # two wells, of different depth
    truth = bm.infer(model, "exact").log_z
    options = {"n_chains": 16, "n_sweeps": 400, "source": "tempering", "n_betas": 8, "threads": 1}
    found = [calm(bm.infer, model, "sampled-states", seed=s, **options) for s in range(8)]
    assert all(f.log_z <= truth + 1e-10 for f in found)
    z = [(f.detail["log_z_corrected"] - truth) / f.detail["log_z_corrected_error"] for f in found]
    assert np.abs(z).max() < 4


def test_a_small_set_keeps_the_lowest_states() -> None:
    model = bm.models.random_machine(16, scale=0.3, seed=2)
    truth = bm.infer(model, "exact", n_lowest=300)
    with pytest.warns(bm.ConvergenceWarning, match=r"the bound lies 3\.\d* nats below the estimate"):
        found = bm.infer(model, "sampled-states", n_chains=128, n_sweeps=1000, max_gigabytes=1e-6)
    assert 300 < found.detail["n_states"] < 1000
    assert found.log_z < truth.log_z
    assert found.detail["states up to"] > truth.detail["lowest energies"][-1]
    listed = np.exp(-truth.detail["lowest energies"]).sum()
    assert found.log_z > np.log(listed), "the lowest states must all be in the set"
    assert abs(found.detail["log_z_corrected"] - truth.log_z) < 4 * found.detail["log_z_corrected_error"]
    assert "good_turing_missing_mass" not in found.detail


def test_a_bound_far_below_its_own_estimate_has_not_converged() -> None:
    model = bm.models.sherrington_kirkpatrick(20, seed=1)
    with pytest.warns(bm.ConvergenceWarning, match="sampled-states has not converged: .*nats below the estimate"):
        found = bm.infer(model, "sampled-states", beta=0.25, n_sweeps=200)
    assert found.converged is False
    corrected, error = found.detail["log_z_corrected"], found.detail["log_z_corrected_error"]
    assert corrected - found.log_z > 3
    assert f"{found.log_z:.10g}  (lower)" in str(found)
    assert f"{corrected:.10g} +- {error:.2g}  (estimate)" in str(found)


def test_one_sample_among_the_states_visited_tells_nothing() -> None:
    """The bound is 9 nats low, and the error of an estimate by one sample so large that both agree."""
    model = bm.BoltzmannMachine([0.32 * np.random.default_rng(0).normal(size=(43, 2))])
    found = calm(bm.infer, model, "sampled-states", beta=1.7, seed=6, threads=1)
    assert found.detail["probability"] == 1 / 32_000
    assert found.converged is None and "error of 3.7 cannot tell" in found.detail["doubt"]


def test_chains_that_disagree_are_told_and_without_a_witness_nothing_is_sure() -> None:
    trapped = bm.models.random_machine(14, scale=1.5, seed=3)
    with pytest.warns(bm.ConvergenceWarning, match="sampled-states has not converged: r_hat.*the chains disagree"):
        assert bm.infer(trapped, "sampled-states", beta=2.0, n_chains=8, n_sweeps=100).converged is False
    options = {"beta": 0.5, "n_sweeps": 600}
    assert bm.infer(machine("visible", scale=0.3), "sampled-states", **options).converged is True
    found = bm.infer(machine("visible", scale=0.3), "sampled-states", **options, witness=False)
    assert found.converged is None and "cannot tell whether it converged" in str(found)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"source": "chain"}, "chains"),
        ({"n_betas": 4}, 'source="tempering"'),
        ({"max_gigabytes": 0.0}, "max_gigabytes"),
        ({"n_chains": 1}, "n_chains"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        bm.infer(flat(5), "sampled-states", **options)
