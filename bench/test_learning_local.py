"""Pseudo-likelihood of visible machines, against one logistic regression a unit."""

from functools import cache, partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastbm as bm

from .machine import installed

SAMPLES = 10_000
SIZES = [20, 100]
NO_RECORDS = {"weights_every": 0, "monitor_every": 1 << 30, "evaluate": "none"}


def workload(n):
    return f"pseudo-likelihood, n = {n}, {SAMPLES:,} rows"


@cache
def planted(n):
    """Couplings of n spins with strengths of 0.5 / sqrt(n), and rows (10,000, n)."""
    model = bm.models.sherrington_kirkpatrick(n, seed=1)
    run = bm.sample(model, beta=0.5, n_chains=500, n_sweeps=200, burn_in=200, thin=10, seed=2)
    return 0.5 * model.weights, run.states.reshape(SAMPLES, n)


def error(n, weights):
    """Root mean square error of the couplings."""
    return float(np.sqrt(np.mean((weights - planted(n)[0])[np.triu_indices(n, 1)] ** 2)))


def check(n, weights):
    """No estimator without prior knowledge errs by less than about 1 / sqrt(rows), nor should one by much more."""
    assert error(n, weights) < 1.5 / np.sqrt(SAMPLES)


@pytest.mark.parametrize(
    ("method", "n"),
    [*((method, n) for method in ("pseudolikelihood", "rise", "log-rise") for n in SIZES), ("pseudolikelihood", 1000)],
)
def test_local_rules_fastbm(n, method, threads, work):
    _, rows = planted(n)
    run = partial(bm.fit, rows, method=method, threads=threads, **NO_RECORDS)
    variant = "" if method == "pseudolikelihood" else method
    found = work(run, 1, "fits", workload=workload(n), variant=variant, threads=threads)
    assert found.converged
    check(n, found.model.weights)


@installed("sklearn")
@pytest.mark.parametrize("n", SIZES)
def test_local_rules_sklearn(n, threads, work):
    from sklearn.linear_model import LogisticRegression

    _, rows = planted(n)
    rows = rows.astype(float)

    def run():
        """Each unit by all others; the two estimates of a coupling are averaged. A log-odds is 2 W s + 2 b."""
        weights = np.zeros((n, n))
        for i in range(n):
            others = np.delete(np.arange(n), i)
            weights[i, others] = LogisticRegression(C=np.inf).fit(rows[:, others], rows[:, i]).coef_[0] / 2
        return (weights + weights.T) / 2

    with threadpool_limits(threads, "blas"):
        found = work(run, 1, "fits", workload=workload(n), program="scikit-learn", threads=threads)
    check(n, found)
    ours = bm.fit(planted(n)[1], method="pseudolikelihood", **NO_RECORDS).model.weights
    assert error(n, ours) < 1.02 * error(n, found)
