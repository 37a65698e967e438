"""Attempts per second of chains in words where more than sweeps is done: kept rows, swaps, populations.

Tempering swaps after every sweep, on the kernel for any sparse couplings and on the one that looks up; peapods does as
it does, without measurements. A row that is kept costs an energy and a copy of the state of every chain.
"""

from functools import partial

import numpy as np
import pytest

import fastbm as bm

from . import peapods_peer
from .machine import THREADS, installed
from .problems import Problem, machine

SQUARE, BIMODAL = Problem("gaussian", (128, 128)), Problem("bimodal", (128, 128))
CUBIC, GLASS, SMALL = (
    Problem("gaussian", (24, 24, 24)),
    Problem("gaussian", (10, 10, 10)),
    Problem("bimodal", (8, 8, 8)),
)
RUNGS = np.linspace(0.1, 1.5, 20).tolist()
LADDERS = [16, 32, 64]
LADDERS_OF_PEAPODS = 16

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")


@pytest.mark.parametrize("rule", ["gibbs", "metropolis"])
@pytest.mark.parametrize(("problem", "n_chains"), [(SQUARE, 256), (BIMODAL, 1024), (CUBIC, 256)], ids=str)
@pytest.mark.parametrize("every", [1, 0], ids=["every sweep kept", "one kept"])
def test_kept(problem, n_chains, rule, every, work, effort):
    model, sweeps = machine(problem), effort(25_600 // n_chains)

    def run(n_sweeps):
        counts = {"n_chains": n_chains, "n_sweeps": n_sweeps, "thin": every or n_sweeps, "burn_in": 0}
        return bm.sample(model, rule, beta=0.5, threads=1, seed=1, **counts)

    found = work(
        partial(run, sweeps), model.n_units * n_chains * sweeps, "attempts",
        workload=f"{problem}, {rule.capitalize()}, {n_chains} chains, {'every sweep' if every else 'the last'} kept",
        warm_up=partial(run, 2),
    )  # fmt: skip
    np.testing.assert_allclose(found.energy[-1], model.energy(found.states[-1]), rtol=1e-12)


def of_tempering(n_ladders):
    return f"tempering, {GLASS}, 20 temperatures, {n_ladders} ladders, swaps every sweep"


@pytest.mark.parametrize("kernel", ["sparse", "lookup"])
@pytest.mark.parametrize("n_ladders", LADDERS)
def test_tempering(n_ladders, kernel, threads, work, effort):
    model, sweeps = machine(GLASS), effort(12_800 // n_ladders)

    def run(n_sweeps):
        counts = {"n_chains": n_ladders, "n_sweeps": n_sweeps, "thin": n_sweeps, "burn_in": 0}
        return bm.sample(model, "tempering", betas=RUNGS, kernel=kernel, threads=threads, seed=1, **counts)

    about = {"workload": of_tempering(n_ladders), "variant": kernel, "threads": threads, "warm_up": partial(run, 2)}
    found = work(partial(run, sweeps), model.n_units * n_ladders * len(RUNGS) * sweeps, "attempts", **about)
    np.testing.assert_allclose(found.energy[-1], model.energy(found.states[-1]), atol=1e-6 * model.n_units)


@installed("peapods")
@pytest.mark.parametrize("threads", THREADS)
def test_tempering_peapods(threads, work, effort):
    n_ladders, sweeps = LADDERS_OF_PEAPODS, effort(200)

    def run(n_sweeps):
        return peapods_peer.temper(GLASS, n_ladders, n_sweeps, RUNGS, threads)

    about = {"program": "peapods", "threads": threads, "warm_up": partial(run, 2)}
    attempts = machine(GLASS).n_units * n_ladders * len(RUNGS) * sweeps
    for_all = {"workload": of_tempering(n_ladders), **about}
    states = work(partial(run, sweeps), attempts, "attempts", **for_all)
    assert (np.abs(states) == 1).all()


@pytest.mark.parametrize("problem", [SMALL, Problem("gaussian", SMALL.size)])
@pytest.mark.parametrize("n_chains", [256, 1024, 4096])
def test_population(problem, n_chains, threads, work):
    model, n_sweeps = machine(problem), 10

    def run():
        return bm.sample(
            model, "population-annealing", beta=1.0, n_chains=n_chains, n_sweeps=n_sweeps, threads=threads, seed=1
        )

    def attempts(found):
        return model.n_units * n_chains * n_sweeps * len(found.read("population/beta"))

    work(run, attempts, "attempts", workload=f"population annealing, {problem}, {n_chains} replicas", threads=threads)
