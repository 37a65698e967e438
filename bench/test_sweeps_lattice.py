"""Single-spin sweeps of lattices: attempts per second, with real couplings and with replicas in the bits of words.

The temperatures are such that a hundred sweeps lead from random states to equilibrium, so that every program can be
held against the plain loop. Peers go from one chain to the next (NumPy does all at once): they do 64 chains, and stand
beside fastbm with any number of them. fastbm does more sweeps, or a round would be over too soon to be timed.
Two threads have work from 1024 replicas in bits on, since a block is 512. On the sparse kernel they share 64 chains as
32 lanes each, and both pay what a site costs whatever the number of lanes (about 10 ns), so that they gain 1.4 times;
with 256 chains each thread has blocks of 128, and they gain twice.
"""

from functools import cache, partial

import numpy as np
import pytest

import fastbm as bm

from . import external, numpy_peers, peapods_peer, peers
from .machine import THREADS, TWO_CORES, installed
from .problems import Problem, colours, machine

GAUSSIAN, FERROMAGNET = Problem("gaussian", (128, 128)), Problem("ferromagnet", (128, 128))
GAUSSIAN_CUBIC = Problem("gaussian", (24, 24, 24))
SQUARE, CUBIC = Problem("bimodal", (128, 128)), Problem("bimodal", (24, 24, 24))
BETAS = {GAUSSIAN: 0.7, GAUSSIAN_CUBIC: 0.5, FERROMAGNET: 0.4, SQUARE: 0.7, CUBIC: 0.5}
CHAINS_OF_PEERS = 64
SWEEPS = 120  # of peers
LEAST = 100  # sweeps from random states to equilibrium
FASTER = {"sparse": 8, "lookup": 64, "multispin": 4}  # times as many sweeps of fastbm

VARIANTS = {"sparse": "chains", "lookup": "chains that look up", "multispin": "replicas in bits"}

problems = pytest.mark.parametrize("problem", BETAS, ids=str)
rules = pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
LANES = [(GAUSSIAN, "sparse", n) for n in (64, 256)] + [(FERROMAGNET, "sparse", n) for n in (64, 256)]
WORDS = [(problem, "multispin", 1024) for problem in (SQUARE, CUBIC, FERROMAGNET)]
WORDS += [(problem, "lookup", n) for problem in (GAUSSIAN, GAUSSIAN_CUBIC) for n in (64, 256)]
LAYOUTS = [(*layout, threads) for layout in LANES + WORDS for threads in (1, 2)]
LAYOUTS += [(problem, "multispin", 512, 1) for problem in (SQUARE, CUBIC)]
LAYOUTS += [(GAUSSIAN, "lookup", n, 1) for n in (16, 100)]
CASES = [pytest.param(*case, marks=[TWO_CORES] if case[-1] == 2 else []) for case in LAYOUTS]
OTHERS = [
    pytest.param(external.openjij, "metropolis", "openjij", marks=installed("openjij")),
    pytest.param(external.dwave, "metropolis", "dwave-samplers", marks=installed("dwave.samplers")),
    pytest.param(external.dwave, "gibbs", "dwave-samplers", marks=installed("dwave.samplers")),
]


def label(problem, rule):
    return f"{problem}, {rule.capitalize()}, beta = {BETAS[problem]:g}"


def at_least(effort):
    return max(LEAST, effort(SWEEPS))


@cache
def equilibrium(problem):
    """Energies of chains that were swept long enough."""
    model = machine(problem)
    states = peers.sweep(model, CHAINS_OF_PEERS, 4 * LEAST, "gibbs", 1, seed=7, beta=BETAS[problem])
    return model.energy(states.astype(np.int8))


def check(problem, states, energies=None):
    """States must be spins whose mean energy is that of the plain loop, up to six standard errors."""
    found, truth = machine(problem).energy(states.astype(np.int8)), equilibrium(problem)
    if energies is not None:
        np.testing.assert_allclose(energies, found, rtol=1e-5, atol=1e-3)
    assert len(np.unique(states, axis=0)) == len(states)
    error = np.sqrt(found.var() / len(found) + truth.var() / len(truth))
    assert abs(found.mean() - truth.mean()) < 6 * error


def record(work, run, problem, rule, sweeps, **about):
    """Time `run(sweeps)`; the last result."""
    n_chains = about.pop("n_chains", CHAINS_OF_PEERS)
    attempts = machine(problem).n_units * n_chains * sweeps
    warm_up = partial(run, 2)
    return work(partial(run, sweeps), attempts, "attempts", workload=label(problem, rule), warm_up=warm_up, **about)


@rules
@pytest.mark.parametrize(("problem", "kernel", "n_chains", "threads"), CASES, ids=str)
def test_fastbm(problem, kernel, n_chains, threads, rule, work, effort):
    model, sweeps = machine(problem), FASTER[kernel] * at_least(effort)

    def run(n_sweeps):
        counts = {"n_chains": n_chains, "n_sweeps": n_sweeps, "thin": n_sweeps, "burn_in": 0}
        return bm.sample(model, sampler=rule, kernel=kernel, beta=BETAS[problem], threads=threads, **counts)

    variant = f"{n_chains} {VARIANTS[kernel]}"
    found = record(work, run, problem, rule, sweeps, n_chains=n_chains, variant=variant, threads=threads)
    check(problem, found.states[-1], found.energy[-1])


@problems
@rules
@pytest.mark.parametrize("threads", THREADS)
def test_numba(problem, rule, threads, work, effort):
    def run(n_sweeps):
        return peers.sweep(machine(problem), CHAINS_OF_PEERS, n_sweeps, rule, threads, beta=BETAS[problem])

    about = {"program": "plain Numba", "threads": threads}
    check(problem, record(work, run, problem, rule, at_least(effort), **about))


@problems
@rules
def test_numpy(problem, rule, work, effort):
    chains = numpy_peers.Checkerboard(machine(problem), colours(problem), CHAINS_OF_PEERS)
    run = partial(chains.sweep, rule=rule, beta=BETAS[problem])
    check(problem, record(work, run, problem, rule, at_least(effort), program="NumPy checkerboard"))


@problems
@pytest.mark.parametrize(("sampler", "rule", "program"), OTHERS)
@pytest.mark.parametrize("threads", THREADS)
def test_others(problem, sampler, rule, program, threads, work, effort, workers):
    def run(n_sweeps):
        return external.split(workers[:threads], sampler, problem, CHAINS_OF_PEERS, n_sweeps, rule, beta=BETAS[problem])

    check(problem, *record(work, run, problem, rule, at_least(effort), program=program, threads=threads))


@problems
@rules
@pytest.mark.parametrize("threads", THREADS)
@installed("peapods")
def test_peapods(problem, rule, threads, work, effort):
    def run(n_sweeps):
        return peapods_peer.sweep(problem, CHAINS_OF_PEERS, n_sweeps, rule, BETAS[problem], threads)

    check(problem, record(work, run, problem, rule, at_least(effort), program="peapods", threads=threads))


@pytest.mark.parametrize("threads", THREADS)
@installed("mcising")
def test_mcising(threads, work, effort, workers):
    beta, rule = BETAS[FERROMAGNET], "metropolis"

    def run(n_sweeps):
        return external.split(
            workers[:threads], external.mcising, FERROMAGNET, CHAINS_OF_PEERS, n_sweeps, rule, beta=beta
        )

    check(FERROMAGNET, *record(work, run, FERROMAGNET, rule, at_least(effort), program="mcising", threads=threads))
