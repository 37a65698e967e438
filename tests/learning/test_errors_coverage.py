"""Error bars of learned couplings hold the planted truth as often as they claim."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastbm as bm
from fastbm.learning.errors.bootstrap import bootstrap_errors
from fastbm.learning.errors.errors import Errors
from fastbm.learning.errors.fisher import fisher_errors
from fastbm.learning.moments import Parameters
from tests.support import machines
from tests.support.combinations import each
from tests.support.errors import N_ROWS, planted
from tests.support.learning import as_vector, coupled_pairs
from tests.support.machines import UNITS, assert_covers, draw
from tests.twins import errors as twin


def statistics(model: bm.BoltzmannMachine) -> np.ndarray:
    """phi of all states, by the twin's order of pairs."""
    states = np.array(machines.patterns(model.n_units, model.units))
    return np.array([twin.statistics(state, coupled_pairs(model)) for state in states.tolist()], float)


def newton(
    phi: np.ndarray, wanted: np.ndarray, theta: np.ndarray, beta: float = 1.0, penalty: np.ndarray | float = 0.0
) -> np.ndarray:
    """The parameters at which all moments are as wanted: maximum likelihood, or penalised likelihood."""
    penalty = np.broadcast_to(penalty, theta.shape)
    for _ in range(30):
        p = np.exp(beta * (phi @ theta))
        p /= p.sum()
        mean = p @ phi
        covariance = (phi.T * p) @ phi - np.outer(mean, mean)
        slope = beta * (wanted - mean) - penalty * theta
        step = np.linalg.solve(beta**2 * covariance + np.diag(penalty), slope)
        theta = theta + step
        if np.abs(step).max() < 1e-9:
            return theta
    raise AssertionError("the fit has not converged")


class Planted:
    """Sets of rows from one machine, kept as counts of its states, and the fit of each."""

    def __init__(self, units: str, beta: float = 1.0) -> None:
        self.model, self.beta = planted(units), beta
        self.truth, self.phi = as_vector(self.model), statistics(self.model)
        log_p = beta * (self.phi @ self.truth)
        self._p = np.exp(log_p - np.logaddexp.reduce(log_p))
        self._n_pairs = len(self.truth) - self.model.n_units

    def counts(self, seed: int) -> np.ndarray:
        return np.random.default_rng([seed, 77]).multinomial(N_ROWS, self._p)

    def fit(self, counts: np.ndarray, l2: float = 0.0, l2_bias: float = 0.0) -> np.ndarray:
        penalty = np.repeat([l2, l2_bias], [self._n_pairs, self.model.n_units])
        return newton(self.phi, counts @ self.phi / counts.sum(), self.truth, self.beta, penalty)

    def parameters(self, theta: np.ndarray) -> Parameters:
        return Parameters(self.model.couplings.from_vector(theta[: self._n_pairs]), theta[self._n_pairs :])

    def learned(self, theta: np.ndarray) -> bm.BoltzmannMachine:
        return self.parameters(theta).machine(self.model)

    def vector(self, errors: Errors) -> np.ndarray:
        return np.concatenate([self.model.couplings.to_vector(errors.weights), errors.bias])

    def inside(self, theta: np.ndarray, errors: Errors) -> np.ndarray:
        return np.abs(theta - self.truth) <= 1.96 * self.vector(errors)


def covered(units: str, n_sets: int, method: str, beta: float = 1.0) -> np.ndarray:
    sets = Planted(units, beta)
    inside = []
    for k in range(n_sets):
        counts = sets.counts(k)
        theta = sets.fit(counts)
        if method == "bootstrap":
            states = np.repeat(np.arange(len(counts)), counts)

            def refit(times: np.ndarray, states: np.ndarray = states) -> Parameters:
                drawn = np.bincount(states, weights=times, minlength=len(sets.phi))
                return sets.parameters(sets.fit(drawn))

            errors = bootstrap_errors(refit, N_ROWS, n_resamples=60, seed=k)
        else:
            rows = np.repeat(machines.patterns(6, units), counts, axis=0)
            options = {"exact": {}, "monte-carlo": {"n_samples": 2_000}, "rows": {"rows": rows}}[method]
            errors = fisher_errors(sets.learned(theta), n_rows=N_ROWS, beta=beta, method=method, seed=k, **options)
        inside.append(sets.inside(theta, errors))
    return np.array(inside)


@each(method=["exact", "rows"], units=UNITS)
def test_intervals_of_information_hold_the_truth(method: str, units: str) -> None:
    assert_covers(covered(units, 200, method, beta=0.8), 0.9, 0.99)


@each(method=["monte-carlo", "bootstrap"], units=UNITS)
def test_other_intervals_hold_the_truth(units: str, method: str) -> None:
    assert_covers(covered(units, 20, method), 0.9, 0.99)


@pytest.mark.slow
@each(method=["monte-carlo", "bootstrap"], units=UNITS[::-1])
def test_other_intervals_hold_the_truth_over_many_sets(units: str, method: str) -> None:
    assert_covers(covered(units, 100, method), 0.9, 0.99)


def test_intervals_of_a_fit_hold_the_truth() -> None:
    model = planted("binary", seed=8)
    inside = []
    for k in range(6):
        run = bm.fit(draw(model, N_ROWS, seed=k), method="exact", units="binary", evaluate="none", epochs=100)
        errors = fisher_errors(run.model, n_rows=N_ROWS)
        off = np.triu_indices(6, 1)
        gap = np.concatenate([(run.model.weights - model.weights)[off], run.model.bias - model.bias])
        inside.append(np.abs(gap) <= 1.96 * np.concatenate([errors.weights[0][off], errors.bias]))
    assert_covers(np.array(inside), 0.88, 0.995)


@pytest.mark.parametrize("units", UNITS)
def test_errors_of_penalised_estimates_are_their_deviation(units: str) -> None:
    sets, penalty = Planted(units, beta=0.8), {"l2": 0.02, "l2_bias": 0.01}
    found = np.array([sets.fit(sets.counts(k), **penalty) for k in range(400)])
    errors = [
        sets.vector(fisher_errors(sets.learned(theta), n_rows=N_ROWS, beta=0.8, **penalty)) for theta in found[:40]
    ]
    ratios = np.mean(errors, axis=0) / found.std(axis=0, ddof=1)
    # a deviation of 400 estimates is known to 3.5 %
    assert abs(ratios.mean() - 1) < 0.04 and np.abs(ratios - 1).max() < 0.16
    plain = sets.vector(fisher_errors(sets.model, n_rows=N_ROWS, beta=0.8))
    assert np.mean(plain / found.std(axis=0)) > 1.03  # what the penalty takes away is seen


def test_couplings_that_a_penalty_pulls_beyond_their_errors_are_counted() -> None:
    """As they are where the fit without it ends; errors of penalised estimates leave that out."""
    rows, off = draw(planted("binary", seed=8), 40_000, seed=0), np.triu_indices(6, 1)
    about: dict[str, Any] = {"units": "binary", "evaluate": "none", "errors": "fisher"}
    free = bm.fit(rows, "exact", **about).model.weights
    with pytest.warns(bm.ConvergenceWarning, match=r"the penalty moves \d+ couplings") as told:
        run = bm.fit(rows, "exact", l2=1e-3, **about)
    pulled = np.abs(run.model.weights - free)[off] > run.errors["weights"][-1][off]
    assert f"moves {pulled.sum()} couplings" in str(told[0].message) and 3 <= pulled.sum() < 15
    bm.fit(rows, "exact", l2=1e-6, **about)  # without a warning
    rows[rows[:, 0] == 1, 1] = 0  # nor is there one of what only the penalty keeps finite
    with pytest.warns(bm.ConvergenceWarning, match=r"the penalty moves \d+ couplings by .*, weights\[0, 2\],"):
        bm.fit(rows, "exact", l2=1e-3, **about)
