"""Annealed importance sampling of a restricted machine, and mean field with linear response of a thousand spins."""

import math
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

import fastbm as bm

from . import numpy_peers
from .test_sweeps_layered import N_HIDDEN, N_VISIBLE, machine

CHAINS, BETAS = 100, 1_000
AIS = f"AIS, RBM {N_VISIBLE} x {N_HIDDEN}, {CHAINS} chains, {BETAS} temperatures"
UNITS, STARTS, TOLERANCE = 1_000, 8, 1e-10
MEAN_FIELD = f"mean field and linear response, n = {UNITS}, {STARTS} starts"


def check_log_z(log_z, error):
    """log Z must agree with an estimate by the other program at other seeds, up to six standard errors."""
    other = bm.infer(machine(), "ais", n_chains=64, n_betas=BETAS, moments=False, seed=17, witness=False)
    assert 0 < error < 0.5
    assert abs(log_z - other.log_z) < 6 * math.hypot(error, other.log_z_error)


def test_ais_fastbm(threads, work):
    model = machine()

    def run(n_betas):
        return bm.infer(
            model,
            "ais",
            n_chains=CHAINS,
            n_betas=n_betas,
            moments=False,
            threads=threads,
            start="uniform",
            witness=False,
        )

    found = work(partial(run, BETAS), CHAINS * BETAS, "steps", workload=AIS, threads=threads, warm_up=partial(run, 100))
    log_z, error = numpy_peers.anneal(*model.weights, *model.bias, 64, BETAS, seed=19)
    assert abs(found.log_z - log_z) < 6 * math.hypot(error, found.log_z_error)


def test_ais_numpy(threads, work):
    model = machine()
    run = partial(numpy_peers.anneal, *model.weights, *model.bias, CHAINS)
    with threadpool_limits(threads, "blas"):
        log_z, error = work(
            partial(run, BETAS),
            CHAINS * BETAS,
            "steps",
            workload=AIS,
            program="minimal NumPy",
            threads=threads,
            warm_up=partial(run, 10),
        )
    check_log_z(log_z, error)


def glass():
    """A machine whose mean-field equations have one solution, so that all programs find the same."""
    return bm.models.random_machine(UNITS, scale=0.4, bias_scale=0.5, seed=3)


def test_mean_field_fastbm(work):
    model = glass()
    run = partial(bm.infer, model, "mean-field", n_starts=STARTS, tolerance=TOLERANCE, threads=1)
    with threadpool_limits(1, "blas"):
        found = work(run, STARTS, "starts", workload=MEAN_FIELD)
    bound, means, covariance = numpy_peers.mean_field(model.weights, model.bias, STARTS, TOLERANCE)
    assert found.converged
    assert abs(found.log_z - bound) < 1e-7
    np.testing.assert_allclose(found.mean, means, atol=1e-8)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-8)


def test_mean_field_numpy(work):
    model = glass()
    run = partial(numpy_peers.mean_field, model.weights, model.bias, STARTS, TOLERANCE)
    with threadpool_limits(1, "blas"):
        bound, means, _ = work(run, STARTS, "starts", workload=MEAN_FIELD, program="minimal NumPy")
    assert abs(bound - bm.infer(model, "mean-field", moments=False).log_z) < 1e-7
    assert np.abs(means - np.tanh(model.weights @ means + model.bias)).max() < 1e-9
