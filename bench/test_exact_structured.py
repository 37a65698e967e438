"""Exact sums that structure makes short, of restricted machines and lattices, and exact samples."""

import math
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastbm as bm

from . import external, numpy_peers
from .machine import installed
from .problems import Problem, machine

LATTICES = [10, 16]
N_DRAWS = 100_000


def restricted(n_hidden):
    """784 binary pixels with couplings of the size that learning gives them."""
    generator = np.random.default_rng(1)
    weights = generator.normal(scale=0.3, size=(784, n_hidden))
    return bm.models.restricted(
        weights=weights, visible_bias=generator.normal(-2.0, 1.0, 784), hidden_bias=np.zeros(n_hidden), units="binary"
    )


def test_fastbm_restricted(threads, work):
    model = restricted(20)
    run = partial(bm.infer, model, "exact", moments=False, threads=threads)
    small = partial(bm.infer, restricted(17), "exact", engine="layers", moments=False, threads=threads)
    found = work(run, 1 << 20, "states", workload="exact log Z, restricted 784 x 20", threads=threads, warm_up=small)
    assert found.detail["engine"] == "layers"


def test_fastbm_restricted_moments(threads, work):
    model = restricted(20)
    run = partial(bm.infer, model, "exact", threads=threads)
    workload = "exact log Z and moments, restricted 784 x 20"
    found = work(run, 1 << 20, "states", workload=workload, threads=threads, warm_up=run, rounds=1)
    assert found.second_moment.shape == (804, 804)


def test_numpy_restricted(work):
    """A sixteenth of the states, at the price of a sixteenth."""
    model = restricted(16)
    weights, (visible, hidden) = model.weights[0], model.bias
    run = partial(numpy_peers.sum_hidden, weights, visible, hidden)
    with threadpool_limits(1, "blas"):
        found = work(run, 1 << 16, "states", workload="exact log Z, restricted 784 x 20", program="NumPy", rounds=1)
    assert abs(found - bm.infer(model, "exact", moments=False).log_z) < 1e-8


@pytest.mark.parametrize("length", LATTICES)
@pytest.mark.parametrize("moments", [False, True], ids=["log Z", "moments"])
def test_fastbm_lattice(length, moments, threads, work):
    model = machine(Problem("open", (length, length)))
    run = partial(bm.infer, model, "exact", moments=moments, threads=threads)
    found = work(run, None, "sums", workload=lattice_label(length, moments), threads=threads)
    assert found.detail["engine"] == "elimination"


def lattice_label(length, moments):
    return f"exact {'log Z and moments' if moments else 'log Z'}, open {length} x {length} lattice"


@installed("dwave.samplers")
@pytest.mark.parametrize("length", LATTICES)
def test_dwave_lattice(length, work, workers):
    def run():
        return workers[0].submit(external.dwave_lattice, length).result()

    found = work(run, None, "sums", workload=lattice_label(length, True), program="dwave-samplers (tree)", rounds=1)
    assert math.isclose(
        found, bm.infer(machine(Problem("open", (length, length))), "exact", moments=False).log_z, rel_tol=1e-9
    )


@pytest.mark.parametrize("n", [20, 30])
def test_fastbm_draws(n, threads, work):
    """Independent samples, the tables that they are drawn from included."""
    model = external.glass(n)
    run = partial(bm.sample, model, sampler="exact", n_chains=100, n_sweeps=N_DRAWS // 100, threads=threads)
    work(run, N_DRAWS, "samples", workload=f"exact samples, n = {n}", threads=threads)
