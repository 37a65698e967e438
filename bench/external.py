"""Peers from other packages, run in worker processes, where their models are built once and kept.

Every sampler is ``sampler(problem, n_chains, n_sweeps, rule, beta, seed)`` and returns states (n_chains, n_units) and
the energies that the package itself gives for them, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import fastbm as bm

from .problems import Problem, machine, pairs

Sampled = tuple[np.ndarray, np.ndarray | None]
Sampler = Callable[[Problem, int, int, str, float, int], Sampled]


def glass(n: int) -> bm.BoltzmannMachine:
    """The spin glass without a lattice that every program samples."""
    return machine(Problem("sk", n))


@cache
def _openjij_graph(problem: Problem) -> Any:
    """The sparse engine on graphs, the dense one elsewhere; OpenJij itself takes the sparse one unless told."""
    from openjij.model.model import BinaryQuadraticModel

    i, j, values = pairs(problem)
    couplings = dict(zip(zip(i.tolist(), j.tolist(), strict=True), (-values).tolist(), strict=True))
    biases = dict.fromkeys(range(machine(problem).n_units), 0.0)
    model = BinaryQuadraticModel(biases, couplings, 0.0, "SPIN", sparse=problem.is_sparse)
    return model.get_cxxjij_ising_graph()[0]


@cache
def _dwave_model(problem: Problem) -> Any:
    from dimod import BinaryQuadraticModel

    i, j, values = pairs(problem)
    return BinaryQuadraticModel.from_numpy_vectors(np.zeros(machine(problem).n_units), (i, j, -values), 0.0, "SPIN")


def openjij(problem: Problem, n_chains: int, n_sweeps: int, rule: str, beta: float, seed: int) -> Sampled:
    """Metropolis by OpenJij's compiled core.

    Its Python layer takes longer to turn the states of a lattice into dictionaries than the core takes to sample them,
    and gives every chain the same seed.
    """
    assert rule == "metropolis"
    return _openjij(problem, n_chains, [(beta, n_sweeps)], seed)


def openjij_annealed(
    problem: Problem, n_chains: int, n_sweeps: int, ends: tuple[float, float] | None, seed: int
) -> Sampled:
    """Annealing by OpenJij along a geometric schedule between `ends`, its own where left out."""
    from openjij.sampler.sa_sampler import geometric_ising_beta_schedule

    if ends is None:
        schedule, _ = geometric_ising_beta_schedule(_openjij_graph(problem), num_sweeps=n_sweeps)
    else:
        schedule = [(beta, 1) for beta in np.geomspace(*ends, n_sweeps).tolist()]
    return _openjij(problem, n_chains, schedule, seed)


def _openjij(problem: Problem, n_chains: int, schedule: list[Any], seed: int) -> Sampled:
    from openjij.cxxjij import algorithm, system

    graph, n_units = _openjij_graph(problem), machine(problem).n_units
    chain = system.make_classical_ising(graph.gen_spin(seed), graph)
    states, energies = np.empty((n_chains, n_units), np.int8), np.empty(n_chains)
    for c, key in enumerate(np.random.SeedSequence(seed).generate_state(2 * n_chains).reshape(-1, 2).tolist()):
        chain.reset_spins(graph.gen_spin(key[0]))
        algorithm.Algorithm_SingleSpinFlip_run(chain, key[1], schedule)
        spins = chain.spin[:n_units]
        states[c], energies[c] = spins, graph.calc_energy(spins)
    return states, energies


def dwave(problem: Problem, n_chains: int, n_sweeps: int, rule: str, beta: float, seed: int) -> Sampled:
    """dwave-samplers, in sequential order."""
    schedule = {"beta_schedule_type": "custom", "beta_schedule": [beta], "num_sweeps_per_beta": n_sweeps}
    return _dwave(problem, n_chains, rule, seed, **schedule)


def dwave_annealed(
    problem: Problem, n_chains: int, n_sweeps: int, ends: tuple[float, float] | None, rule: str, seed: int
) -> Sampled:
    """Annealing by dwave-samplers along a geometric schedule between `ends`, its own where left out."""
    return _dwave(problem, n_chains, rule, seed, num_sweeps=n_sweeps, beta_range=ends)


def _dwave(problem: Problem, n_chains: int, rule: str, seed: int, **settings: Any) -> Sampled:
    from dwave.samplers import SimulatedAnnealingSampler

    found = SimulatedAnnealingSampler().sample(
        _dwave_model(problem),
        num_reads=n_chains,
        proposal_acceptance_criteria=rule.capitalize(),
        randomize_order=False,
        seed=seed,
        **settings,
    )
    return _in_order(found)


def mcising(problem: Problem, n_chains: int, n_sweeps: int, rule: str, beta: float, seed: int) -> Sampled:
    """Metropolis, Wolff or Swendsen-Wang by mcising, one chain after the other; ferromagnets only."""
    from mcising import IsingSimulation

    states, energies = np.empty((n_chains, machine(problem).n_units), np.int8), np.empty(n_chains)
    for c in range(n_chains):
        chain = _mcising(IsingSimulation, problem, rule, seed * n_chains + c)
        chain.sweep(n_sweeps, temperature=1.0 / beta)
        states[c], energies[c] = chain.get_spins().ravel(), chain.energy() * states.shape[1]
    return states, energies


def mcising_series(
    problem: Problem, n_chains: int, rule: str, beta: float, n_sweeps: int, burn_in: int, thin: int
) -> tuple[np.ndarray, np.ndarray]:
    """Energies and magnetisations, (n_sweeps // thin, n_chains), of sweeps after `burn_in`."""
    from mcising import IsingSimulation

    found = []
    for c in range(n_chains):
        chain = _mcising(IsingSimulation, problem, rule, c)
        chain.sweep(burn_in, temperature=1.0 / beta)
        found.append(chain.production_sweeps(n_sweeps // thin, thin, temperature=1.0 / beta, store_configs=False))
    columns = [np.stack([rows[name] for rows in found], axis=1) for name in ("energies", "magnetizations")]
    return machine(problem).n_units * columns[0], columns[1]


def _mcising(kind: Any, problem: Problem, rule: str, seed: int) -> Any:
    assert problem.kind == "ferromagnet" and problem.size == (problem.size[0],) * 2
    return kind(problem.size[0], 1.0, 0.0, 0.0, 0.0, seed, rule.replace("-", "_"), "square")


def dwave_tree(n: int) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z, means and second moments by dwave-samplers' tree decomposition.

    Where all units are coupled that is enumeration.
    """
    from dwave.samplers import TreeDecompositionSampler

    model = _dwave_model(Problem("sk", n))
    info = TreeDecompositionSampler().sample(model, beta=1.0, num_reads=1, marginals=True, seed=1).info
    mean, second = np.zeros(n), np.eye(n)
    for i, up in info["variable_marginals"].items():
        mean[i] = 2 * up - 1
    for (i, j), table in info["interaction_marginals"].items():
        second[i, j] = second[j, i] = sum(p * a * b for (a, b), p in table.items())
    return info["log_partition_function"], mean, second


def dwave_lattice(length: int) -> float:
    """log Z of an open lattice by dwave-samplers' tree decomposition, which sums all moments with it."""
    from dwave.samplers import TreeDecompositionSampler

    model = _dwave_model(Problem("open", (length, length)))
    info = TreeDecompositionSampler().sample(model, beta=1.0, num_reads=1, marginals=True, seed=1).info
    return float(info["log_partition_function"])


def dwave_ground_energy(problem: Problem) -> float:
    """The exact one, by dwave-samplers' tree decomposition; for graphs of low treewidth."""
    from dwave.samplers import TreeDecompositionSolver

    return float(TreeDecompositionSolver().sample(_dwave_model(problem)).first.energy)


def _in_order(found: Any) -> Sampled:
    order = np.argsort(np.asarray(list(found.variables)))
    return found.record.sample[:, order], found.record.energy


def split(
    workers: list[ProcessPoolExecutor],
    sampler: Sampler,
    problem: Problem,
    n_chains: int,
    n_sweeps: int,
    rule: str,
    beta: float = 1.0,
) -> Sampled:
    """Share chains among worker processes; the joined states and energies."""
    share = n_chains // len(workers)
    tasks = [pool.submit(sampler, problem, share, n_sweeps, rule, beta, k) for k, pool in enumerate(workers)]
    states, energies = zip(*(task.result() for task in tasks), strict=True)
    return np.concatenate(states), np.concatenate(energies)
