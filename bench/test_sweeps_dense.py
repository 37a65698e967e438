"""Single-spin sweeps of the Sherrington-Kirkpatrick glass at beta = 1: attempts, and effective samples, per second.

Every program does the same sweeps on the same couplings, but for NumPy, which does a fiftieth of them from states in
equilibrium. A block of 64 chains is fastbm's unit of parallel work, so that two threads have work with 128 chains.
"""

from functools import cache, partial

import numpy as np
import pytest

import fastbm as bm

from . import external, numpy_peers, peers
from .machine import TWO_CORES, installed
from .problems import Problem

SWEEPS = {64: 16_000, 200: 3_200, 1000: 240, 4000: 96}
LAYOUTS = [(1, 1), (1, 64), pytest.param(2, 64, marks=TWO_CORES), pytest.param(2, 128, marks=TWO_CORES)]
LAYOUTS_OF_PEERS = LAYOUTS[:3]
SIZES = (64, 200, 1000)
SIZES_AND_LAYOUTS = [(n, *getattr(layout, "values", layout)) for n in SIZES for layout in LAYOUTS]
CASES = [
    *(pytest.param(*case, marks=TWO_CORES if case[1] > 1 else ()) for case in SIZES_AND_LAYOUTS),
    (4000, 1, 1),
    (4000, 1, 16),
]
MORE = 16  # times the sweeps of one chain
OTHERS = [
    pytest.param(external.openjij, "metropolis", "openjij", marks=installed("openjij")),
    pytest.param(external.dwave, "metropolis", "dwave-samplers", marks=installed("dwave.samplers")),
    pytest.param(external.dwave, "gibbs", "dwave-samplers", marks=installed("dwave.samplers")),
]

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
sizes = pytest.mark.parametrize("n", SIZES)
rules = pytest.mark.parametrize("rule", ["gibbs", "metropolis"])


def label(n, rule, n_chains):
    return f"SK n = {n}, {rule.capitalize()}, {n_chains} chain{'s' * (n_chains > 1)}"


def sweeps_of(n, n_chains):
    return SWEEPS[n] * (MORE if n_chains == 1 else 1)


@cache
def equilibrium(n):
    """States of chains that were swept long enough."""
    return peers.sweep(external.glass(n), 64 if n <= 1000 else 16, 3 * SWEEPS[n], "gibbs", 1, seed=7)


def check(n, states, energies=None):
    """States must be spins whose mean energy is that of the plain loop, up to six standard errors."""
    model = external.glass(n)
    found, truth = model.energy(states.astype(np.int8)), model.energy(equilibrium(n).astype(np.int8))
    if energies is not None:
        np.testing.assert_allclose(energies, found, rtol=1e-5, atol=1e-3)
    assert len(np.unique(states, axis=0)) == len(states)
    own = found.var() if len(found) > 1 else truth.var()
    error = np.sqrt(own / len(found) + truth.var() / len(truth))
    assert abs(found.mean() - truth.mean()) < 6 * error


@rules
@pytest.mark.parametrize(("n", "threads", "n_chains"), CASES)
def test_fastbm(n, rule, threads, n_chains, work, effort):
    model, sweeps = external.glass(n), effort(sweeps_of(n, n_chains))

    def run(n_sweeps):
        counts = {"n_chains": n_chains, "n_sweeps": n_sweeps, "thin": n_sweeps, "burn_in": 0}
        return bm.sample(model, sampler=rule, threads=threads, **counts)

    found = work(
        partial(run, sweeps),
        n * n_chains * sweeps,
        "attempts",
        workload=label(n, rule, n_chains),
        threads=threads,
        warm_up=partial(run, 2),
    )
    check(n, found.states[-1], found.energy[-1])


@sizes
@pytest.mark.parametrize("n_chains", [1, 64])
def test_every_sweep_kept(n, n_chains, work, effort):
    model, sweeps = external.glass(n), effort(sweeps_of(n, n_chains) // 4)

    def run(n_sweeps):
        return bm.sample(model, threads=1, n_chains=n_chains, n_sweeps=n_sweeps, burn_in=0)

    found = work(
        partial(run, sweeps),
        n * n_chains * sweeps,
        "attempts",
        workload=f"{label(n, 'gibbs', n_chains)}, every sweep kept",
        warm_up=partial(run, 2),
    )
    np.testing.assert_allclose(found.energy[-1], model.energy(found.states[-1]), rtol=0, atol=1e-9 * n**1.5)


@sizes
@rules
def test_effective_samples(n, rule, work, effort):
    model, sweeps = external.glass(n), effort(max(SWEEPS[n], 200))

    def run(n_sweeps):
        counts = {"n_chains": 64, "n_sweeps": n_sweeps, "thin": min(10, n_sweeps)}
        return bm.sample(model, sampler=rule, threads=1, **counts)

    def effective(found):
        return float(bm.diagnostics.ess(found.energy))

    found = work(
        partial(run, sweeps),
        effective,
        "effective samples",
        workload=f"{label(n, rule, 64)}, energy of every 10th sweep",
        warm_up=partial(run, 2),
    )
    assert 1 <= effective(found) <= found.energy.size * 1.5
    check(n, found.states[-1], found.energy[-1])


@rules
@pytest.mark.parametrize(("n", "threads", "n_chains"), CASES)
def test_numba(n, rule, threads, n_chains, work, effort):
    model, sweeps = external.glass(n), effort(sweeps_of(n, n_chains))
    states = work(
        partial(peers.sweep, model, n_chains, sweeps, rule, threads),
        n * n_chains * sweeps,
        "attempts",
        workload=label(n, rule, n_chains),
        program="plain Numba",
        threads=threads,
        warm_up=partial(peers.sweep, model, n_chains, 2, rule, threads),
    )
    check(n, states)


@sizes
@rules
def test_numpy(n, rule, work, effort):
    model, start, sweeps = external.glass(n), equilibrium(n), effort(max(2, SWEEPS[n] // 50))
    states = work(
        partial(numpy_peers.sweep, model, start, sweeps, rule),
        n * 64 * sweeps,
        "attempts",
        workload=label(n, rule, 64),
        program="plain NumPy",
        warm_up=partial(numpy_peers.sweep, model, start, 1, rule),
    )
    check(n, states)


@sizes
@pytest.mark.parametrize(("sampler", "rule", "program"), OTHERS)
@pytest.mark.parametrize(("threads", "n_chains"), LAYOUTS_OF_PEERS)
def test_others(n, sampler, rule, program, threads, n_chains, work, effort, workers):
    sweeps = effort(sweeps_of(n, n_chains))

    def run(n_sweeps):
        return external.split(workers[:threads], sampler, Problem("sk", n), n_chains, n_sweeps, rule)

    states, energies = work(
        partial(run, sweeps),
        n * n_chains * sweeps,
        "attempts",
        workload=label(n, rule, n_chains),
        program=program,
        threads=threads,
        warm_up=partial(run, 2),
    )
    check(n, states, energies)
