"""What every method takes, clamped units and beta = 0 among it, and which options are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fastbm as bm
from fastbm.inference.methods import METHODS
from tests.support.combinations import each
from tests.support.machines import KINDS, UNITS, calm, machine

SMALL = {
    "mean-field": {},
    "tap": {},
    "bethe": {},
    "sampled-states": {"n_chains": 16, "n_sweeps": 60},
    "gibbs": {"n_chains": 16, "n_sweeps": 200},
    "ais": {"n_betas": 50},
    "reverse-ais": {"n_betas": 50},
    "tempering": {"n_sweeps": 100},
    "population-annealing": {"n_chains": 512, "n_sweeps": 2},
}


@pytest.mark.parametrize("method", ["gibbs", "ais"])
def test_one_pattern_is_the_machine_that_it_leaves(method: str) -> None:
    model, fixed = machine("visible", "spin", scale=0.3), [1, 3]
    free = np.delete(np.arange(model.n_units), fixed)
    weights = model.weights
    left = bm.BoltzmannMachine(
        weights[np.ix_(free, free)], model.bias[free] + weights[np.ix_(free, fixed)].sum(axis=1),
        offset=model.offset - model.bias[fixed].sum() - weights[1, 3], units="spin",
    )  # fmt: skip
    found = calm(bm.infer, model, method, clamp=(fixed, np.ones((1, 2))), seed=3, **SMALL[method])
    alone = calm(bm.infer, left, method, seed=3, **SMALL[method])
    np.testing.assert_allclose(found.energy[0], alone.energy, rtol=1e-12)
    np.testing.assert_allclose(found.mean[0, free], alone.mean, rtol=1e-12)


@each(method=[*SMALL] * 2, kind=KINDS, units=UNITS)
def test_every_method_clamps(method: str, kind: str, units: str) -> None:
    model = machine(kind, units, scale=0.3)
    lo = -1 if units == "spin" else 0
    rows = np.array([[1, lo], [lo, lo], [1, 1]])
    found = calm(bm.infer, model, method, clamp=([0, model.n_units - 1], rows), **SMALL[method])
    truth = bm.infer(model, "exact", clamp=([0, model.n_units - 1], rows))
    if method != "gibbs":
        errors = 0.5 if found.log_z_error is None else 4 * np.asarray(found.log_z_error)
        assert np.all(np.abs(found.log_z - truth.log_z) < errors)
    if method in ("mean-field", "sampled-states"):
        assert np.all(found.log_z <= truth.log_z + 1e-10)
    if method == "reverse-ais":  # which gives no moments
        return
    assert found.mean.shape == (3, model.n_units)
    np.testing.assert_array_equal(found.mean[:, [0, -1]], rows)
    np.testing.assert_array_equal(found.covariance[:, 0], 0)
    np.testing.assert_allclose(found.mean, truth.mean, atol=0.25)
    np.testing.assert_allclose(found.energy, truth.energy, atol=0.5)
    if found.mean_error is not None:
        np.testing.assert_array_equal(found.mean_error[:, [0, -1]], 0)


@each(method=[name for name in METHODS if name != "importance-sampling"], kind=KINDS)
def test_beta_zero_is_legal_everywhere(method: str, kind: str) -> None:
    model = machine(kind, "binary", offset=1.0)
    found = calm(bm.infer, model, method, beta=0.0)
    if found.log_z is not None and method != "sampled-states":
        assert found.log_z == pytest.approx(model.n_units * math.log(2), abs=1e-12)
    if method == "reverse-ais":
        return
    errors = np.maximum(0.05, 0 if found.mean_error is None else 5 * found.mean_error)
    assert np.all(np.abs(found.mean - 0.5) < errors)
    truth = bm.infer(model, "exact", beta=0.0).energy
    assert found.energy == pytest.approx(truth, abs=5 * (found.energy_error or 0) + 1e-9) or method == "sampled-states"


@pytest.mark.parametrize(
    ("error", "text", "method", "options"),
    [
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
        (ValueError, "n_chains must be at most 9007199254740992; got 10{30}", "gibbs", {"n_chains": 10**30}),
        (ValueError, "n_betas must be at most", "ais", {"n_betas": 10**30}),
        (TypeError, "bracket must be True or False; got 'both'", "ais", {"bracket": "both"}),
        (ValueError, "source must be one of .*Did you mean 'exact'", "ais", {"source": "exat", "bracket": True}),
        (ValueError, "betas say all that n_betas would", "ais", {"betas": [0, 0.5, 1], "n_betas": 3}),
        (ValueError, "betas say all that path would", "reverse-ais", {"betas": [0, 0.5, 1], "path": "linear"}),
        (ValueError, "source is for the way down .* bracket=True", "ais", {"source": "gibbs"}),
        (ValueError, "n_sweeps is for the way down", "ais", {"n_sweeps": 10, "bracket": False}),
        (ValueError, "n_sweeps is for the chains of", "reverse-ais", {"source": "exact", "n_sweeps": 10}),
        (ValueError, "burn_in is for chains at", "sampled-states", {"source": "annealing", "burn_in": 3}),
        (ValueError, "n_sweeps must be at least 2; got 0", "ais", {"n_sweeps": 0, "bracket": True, "source": "gibbs"}),
        (ValueError, r"gibbs does not fit into memory .* Lower n_chains or n_sweeps", "gibbs", {"n_chains": 10**15}),
    ],
)
def test_bad_options_are_named(error: type[Exception], text: str, method: str, options: dict[str, object]) -> None:
    with pytest.raises(error, match=text):
        bm.infer(machine("visible"), method, **options)


ALL_PAIRS = ("sampled-states", "ais", "gibbs", "metropolis", "tempering", "population-annealing")


@pytest.mark.parametrize("method", ALL_PAIRS)
def test_pairs_of_too_many_units_are_refused_at_once(method: str) -> None:
    lattice = bm.models.edwards_anderson((150, 150))
    with pytest.raises(ValueError, match=r"second moments of 22500 units would take 4\.05 GB"):
        bm.infer(lattice, method)
    with pytest.raises(ValueError, match="second moments of 22500 units"):  # clamped or not: they cover all units
        bm.infer(lattice, method, clamp=(np.arange(22_499), np.ones(22_499)))


@pytest.mark.parametrize("method", ["ais", "population-annealing"])
def test_units_that_hardly_ever_flip_have_an_error_bar(method: str) -> None:
    model = bm.models.random_machine(9, seed=1)
    found = calm(bm.infer, model, method, beta=50.0, **SMALL[method])
    truth = bm.infer(model, "exact", beta=50.0)
    assert np.all(found.mean_error > 1e-4)
    assert np.all(np.abs(found.mean - truth.mean) < 4 * found.mean_error)


def test_an_easy_pattern_says_nothing_of_the_next() -> None:
    """A unit that is off switches 15 others off, and on switches them on together."""
    n, weights = 16, np.full((16, 16), 6.0)
    np.fill_diagonal(weights, 0.0)
    weights[0, 1:] = weights[1:, 0] = 30.0
    model = bm.BoltzmannMachine(weights, np.append(0.0, np.full(n - 1, -71.0)), units="binary")
    clamp = ([0], [[0], [1], [1]])
    truth = bm.infer(model, "exact", clamp=clamp)
    for method in ("ais", "reverse-ais"):
        found = calm(bm.infer, model, method, clamp=clamp)
        assert np.abs(found.log_z - truth.log_z).max() < 0.1 or found.converged is False


def test_warnings_of_patterns_are_told_once_with_the_first() -> None:
    model = bm.models.sherrington_kirkpatrick(24, seed=1)
    with pytest.warns(bm.ConvergenceWarning, match=r"^clamped pattern 0: .* So it is with 1 pattern more\.$"):
        bm.infer(model, "mean-field", clamp=([0], [[1], [-1]]), max_sweeps=2)
