"""Time to the ground state of small spin glasses, to find it with probability 99 %.

A chain finds the ground state with probability p in one run; so many runs are needed that all of them miss it with
probability 1 %: t ln(0.01) / ln(1 - p), t the time of the batch over its chains. p is counted over the chains' last
states (annealing) or over what they see at the target (tempering). All anneal as many chains for as long, peers
along their own schedules or, with "common ends", geometrically between the temperatures of fastbm's geometric one.

Ground states: that of the square lattice is exact (dwave-samplers' tree decomposition, which the bench repeats). The
others are the lowest energies of annealing by fastbm, dwave-samplers and OpenJij (10,000 or 5,000 sweeps, hundreds of
chains), in which most chains of the cubic lattice and half of those of the SK glass ended. No program may go below.
"""

from functools import partial
from math import log

import numpy as np
import pytest

import fastbm as bm

from . import external
from .machine import installed
from .problems import Problem, machine

SQUARE, CUBIC, SK = Problem("bimodal", (10, 10)), Problem("bimodal", (6, 6, 6)), Problem("sk", 100)
GROUND = {SQUARE: -140.0, CUBIC: -388.0, SK: -71.10421244373103}
ENDS = {SQUARE: (0.2, 3.0), CUBIC: (0.2, 3.0), SK: (0.1, 20.0)}  # of the common schedule, and of fastbm's
CLOSE = 1e-6  # far below the gaps
CHAINS, LEAST_CHAINS = 2048, 256  # from 256 on fastbm puts replicas of ±J glasses into bits
SWEEPS = {SQUARE: 200, CUBIC: 500, SK: 500}
LADDERS, LADDER_SWEEPS = 64, 200
SURE = 0.99
ANNEALINGS = [("gibbs", "linear"), ("gibbs", "geometric"), ("gibbs", "adaptive"), ("metropolis", "geometric")]

problems = pytest.mark.parametrize("problem", GROUND, ids=str)
schedules = pytest.mark.parametrize("own", [True, False], ids=["own schedule", "common ends"])


def label(problem):
    return f"ground state with 99 %: {problem}"


def solutions(p, n_chains):
    """How many times a batch of chains finds the ground state with certainty enough; at most once a chain."""
    return n_chains * min(1.0, log(1 - p) / log(1 - SURE)) if p < 1 else n_chains


def part_found(problem, energies):
    """The part of the chains that found it; `energies` are (n_chains,) or (n_samples, n_chains)."""
    lowest = energies.min(axis=0) if energies.ndim > 1 else energies
    assert lowest.min() > GROUND[problem] - CLOSE
    return float((lowest < GROUND[problem] + CLOSE).mean())


def record(work, run, problem, chains, energies_of, **about):
    """Time `run(chains)`; the last result, in which some chain has found the ground state."""

    def count(found):
        energies = energies_of(found)
        return solutions(part_found(problem, energies), energies.shape[-1])

    about |= {"workload": label(problem), "warm_up": partial(run, LEAST_CHAINS)}
    found = work(partial(run, chains), count, "solutions", **about)
    assert count(found) > 0
    return found


def check_best(problem, found):
    """The lowest of the best states must be a ground state, and all must have the energies that are told."""
    assert abs(found.best_energies[0] - GROUND[problem]) < CLOSE
    np.testing.assert_allclose(machine(problem).energy(found.best_states), found.best_energies, atol=CLOSE)


def n_chains(effort):
    return max(LEAST_CHAINS, effort(CHAINS))


@problems
@pytest.mark.parametrize(("rule", "schedule"), ANNEALINGS)
def test_annealing(problem, rule, schedule, work, effort):
    low, high = ENDS[problem]
    ends = {"lowest_beta": low if schedule == "geometric" else 0.0, "beta": high}

    def run(chains):
        counts = {"n_chains": chains, "n_sweeps": SWEEPS[problem], "threads": 1}
        about = {"sampler": "annealing", "rule": rule, "schedule": schedule, "keep": "best", "k": 10}
        return bm.sample(machine(problem), **about, **ends, **counts)

    variant = f"annealing, {rule.capitalize()}, {schedule} schedule"
    found = record(work, run, problem, n_chains(effort), lambda run: run.energy[-1], variant=variant)
    check_best(problem, found)


@problems
def test_tempering(problem, work):
    def run(chains):
        about = {"sampler": "tempering", "keep": "best", "k": 10, "beta": ENDS[problem][1], "lowest_beta": 0.2}
        return bm.sample(machine(problem), n_chains=chains, n_sweeps=LADDER_SWEEPS, threads=1, **about)

    found = record(work, run, problem, LADDERS, lambda run: run.energy, variant=f"tempering, {LADDERS} ladders")
    check_best(problem, found)


@problems
@schedules
@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@installed("dwave.samplers")
def test_dwave(problem, own, rule, work, effort, workers):
    ends = None if own else ENDS[problem]

    def run(chains):
        about = (problem, chains, SWEEPS[problem], ends, rule, 1)
        return workers[0].submit(external.dwave_annealed, *about).result()

    program = f"dwave-samplers, {rule.capitalize()}{'' if own else ', common ends'}"
    record(work, run, problem, n_chains(effort), lambda found: found[1], program=program)


@problems
@schedules
@installed("openjij")
def test_openjij(problem, own, work, effort, workers):
    ends = None if own else ENDS[problem]

    def run(chains):
        about = (problem, chains, SWEEPS[problem], ends, 1)
        return workers[0].submit(external.openjij_annealed, *about).result()

    record(
        work, run, problem, n_chains(effort), lambda found: found[1], program=f"openjij{'' if own else ', common ends'}"
    )


@installed("dwave.samplers")
def test_dwave_exact(work):
    """The square lattice's one by tree decomposition."""
    run = partial(external.dwave_ground_energy, SQUARE)
    about = {"workload": label(SQUARE), "program": "dwave-samplers, tree decomposition"}
    assert work(run, 1, "solutions", **about) == GROUND[SQUARE]
