"""Peers from other packages, run in worker processes, where their models are built once and kept."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import numpy as np

import fastbm as bm

MODEL_SEED = 1


def glass(n: int) -> bm.BoltzmannMachine:
    """The spin glass that every program samples."""
    return bm.models.sherrington_kirkpatrick(n, seed=MODEL_SEED)


@cache
def _openjij_model(n: int) -> Any:
    from openjij.model.model import BinaryQuadraticModel

    weights = glass(n).weights
    pairs = {(int(i), int(j)): -float(weights[i, j]) for i, j in zip(*np.triu_indices(n, 1), strict=True)}
    return BinaryQuadraticModel(dict.fromkeys(range(n), 0.0), pairs, 0.0, "SPIN", sparse=False)


@cache
def _dwave_model(n: int) -> Any:
    from dimod import BinaryQuadraticModel

    i, j = np.triu_indices(n, 1)
    return BinaryQuadraticModel.from_numpy_vectors(np.zeros(n), (i, j, -glass(n).weights[i, j]), 0.0, "SPIN")


def openjij(n: int, n_chains: int, n_sweeps: int, rule: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States and energies by OpenJij's dense engine (its default is the sparse one, slower here), Metropolis.

    A seed given to OpenJij is that of every chain, which makes them all the same one, so none is given.
    """
    from openjij import SASampler

    assert rule == "metropolis"
    found = SASampler().sample(_openjij_model(n), schedule=[[1.0, n_sweeps]], num_reads=n_chains, sparse=False)
    return _in_order(found)


def dwave(n: int, n_chains: int, n_sweeps: int, rule: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States and energies by dwave-samplers, in sequential order."""
    from dwave.samplers import SimulatedAnnealingSampler

    found = SimulatedAnnealingSampler().sample(
        _dwave_model(n),
        num_reads=n_chains,
        beta_schedule_type="custom",
        beta_schedule=[1.0],
        num_sweeps_per_beta=n_sweeps,
        proposal_acceptance_criteria=rule.capitalize(),
        randomize_order=False,
        seed=seed,
    )
    return _in_order(found)


def dwave_tree(n: int) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z, means and second moments by dwave-samplers' tree decomposition.

    Where all units are coupled that is enumeration.
    """
    from dwave.samplers import TreeDecompositionSampler

    info = TreeDecompositionSampler().sample(_dwave_model(n), beta=1.0, num_reads=1, marginals=True, seed=1).info
    mean, second = np.zeros(n), np.eye(n)
    for i, up in info["variable_marginals"].items():
        mean[i] = 2 * up - 1
    for (i, j), table in info["interaction_marginals"].items():
        second[i, j] = second[j, i] = sum(p * a * b for (a, b), p in table.items())
    return info["log_partition_function"], mean, second


def _in_order(found: Any) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(np.asarray(list(found.variables)))
    return found.record.sample[:, order], found.record.energy


def split(workers: list[ProcessPoolExecutor], function: Any, n: int, n_chains: int, n_sweeps: int, rule: str) -> Any:
    """Share chains among worker processes; the joined states and energies."""
    share = n_chains // len(workers)
    tasks = [pool.submit(function, n, share, n_sweeps, rule, k) for k, pool in enumerate(workers)]
    return tuple(np.concatenate(parts) for parts in zip(*(task.result() for task in tasks), strict=True))
