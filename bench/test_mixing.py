"""Effective samples per second: of the slowest of the energy and the squared overlap (glass) or |m| (ferromagnet).

Speed without mixing is no speed: single-unit sweeps stand beside tempering on a glass at its transition, and beside
clusters on the ferromagnet at its own. Runs start from random states, and their burn-in counts in the time; but single
units on the ferromagnet, where tau_int is thousands of sweeps, start from states of Swendsen and Wang's. All programs
are judged by the same estimate of tau_int but for peapods' tempering, which tells no series and gives its own, of the
overlap only.
"""

from functools import cache, partial

import numpy as np
import pytest

import fastbm as bm
from fastbm.diagnostics import ess, standard_error
from fastbm.models.square_lattice import kaufman_log_z

from . import external, peapods_peer
from .machine import installed
from .problems import Problem, machine

GLASS, FERROMAGNET = Problem("bimodal", (6, 6, 6)), Problem("ferromagnet", (64, 64))
BETA = 0.9  # of the glass: its transition is near 0.91
LARGE = Problem("ferromagnet", (256, 256))  # more than the first caches hold
CRITICAL = float(np.log1p(np.sqrt(2.0)) / 2)
LEAST = 100  # sweeps
SINGLE = [("sparse", 128), ("multispin", 512)]
LADDERS = 64
RUNGS = np.linspace(0.1, BETA, 12).tolist()  # of peapods; fastbm finds its own, as many
LONGEST = 200  # sweeps over which peapods sums correlations: more than five tau_int
LADDERS_OF_PEAPODS = 16
CLUSTER_CHAINS = 16
SWEEPS = {"wolff": 4_000, "swendsen-wang": 1_000, "single": 20_000, "tempering": 4_000}
BURN_IN = {"wolff": 2_000, "swendsen-wang": 100}  # the clusters of a random state are small
THIN = {"wolff": 5, "swendsen-wang": 1}  # a Wolff cluster is a part of the lattice, a measurement all of it

pytestmark = pytest.mark.filterwarnings("ignore::fastbm.ConvergenceWarning")
cluster_rules = pytest.mark.parametrize("rule", ["wolff", "swendsen-wang"])
ON_LATTICES = [(FERROMAGNET, "wolff"), (FERROMAGNET, "swendsen-wang"), (LARGE, "swendsen-wang")]
on_lattices = pytest.mark.parametrize(("problem", "rule"), ON_LATTICES, ids=str)


def burn_in(rule, n_sweeps):
    """Less before a warm-up of few sweeps."""
    return min(BURN_IN[rule], 10 * n_sweeps)


def sweeps_of(problem, rule):
    """Fewer where they take long."""
    return SWEEPS[rule] * 64**2 * 4 // max(4 * 64**2, machine(problem).n_units)


def label(problem, beta):
    return f"{problem}, beta = {beta:.3g}, slowest observable"


def slowest(energy, order):
    """Effective samples of whichever has fewer; both are (n_samples, n_chains or pairs)."""
    return float(min(ess(energy), ess(order)))


def of_glass(found):
    return slowest(found.energy, found.observables["overlap"] ** 2)


def of_ferromagnet(found):
    return slowest(found.energy, np.abs(found.magnetisation))


@cache
def by_other_means(problem, beta):
    """An independent run: tempering of the glass, clusters of the ferromagnet."""
    sampler = "tempering" if problem == GLASS else "swendsen-wang"
    return bm.sample(machine(problem), sampler=sampler, beta=beta, n_chains=64, n_sweeps=300, burn_in=200, seed=11)


@cache
def truth(problem, beta):
    """The mean energy and its error; by Kaufman's log Z for the ferromagnet, which is exact."""
    if problem.kind == "ferromagnet":
        step = 1e-4
        above, below = (kaufman_log_z(*problem.size, beta + side) for side in (step, -step))
        return (below - above) / (2 * step), 0.0
    energies = by_other_means(problem, beta).energy
    return energies.mean(), standard_error(energies)


def close(energies, problem, beta, error=None):
    """The mean energy of the second half must be the true one, up to six standard errors."""
    half, (mean, of_truth) = energies[len(energies) // 2 :], truth(problem, beta)
    error = standard_error(half) if error is None else error
    assert abs(half.mean() - mean) < 6 * np.hypot(error, of_truth)


def record(work, run, sweeps, count, problem, beta, **about):
    """Time `run(sweeps)`; the last result."""
    warm_up = partial(run, 20)
    return work(
        partial(run, sweeps), count, "effective samples", workload=label(problem, beta), warm_up=warm_up, **about
    )


@pytest.mark.parametrize(("kernel", "n_chains"), SINGLE)
def test_single_units_on_glass(kernel, n_chains, work, effort):
    def run(n_sweeps):
        about = {"kernel": kernel, "n_chains": n_chains, "observables": ("overlap",), "threads": 1}
        return bm.sample(machine(GLASS), beta=BETA, n_sweeps=n_sweeps, thin=10, **about)

    sweeps, variant = max(10 * LEAST, effort(SWEEPS["single"])), f"Gibbs, {n_chains} chains, {kernel}"
    found = record(work, run, sweeps, of_glass, GLASS, BETA, variant=variant)
    close(found.energy, GLASS, BETA)


@pytest.mark.parametrize("swap_every", [1, 5])
def test_tempering(swap_every, work, effort):
    def run(n_sweeps):
        about = {"sampler": "tempering", "n_betas": len(RUNGS), "swap_every": swap_every, "thin": swap_every}
        about |= {"n_chains": LADDERS, "observables": ("overlap",), "threads": 1}
        return bm.sample(machine(GLASS), beta=BETA, n_sweeps=n_sweeps, **about)

    variant = f"tempering, {LADDERS} ladders, swaps every {swap_every}"
    found = record(work, run, max(LEAST, effort(SWEEPS["tempering"])), of_glass, GLASS, BETA, variant=variant)
    close(found.energy, GLASS, BETA)


@installed("peapods")
def test_tempering_peapods(work, effort):
    sweeps = max(LEAST, effort(SWEEPS["tempering"]))

    def run(n_sweeps):
        lag = min(LONGEST, n_sweeps // 4)
        return peapods_peer.tempering_tau(GLASS, LADDERS_OF_PEAPODS, n_sweeps, RUNGS, n_sweeps // 10, lag)

    def count(found):
        return LADDERS_OF_PEAPODS // 2 * sweeps / (2 * found[0])

    tau, energy = record(work, run, sweeps, count, GLASS, BETA, program="peapods, tempering")
    assert tau >= 0.5
    spread = by_other_means(GLASS, BETA).energy.std()
    close(np.array([energy]), GLASS, BETA, error=spread / np.sqrt(count((tau, energy))))


@on_lattices
def test_clusters(problem, rule, work, effort):
    def run(n_sweeps):
        counts = {"n_sweeps": n_sweeps, "burn_in": burn_in(rule, n_sweeps), "thin": THIN[rule]}
        return bm.sample(machine(problem), sampler=rule, beta=CRITICAL, n_chains=CLUSTER_CHAINS, threads=1, **counts)

    sweeps, variant = max(LEAST, effort(sweeps_of(problem, rule))), f"{rule.title()}, {CLUSTER_CHAINS} chains"
    found = record(work, run, sweeps, of_ferromagnet, problem, CRITICAL, variant=variant)
    close(found.energy, problem, CRITICAL)


@pytest.mark.parametrize(("kernel", "n_chains"), SINGLE)
def test_single_units_on_ferromagnet(kernel, n_chains, work, effort):
    start = by_other_means(FERROMAGNET, CRITICAL).states[np.arange(-8, 0) * 5 + 4].reshape(512, -1)[:n_chains]

    def run(n_sweeps):
        about = {"kernel": kernel, "n_chains": n_chains, "initial": start, "burn_in": 0, "thin": 20, "threads": 1}
        return bm.sample(machine(FERROMAGNET), beta=CRITICAL, n_sweeps=n_sweeps, **about)

    sweeps, variant = max(10 * LEAST, effort(SWEEPS["single"])), f"Gibbs, {n_chains} chains, {kernel}"
    found = record(work, run, sweeps, of_ferromagnet, FERROMAGNET, CRITICAL, variant=variant, rounds=1)
    close(found.energy, FERROMAGNET, CRITICAL)


@on_lattices
@installed("mcising")
def test_clusters_mcising(problem, rule, work, effort, workers):
    def run(n_sweeps):
        counts = (n_sweeps, burn_in(rule, n_sweeps), THIN[rule])
        about = (problem, CLUSTER_CHAINS, rule, CRITICAL, *counts)
        return workers[0].submit(external.mcising_series, *about).result()

    def count(found):
        return slowest(found[0], np.abs(found[1]))

    sweeps, program = max(LEAST, effort(sweeps_of(problem, rule))), f"mcising, {rule.title()}"
    energy, _ = record(work, run, sweeps, count, problem, CRITICAL, program=program)
    close(energy, problem, CRITICAL)


@cluster_rules
@installed("peapods")
def test_clusters_peapods(rule, work, effort):
    model = machine(FERROMAGNET)

    def run(n_sweeps):
        about = (FERROMAGNET, CLUSTER_CHAINS, n_sweeps, rule, CRITICAL, min(500, 10 * n_sweeps))
        return peapods_peer.cluster_series(*about)

    def series(states):
        return np.stack([model.energy(rows) for rows in states]), states.mean(axis=2)

    def count(states):
        energy, magnetisation = series(states)
        return slowest(energy, np.abs(magnetisation))

    sweeps, program = max(LEAST, effort(1_000)), f"peapods, {rule.title()} and Metropolis"
    energy, _ = series(record(work, run, sweeps, count, FERROMAGNET, CRITICAL, program=program))
    close(energy, FERROMAGNET, CRITICAL)
