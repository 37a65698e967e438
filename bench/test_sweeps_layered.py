"""Block Gibbs sweeps of a restricted machine, 784 x 500 binary units, one chain to 128: sweeps of all a second."""

from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastbm as bm

from . import numpy_peers

N_VISIBLE, N_HIDDEN, CHAINS, SWEEPS = 784, 500, 128, 100
numbers = pytest.mark.parametrize("n_chains", [1, 8, CHAINS])


def about(n_chains):
    """Return the label, and how many sweeps are as long as those of many chains."""
    chains = "one chain" if n_chains == 1 else f"{n_chains} chains"
    return f"RBM {N_VISIBLE} x {N_HIDDEN}, Gibbs, {chains}", SWEEPS * max(1, CHAINS // (4 * n_chains))


def machine():
    weights = np.random.default_rng(5).normal(scale=0.05, size=(N_VISIBLE, N_HIDDEN))
    return bm.models.restricted(weights=weights, visible_bias=np.full(N_VISIBLE, -1.0))


def check(energies):
    """The mean energy must be that of many chains of the NumPy peer started elsewhere, up to six standard errors."""
    model = machine()
    truth = model.energy(numpy_peers.block_gibbs(*model.weights, *model.bias, CHAINS, SWEEPS, seed=9))
    assert abs(energies.mean() - truth.mean()) < 6 * np.sqrt(truth.var() * (1 / len(energies) + 1 / CHAINS))


@numbers
def test_fastbm(n_chains, threads, work, effort):
    model, (workload, sweeps) = machine(), about(n_chains)
    sweeps = effort(sweeps)

    def run(n_sweeps):
        return bm.sample(model, n_chains=n_chains, n_sweeps=n_sweeps, thin=n_sweeps, burn_in=0, threads=threads)

    found = work(partial(run, sweeps), sweeps, "sweeps", workload=workload, threads=threads, warm_up=partial(run, 2))
    check(found.energy[-1])


@numbers
def test_numpy(n_chains, threads, work, effort):
    model, (workload, sweeps) = machine(), about(n_chains)
    sweeps, run = effort(sweeps), partial(numpy_peers.block_gibbs, *model.weights, *model.bias, n_chains)
    with threadpool_limits(threads, "blas"):
        states = work(
            partial(run, sweeps),
            sweeps,
            "sweeps",
            workload=workload,
            program="minimal NumPy",
            threads=threads,
            warm_up=partial(run, 2),
        )
    check(model.energy(states))
