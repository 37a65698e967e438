"""What dimod's samplers have in common: temperatures of their schedules, and the way to a sample set."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

import dimod
import numpy as np

from .._base import checks
from ..machine.machine import BoltzmannMachine
from ..sampling.clamped import Conditioned
from ..sampling.own_temperatures import own_betas
from ..sampling.settings import knots

_SEEDS = 1 << 32


def seed_of(seed: int | None) -> int:
    """Return the seed that is given, or one that is drawn."""
    return secrets.randbelow(_SEEDS) if seed is None else checks.whole("seed", seed, most=_SEEDS - 1)


def limit_of(seconds: Any) -> float | None:
    """Return a limit of time that was given, if any."""
    return None if seconds is None else checks.real("time_limit", seconds, least=0.0)


def range_of(
    model: BoltzmannMachine, given: Sequence[float] | None, threads: int | None, *, anneals: bool
) -> tuple[float, float]:
    """Return the hot and the cold end: those given, or what the model's own fields suggest."""
    if given is None:
        own = own_betas(Conditioned(model, None, 1), threads or 1)
        hot, cold = (own.first, own.last) if anneals else (own.hot, own.cold)
        return (hot, cold) if np.isfinite(cold) else (0.1, 1.0)  # where all states are alike
    if np.shape(given) != (2,):
        raise ValueError(f"beta_range must be (hot, cold); got {given!r}.")
    hot, cold = (checks.real("beta_range", value, least=0.0) for value in given)
    if hot > cold:
        raise ValueError(f"beta_range must lead from hot to cold, the smaller one first; got {hot:g} and {cold:g}.")
    if hot == cold and not anneals:
        raise ValueError(f"beta_range must have two ends, between which replicas swap; got {hot:g} twice.")
    return hot, cold


def schedule_of(
    model: BoltzmannMachine, num_sweeps: int | None, per_beta: int, given: Sequence[float] | None, kind: str,
    custom: Sequence[float] | None, threads: int | None,
) -> list[float]:  # fmt: skip
    """Return the inverse temperatures of a schedule, each held for `per_beta` sweeps."""
    per_beta = checks.whole("num_sweeps_per_beta", per_beta, least=1)
    if (kind == "custom") != (custom is not None):
        raise ValueError('beta_schedule goes with beta_schedule_type="custom", which needs it.')
    if custom is not None:
        betas = checks.finite_array("beta_schedule", custom)
        if betas.ndim != 1 or not len(betas) or given is not None:
            raise ValueError("beta_schedule must be a list of numbers, and beta_range be left out.")
        if num_sweeps not in (None, per_beta * len(betas)):
            raise ValueError(
                f"num_sweeps must be num_sweeps_per_beta times the length of beta_schedule, {per_beta * len(betas)}; "
                f"got {num_sweeps}. Leave it out."
            )
        single = [checks.real("beta_schedule", float(beta), least=0.0) for beta in betas[:1]]
        return _cooling("beta_schedule", list(knots("beta_schedule", betas)) if len(betas) > 1 else single, per_beta)
    num_sweeps = checks.whole("num_sweeps", 1000 if num_sweeps is None else num_sweeps, least=1)
    if num_sweeps % per_beta:
        raise ValueError(f"num_sweeps must be a multiple of num_sweeps_per_beta ({per_beta}); got {num_sweeps}.")
    hot, cold = range_of(model, given, threads, anneals=True)
    n = num_sweeps // per_beta
    if kind == "geometric" and not hot:
        raise ValueError('beta_range must begin above 0 for beta_schedule_type="geometric"; "linear" takes 0.')
    betas = np.geomspace(hot, cold, n) if kind == "geometric" else np.linspace(hot, cold, n)
    betas[-1] = cold
    return _cooling("beta_range", np.maximum.accumulate(betas).tolist(), per_beta)


def _cooling(name: str, betas: list[float], per_beta: int) -> list[float]:
    """Return inverse temperatures, but refuse a single sweep that cools down to nothing."""
    if len(betas) == per_beta == 1 and not betas[0]:
        raise ValueError(f"{name} must end above 0 for a schedule of one sweep, which cools down to it; got 0.")
    return betas


def rows_of(states: dimod.SampleSet, bqm: dimod.BinaryQuadraticModel) -> np.ndarray:
    """Return states in the model's variables, in their order."""
    changed = states.change_vartype(bqm.vartype, inplace=False)
    place = [changed.variables.index(name) for name in bqm.variables]
    return np.asarray(changed.record.sample)[:, place]


def sample_set(
    states: np.ndarray, bqm: dimod.BinaryQuadraticModel, n_best: int | None, **vectors: np.ndarray
) -> dimod.SampleSet:
    """Return states (n, n_units) as a sample set; the `n_best` lowest distinct ones where that is asked for."""
    if n_best is not None:
        states = np.unique(states, axis=0)
    found = dimod.SampleSet.from_samples_bqm((states, list(bqm.variables)), bqm, **vectors)
    if n_best is None:
        return found
    return found.slice(n_best) if len(found) else found


def nothing(bqm: dimod.BinaryQuadraticModel, num_reads: int) -> dimod.SampleSet:
    """Return the reads of a problem without variables."""
    return dimod.SampleSet.from_samples_bqm((np.empty((num_reads, 0), np.int8), []), bqm)


def timing_of(started: int, ready: int, done: int) -> Mapping[str, int]:
    """Return what dwave-samplers tells of time, in nanoseconds."""
    return {
        "preprocessing_ns": ready - started,
        "sampling_ns": done - ready,
        "postprocessing_ns": time.perf_counter_ns() - done,
    }
