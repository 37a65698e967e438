"""Block Gibbs sweeps of a restricted machine, 784 x 500 binary units, 128 chains: sweeps of all chains per second."""

from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import fastbm as bm

from . import numpy_peers

N_VISIBLE, N_HIDDEN, CHAINS, SWEEPS = 784, 500, 128, 100
WORKLOAD = f"RBM {N_VISIBLE} x {N_HIDDEN}, Gibbs, {CHAINS} chains"


def machine():
    weights = np.random.default_rng(5).normal(scale=0.05, size=(N_VISIBLE, N_HIDDEN))
    return bm.models.restricted(weights=weights, visible_bias=np.full(N_VISIBLE, -1.0))


def check(energies):
    """The mean energy must be that of the NumPy peer started elsewhere, up to six standard errors."""
    model = machine()
    truth = model.energy(numpy_peers.block_gibbs(*model.weights, *model.bias, CHAINS, SWEEPS, seed=9))
    assert abs(energies.mean() - truth.mean()) < 6 * np.sqrt((energies.var() + truth.var()) / CHAINS)


def test_fastbm(threads, work, effort):
    model, sweeps = machine(), effort(SWEEPS)

    def run(n_sweeps):
        return bm.sample(model, n_chains=CHAINS, n_sweeps=n_sweeps, thin=n_sweeps, burn_in=0, threads=threads)

    found = work(partial(run, sweeps), sweeps, "sweeps", workload=WORKLOAD, threads=threads, warm_up=partial(run, 2))
    check(found.energy[-1])


def test_numpy(threads, work, effort):
    model, sweeps = machine(), effort(SWEEPS)
    run = partial(numpy_peers.block_gibbs, *model.weights, *model.bias, CHAINS)
    with threadpool_limits(threads, "blas"):
        states = work(
            partial(run, sweeps),
            sweeps,
            "sweeps",
            workload=WORKLOAD,
            program="minimal NumPy",
            threads=threads,
            warm_up=partial(run, 2),
        )
    check(model.energy(states))
