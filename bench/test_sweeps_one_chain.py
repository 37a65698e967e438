"""Single-spin sweeps of one chain: attempts per second, on a lattice and on graphs whose units have three neighbours.

What a call does before its sweeps is in the figures: on the largest graph it takes as long as some tens of them.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse

import fastbm as bm

from . import jax_lattice, peers
from .machine import installed
from .problems import Problem, machine

LATTICE, BETA = Problem("gaussian", (128, 128)), 0.7
UNITS = [10_000, 100_000, 1_000_000]
ATTEMPTS = 40_000_000  # of peers
FASTER = 4  # times as many sweeps of fastbm
FEWEST = 100  # sweeps from random states to equilibrium
WITHIN = 0.015  # of energies a unit: chains differ by less than a third of it

rules = pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
orders = pytest.mark.parametrize("order", ["sequential", "coloured"])
sizes = pytest.mark.parametrize("n", UNITS)


@cache
def regular(n):
    """A glass of normal couplings on a random graph, without the few pairs that are drawn twice or of one unit."""
    generator = np.random.default_rng(1)
    pairs = generator.permutation(np.repeat(np.arange(n), 3)).reshape(-1, 2)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    half = scipy.sparse.csr_array((generator.normal(size=len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    return bm.BoltzmannMachine(half + half.T)


def model_of(what):
    return machine(what) if isinstance(what, Problem) else regular(what)


def label(what, rule):
    name = str(what) if isinstance(what, Problem) else f"3-regular graph, n = {what}"
    return f"{name}, one chain, {rule.capitalize()}, beta = {BETA:g}"


@cache
def equilibrium(what):
    """The energy a unit after enough sweeps."""
    model = model_of(what)
    states = peers.sweep(model, 1, 2 * FEWEST, "gibbs", 1, seed=7, beta=BETA)
    return model.energy(states.astype(np.int8))[0] / model.n_units


def record(work, run, what, rule, sweeps, **about):
    """Time `run(sweeps)`, which returns states (1, n_units) of spins, and hold their energy against the plain loop."""
    model = model_of(what)
    attempts, warm_up = model.n_units * sweeps, partial(run, 32)  # with fewer units are not drawn side by side
    states = work(partial(run, sweeps), attempts, "attempts", workload=label(what, rule), warm_up=warm_up, **about)
    found = model.energy(np.asarray(states).astype(np.int8))[0] / model.n_units
    assert abs(found - equilibrium(what)) < WITHIN * max(1.0, (16_384 / model.n_units) ** 0.5)


def time_fastbm(work, effort, what, rule, order):
    def run(n_sweeps):
        counts = {"n_chains": 1, "n_sweeps": n_sweeps, "thin": n_sweeps, "burn_in": 0}
        return bm.sample(model_of(what), sampler=rule, order=order, beta=BETA, threads=1, **counts).states[-1]

    sweeps = FASTER * max(FEWEST, effort(ATTEMPTS) // model_of(what).n_units)
    record(work, run, what, rule, sweeps, variant=order)


def time_numba(work, effort, what, rule):
    def run(n_sweeps):
        return peers.sweep(model_of(what), 1, n_sweeps, rule, 1, beta=BETA)

    sweeps = max(FEWEST, effort(ATTEMPTS) // model_of(what).n_units)
    record(work, run, what, rule, sweeps, program="plain Numba")


@rules
@orders
def test_lattice(rule, order, work, effort):
    time_fastbm(work, effort, LATTICE, rule, order)


@rules
def test_lattice_numba(rule, work, effort):
    time_numba(work, effort, LATTICE, rule)


@pytest.fixture(scope="module")
def one_processor():
    """A process for JAX."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), jax_lattice.hold) as pool:
        yield pool


@rules
@installed("jax")
def test_lattice_jax(rule, work, effort, one_processor):
    def run(n_sweeps):
        return one_processor.submit(jax_lattice.sweep, LATTICE, 1, n_sweeps, rule, BETA).result()

    sweeps = max(FEWEST, effort(ATTEMPTS) // machine(LATTICE).n_units)
    record(work, run, LATTICE, rule, sweeps, program="JAX checkerboard")


@sizes
@orders
def test_regular_graphs(n, order, work, effort):
    time_fastbm(work, effort, n, "gibbs", order)


@sizes
def test_regular_graphs_numba(n, work, effort):
    time_numba(work, effort, n, "gibbs")
