"""Exact log Z, with and without all first and second moments, of fully coupled spins: states per second."""

from functools import cache, partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import fastbm as bm

from . import external, numpy_peers, peers
from .machine import installed

SIZES = [15, 20, 24]
LARGE = [30, 36]  # no peer goes there: held against the bare matrix product, which is the limit
ROUNDS = {15: 200, 20: 50, 24: 10}
ROUNDS_OF_LARGE = 3
TREE_SIZES = [15, 20]  # beyond, the tree decomposition takes tens of seconds

sizes = pytest.mark.parametrize("n", SIZES)
quantities = pytest.mark.parametrize("moments", [False, True], ids=["log Z", "moments"])


def label(n, moments):
    return f"exact {'log Z and moments' if moments else 'log Z'}, n = {n}"


@cache
def truth(n):
    """log Z, means and second moments by NumPy, for fastbm; by fastbm for the others."""
    model = external.glass(n)
    return numpy_peers.enumerate_blocked(model.weights, model.bias, True)


def check(found, expected, moments):
    assert abs(found[0] - expected[0]) < 1e-9
    if moments:
        np.testing.assert_allclose(found[1], expected[1], atol=1e-9)
        np.testing.assert_allclose(found[2], expected[2], atol=1e-9)


def by_fastbm(n, moments, threads=1):
    found = bm.infer(external.glass(n), "exact", moments=moments, energy_variance=False, threads=threads)
    return found.log_z, found.mean, found.second_moment


@sizes
@quantities
def test_fastbm(n, moments, threads, work):
    model = external.glass(n)
    run = partial(bm.infer, model, "exact", moments=moments, energy_variance=False, threads=threads)
    found = work(run, 1 << n, "states", workload=label(n, moments), threads=threads, rounds=ROUNDS[n])
    check((found.log_z, found.mean, found.second_moment), truth(n), moments)


@sizes
@quantities
def test_numpy(n, moments, threads, work):
    model = external.glass(n)
    with threadpool_limits(threads, "blas"):
        run = partial(numpy_peers.enumerate_blocked, model.weights, model.bias, moments)
        found = work(
            run, 1 << n, "states", workload=label(n, moments), program="blocked NumPy", threads=threads,
            rounds=ROUNDS[n],
        )  # fmt: skip
    check(found, by_fastbm(n, moments), moments)


@sizes
@quantities
def test_numba(n, moments, threads, work):
    run = partial(peers.enumerate_gray, external.glass(n), moments, threads)
    warm_up = partial(peers.enumerate_gray, external.glass(10), moments, threads)
    found = work(
        run, 1 << n, "states", workload=label(n, moments), program="Numba Gray code", threads=threads, warm_up=warm_up
    )
    check(found, by_fastbm(n, moments), moments)


@pytest.mark.parametrize("n", LARGE)
@quantities
def test_fastbm_large(n, moments, threads, work):
    model = external.glass(n)
    run = partial(bm.infer, model, "exact", moments=moments, energy_variance=False, threads=threads)
    small = partial(bm.infer, external.glass(27), "exact", moments=moments, energy_variance=False, threads=threads)
    found = work(
        run, 1 << n, "states", workload=label(n, moments), threads=threads, warm_up=small, rounds=ROUNDS_OF_LARGE
    )
    assert found.detail["engine"] == "blocks"
    if moments:
        np.testing.assert_allclose(found.mean, 0.0, atol=1e-9)  # no biases
        assert np.linalg.eigvalsh(found.covariance).min() > 0


@pytest.mark.parametrize("n", LARGE)
@quantities
def test_product(n, moments, threads, work):
    """The same number of terms as one matrix product, or three for moments, and nothing else."""
    size = 1 << n // 3
    left, right = np.random.default_rng(0).random((2, size, size))

    def run():
        for _ in range(3 if moments else 1):
            left @ right

    with threadpool_limits(threads, "blas"):
        work(
            run, 1 << n, "states", workload=label(n, moments), program="NumPy's bare product", threads=threads,
            rounds=ROUNDS_OF_LARGE,
        )  # fmt: skip


@installed("dwave.samplers")
@pytest.mark.parametrize("n", TREE_SIZES)
def test_dwave_tree(n, work, workers):
    def run(size):
        return workers[0].submit(external.dwave_tree, size).result()

    found = work(
        partial(run, n),
        1 << n,
        "states",
        workload=label(n, True),
        program="dwave-samplers (tree)",
        warm_up=partial(run, 5),
    )
    check(found, by_fastbm(n, True), True)
