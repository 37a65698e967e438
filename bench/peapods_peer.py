"""peapods, which samples lattices with replicas on threads of its own.

Its random streams are numbered from the same start in every process, so that two processes would run the same chains:
it gets the process of the bench, and uses both processors by itself.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from .problems import Problem, forward_bonds, machine

STATISTICS_OFF = 1.0  # the part of the sweeps that is not measured


def sweep(problem: Problem, n_chains: int, n_sweeps: int, rule: str, beta: float, threads: int) -> np.ndarray:
    """States (n_chains, n_units) after sweeps without measurements."""
    model = _model(problem, n_chains, [beta])
    _run(model, n_sweeps, threads, sweep_mode=rule, warmup_ratio=STATISTICS_OFF)
    return _states(model, problem)


def temper(problem: Problem, n_ladders: int, n_sweeps: int, betas: list[float], threads: int) -> np.ndarray:
    """States (n_ladders and temperatures, n_units) after sweeps with swaps after each, without measurements."""
    model = _model(problem, n_ladders, betas)
    _run(model, n_sweeps, threads, sweep_mode="gibbs", pt_interval=1, warmup_ratio=STATISTICS_OFF)
    return _states(model, problem)


def cluster_series(problem: Problem, n_chains: int, n_sweeps: int, rule: str, beta: float, burn_in: int) -> np.ndarray:
    """States (n_sweeps, n_chains, n_units) after every Metropolis sweep and cluster update that follow `burn_in`.

    peapods never leaves the single-unit sweep out.
    """
    moves = {"cluster_update_interval": 1, "cluster_mode": {"wolff": "wolff", "swendsen-wang": "sw"}[rule]}
    model = _model(problem, n_chains, [beta])
    _run(model, burn_in, 1, warmup_ratio=STATISTICS_OFF, **moves)
    states = np.empty((n_sweeps, n_chains, machine(problem).n_units), np.int8)
    for row in states:
        _run(model, 1, 1, warmup_ratio=STATISTICS_OFF, **moves)
        row[:] = _states(model, problem)
    return states


def tempering_tau(
    problem: Problem, n_chains: int, n_sweeps: int, betas: list[float], burn_in: int, longest: int
) -> tuple[float, float]:
    """tau_int of the squared overlap of pairs of replicas at the last of `betas`, and the mean energy there.

    In sweeps, with swaps after each; by peapods' own estimate (Sokal's window, correlations up to `longest` sweeps).
    """
    model = _model(problem, n_chains, betas)
    sweeps, warm = n_sweeps + burn_in, burn_in / (n_sweeps + burn_in)
    settings = {"pt_interval": 1, "warmup_ratio": warm, "autocorrelation_max_lag": longest}
    found = _run(model, sweeps, 1, sweep_mode="gibbs", **settings)
    return float(found["overlap2_tau"][-1]), -float(found["energies"][-1]) * machine(problem).n_units


def _model(problem: Problem, n_chains: int, betas: list[float]) -> Any:
    os.environ.setdefault("RAYON_NUM_THREADS", "2")  # read when the first parallel sweep starts
    from peapods import Ising

    temperatures = 1.0 / np.asarray(betas)
    return Ising(problem.size, couplings=forward_bonds(problem), temperatures=temperatures, n_replicas=n_chains)


def _run(model: Any, n_sweeps: int, threads: int, **settings: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it divides by the number of measurements
        return model.sample(n_sweeps, sequential=threads == 1, **settings)


def _states(model: Any, problem: Problem) -> np.ndarray:
    return model._sim.get_spins().reshape(-1, machine(problem).n_units)
