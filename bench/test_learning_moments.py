"""Maximum likelihood by Monte Carlo, until no first or second moment misses the data's by much more than 0.02.

All programs take the same steps: persistent chains, a rate that falls as 1 / (1 + 9 x), x the part that is over. The
rate of 1/2 is about the inverse curvature of couplings that are not strong; the fall averages the chains' noise away.
"""

from functools import cache, partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastbm as bm

from . import numpy_peers, peers

SAMPLES = 10_000
SIZES = [20, 100]
CHAINS, RATE = 1024, 0.5
STEPS, SWEEPS = {20: 30, 100: 40}, {20: 2, 100: 4}  # the fewer moments, the smaller the largest of their errors
LARGEST = 0.025  # 0.02, and the noise of the look at it
NO_RECORDS = {"weights_every": 0, "monitor_every": 1 << 30, "evaluate": "none"}


def settings(n):
    """Options of `fit`."""
    chains = {"n_chains": CHAINS, "n_sweeps": SWEEPS[n], "batch_size": SAMPLES}
    return {"method": "pcd", "epochs": STEPS[n], "learning_rate": RATE, "schedule": "inverse", **chains, **NO_RECORDS}


def workload(n):
    return f"Monte Carlo, n = {n}, {SAMPLES:,} rows, to a moment error of 0.02"


@cache
def rows(n):
    """Rows (10,000, n) of spins with planted couplings of strength 0.5 / sqrt(n)."""
    model = bm.models.sherrington_kirkpatrick(n, seed=1)
    run = bm.sample(model, beta=0.5, n_chains=500, n_sweeps=200, burn_in=200, thin=10, seed=2)
    return run.states.reshape(SAMPLES, n)


def check(n, weights, bias):
    """The largest difference of a moment, by exact sums, or by 400,000 samples that scatter by 0.0016."""
    if n <= 20:
        _, mean, second = numpy_peers.enumerate_blocked(weights, bias, True)
    else:
        model = bm.BoltzmannMachine(weights, bias, units="spin")
        run = bm.sample(model, n_chains=2_000, n_sweeps=1_000, burn_in=100, thin=5, seed=9)
        states = run.states.reshape(-1, n).astype(np.float32)
        mean, second = states.mean(axis=0), states.T @ states / len(states)
    data = rows(n).astype(float)
    missed = np.abs(second - data.T @ data / SAMPLES)
    np.fill_diagonal(missed, 0.0)
    assert max(missed.max(), np.abs(mean - data.mean(axis=0)).max()) < LARGEST


@pytest.mark.parametrize("n", SIZES)
def test_monte_carlo_fastbm(n, threads, work):
    run = partial(bm.fit, rows(n), threads=threads, **settings(n))
    found = work(run, 1, "fits", workload=workload(n), threads=threads)
    check(n, found.model.weights, found.model.bias)


@pytest.mark.parametrize("n", SIZES)
def test_monte_carlo_numba(n, threads, work):
    given = rows(n).astype(float)
    # a step sees as many samples, of one sweep of more chains: those of successive sweeps it would have to add up
    run = partial(peers.persistent_chains, given, STEPS[n], CHAINS * SWEEPS[n], RATE, threads)
    with threadpool_limits(1, "blas"):  # products are small
        weights, bias = work(run, 1, "fits", workload=workload(n), program="plain Numba", threads=threads)
    check(n, weights, bias)
