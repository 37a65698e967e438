"""Time to a good cut, to find it with probability 99 %: graphs of the families of the G-set, and SK glasses.

As in `test_ground_states`, of many annealing runs each comes to the target with some probability. The target is the
best that OpenJij and dwave-samplers both came to with their defaults in four reads at least, of 375 (800 nodes) or 150
(2000 nodes): what all solvers find in several times the time of a row here. That of SK n = 100 is the ground state.

Defaults stand against defaults: 1000 sweeps, own schedules. What is best stands against what is best: the sweeps, and
the schedules of the peers between their own ends and those of fastbm.
"""

from functools import partial

import pytest

import fastbm as bm
from fastbm.sampling.clamped import Conditioned
from fastbm.sampling.own_temperatures import own_betas

from . import external
from .machine import installed
from .problems import Problem, machine
from .test_ground_states import CLOSE, solutions

TARGETS = {
    Problem("degree 48", 800): -4042.0,
    Problem("degree 48", 2000): -10328.0,
    Problem("degree 20", 800): -2648.0,
    Problem("degree 20", 2000): -6622.0,
    Problem("torus", 800): -1112.0,
    Problem("torus", 2000): -2786.0,
    Problem("planar", 800): -1510.0,
    Problem("planar", 2000): -3757.0,
    Problem("degree 5", 800): -1286.0,
    Problem("degree 5", 2000): -3194.0,
    Problem("sk", 100): -71.10421244,
    Problem("sk", 500): -369.54,
}
SWEEPS = 1000  # by default of all
CALLS = 8  # with the chains of a default each
MANY = 1024  # chains of a call where they may be many
READS = {100: 1024, 500: 96, 800: 384, 2000: 128}  # of the peers, which take as long one by one as together
PEERS = [
    pytest.param("dwave-samplers", marks=installed("dwave.samplers")),
    pytest.param("openjij", marks=installed("openjij")),
]

problems = pytest.mark.parametrize("problem", TARGETS, ids=str)


def label(problem, best):
    return f"low state with 99 %, {'best' if best else 'default'} options: {problem}"


def n_sweeps(problem):
    """How many sweeps are the best of all programs."""
    return 100 if problem.size == 100 else SWEEPS


def ends(problem):
    own = own_betas(Conditioned(machine(problem), None, 1), 1)
    return own.first, own.last


def found(problem, energies):
    """How many times these last energies came to the target with certainty enough."""
    return solutions(float((energies < TARGETS[problem] + CLOSE).mean()), energies.size)


@problems
def test_defaults(problem, work, effort):
    calls = effort(CALLS if problem.size != 2000 else CALLS // 2)

    def run(calls):
        runs = [bm.sample(machine(problem), "annealing", seed=seed, threads=1) for seed in range(calls)]
        return sum(found(problem, run.energy[-1]) for run in runs)

    work(partial(run, calls), lambda count: count, "solutions", workload=label(problem, False), warm_up=partial(run, 1))


@problems
def test_best(problem, work, effort):
    def run(chains):
        about = {"n_chains": chains, "n_sweeps": n_sweeps(problem), "threads": 1}
        return found(problem, bm.sample(machine(problem), "annealing", **about).energy[-1])

    work(
        partial(run, effort(MANY)), lambda count: count, "solutions", workload=label(problem, True),
        warm_up=partial(run, 256), variant=f"{MANY} chains",
    )  # fmt: skip


@problems
@pytest.mark.parametrize("way", ["default", "best", "best, own ends"])
@pytest.mark.parametrize("peer", PEERS)
def test_peers(problem, peer, way, work, effort, workers):
    between = ends(problem) if way == "best" else None
    count = n_sweeps(problem) if way != "default" else SWEEPS

    def run(reads):
        if peer == "openjij":
            task = workers[0].submit(external.openjij_annealed, problem, reads, count, between, 1)
        else:
            task = workers[0].submit(external.dwave_annealed, problem, reads, count, between, "metropolis", 1)
        return found(problem, task.result()[1])

    work(
        partial(run, effort(READS[problem.size])), lambda count: count, "solutions",
        workload=label(problem, way != "default"), warm_up=partial(run, 2),
        program=peer + (", ends of fastbm" if way == "best" else ""),
    )  # fmt: skip
