"""Sampled states against exact sums: a lower bound, and a corrected value that is covered."""

from __future__ import annotations

import math

import helpers
import numpy as np
import pytest
from helpers import KINDS, UNITS, assert_covers, flat, machine

import fastbm as bm

end_threads = helpers.end_threads


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
