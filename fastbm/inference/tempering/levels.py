"""What the samples of all levels of a ladder tell: log Z, energies and their errors, level by level.

First-order terms say what every sample adds to a value (the delta method): their mean over all samples is the deviation
that the samples' noise makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from ... import diagnostics
from ..._base.arrays import near_one
from ..._base.threads import fan_out
from ...diagnostics.autocorrelation import MANY_CHAINS, tau_and_error
from ...machine.machine import BoltzmannMachine
from ...sampling.unseen import unseen
from ..result import Inference
from ..scout.bases import unseen_starts
from ..scout.product_path import ProductPath
from ..temperatures import FEWEST_SPREAD, KEY, Errors, curves, spread_error
from .ladder import free_log_z
from .log_ratios import LogRatios

FALSE_ALARM = 1e-3  # of all drifts together


class Told(NamedTuple):
    """What is told of all levels: `tau` is the autocorrelation time of each, in samples.

    `drifts` says whether any level still relaxes, as far as many ladders can tell.
    """

    found: Inference
    ratios: LogRatios
    tau: np.ndarray
    drifts: bool


def of_temperatures(
    model: BoltzmannMachine,
    betas: np.ndarray,
    solve: Callable[..., LogRatios],
    energies: np.ndarray,
    n_up: np.ndarray | None,
    detail: dict[str, Any],
    threads: int,
) -> Told:
    """Tell of energies (n_samples, n_chains, n_betas), and of how often units were up, as counted."""
    ratios = solve(betas, energies, threads)
    about = detail | {"overlap": ratios.overlap, **ratios.detail}
    found = _result(model, betas, energies, free_log_z(model), ratios, n_up, about, threads)
    return Told(found, ratios, found.detail["tau_int"], _any_drifts(energies, ratios.terms, threads))


def of_levels(
    model: BoltzmannMachine,
    beta: float,
    path: ProductPath,
    levels: np.ndarray,
    solve: Callable[..., LogRatios],
    apart: np.ndarray,
    at_target: np.ndarray,
    detail: dict[str, Any],
    threads: int,
) -> Told:
    """Tell of levels along a path, which are no temperatures, from D at each, `apart`, and energies at the target."""
    ratios = solve(levels, apart, threads)
    own, log_z0, end = at_target + model.offset, path.log_z0 - beta * model.offset, ratios.last()
    step, every = float(np.diff(levels).max()), np.arange(model.n_units)
    missed = unseen_starts(model, beta, path.base, own.size, step, every)
    end = end._replace(floor=np.hypot(end.floor, missed))
    about = detail | {"overlap": ratios.overlap, **ratios.detail, "levels": levels}
    found = _result(model, np.array([beta]), own[..., None], log_z0, end, None, about, threads)
    tau = fan_out(lambda k: float(diagnostics.tau_int(apart[..., k])), range(len(levels)), threads)
    return Told(found, ratios, np.array(tau), _any_drifts(apart, ratios.terms, threads))


def _any_drifts(energies: np.ndarray, terms: np.ndarray, threads: int) -> bool:
    if energies.shape[0] < 2 or energies.shape[1] < MANY_CHAINS:
        return False
    return any(fan_out(_drifts, (energies, terms), threads))


def _drifts(values: np.ndarray) -> bool:
    """Return whether the mean over the later half differs from that over the first, by Student's t of the ladders."""
    half, n_ladders = len(values) // 2, values.shape[1]
    moved, exponent = near_one(values[-half:].mean(axis=0) - values[:half].mean(axis=0))
    error = moved.std(axis=0, ddof=1) / math.sqrt(n_ladders)
    most = -float(stdtrit(n_ladders - 1, FALSE_ALARM / (2 * values.shape[2])))
    rounding = 1e-12 * math.ldexp(max(float(values.max()), -float(values.min())), -exponent)
    return bool((np.abs(moved.mean(axis=0)) > most * error + rounding).any())


def _of_energy(energies: np.ndarray) -> tuple[float, ...]:
    """Return mean and variance of energies (n_samples, n_chains), their autocorrelation time in samples, and errors.

    The errors are those of the mean and of the variance.
    """
    mean = energies.mean()
    off = energies - mean
    squares = off**2
    variance = squares.mean()
    squares -= variance
    tau, error = tau_and_error(off)
    return mean, variance, tau, _with_spread(error, off), _error(squares)


def _of_log_z(beta: float, energies: np.ndarray, terms: np.ndarray) -> tuple[float, float]:
    """Return errors of log Z, of which first-order terms are given, and of the entropy, log Z + beta <E>."""
    return _error(terms), _error(terms + beta * (energies - energies.mean()))


def _error(terms: np.ndarray) -> float:
    return _with_spread(diagnostics.standard_error(terms), terms)


def _with_spread(error: float, terms: np.ndarray) -> float:
    """Return the error of the mean of terms (n_samples, n_chains), or what chains tell, if that is more."""
    if terms.shape[1] < FEWEST_SPREAD:
        return error
    return max(error, float(spread_error(terms.mean(axis=0))))


def _result(
    model: BoltzmannMachine,
    betas: np.ndarray,
    energies: np.ndarray,
    log_z0: float,
    ratios: LogRatios,
    n_up: np.ndarray | None,
    detail: dict[str, Any],
    threads: int,
) -> Inference:
    """Put the result together, without moments at the target."""
    jobs: list[Callable[[], tuple[float, ...]]] = []  # two of each level, as there may be few
    for k in range(len(betas)):
        jobs.append(partial(_of_energy, energies[..., k]))
        jobs.append(partial(_of_log_z, betas[k], energies[..., k], ratios.terms[..., k]))
    seen = fan_out(lambda job: job(), jobs, threads)
    mean, variance, tau, of_mean, of_variance = map(np.array, zip(*seen[::2], strict=True))
    of_log_z, of_entropy = map(np.array, zip(*seen[1::2], strict=True))
    errors = Errors(of_log_z, of_mean, of_variance, of_entropy)
    ess = energies[..., 0].size / (2.0 * tau)
    missed = unseen(model, betas, ess)
    found = curves(betas, log_z0 + ratios.log_z, mean, variance, errors, missed, ratios.floor)
    if n_up is not None:
        equal, of = np.full(n_up.shape[:2], 1.0 / len(n_up)), np.full(len(n_up), len(energies))
        found = found.with_means(model.convention, list(n_up.swapaxes(0, 1)), of, equal, missed, spread_error, threads)
    alone = energies[..., 0].size == 1  # one sample tells no error
    curved = not alone and detail["start"] == "uniform"
    return Inference(
        "tempering",
        log_z=float(found.log_z[-1]),
        log_z_error=None if alone else float(found.log_z_error[-1]),
        energy=float(mean[-1]),
        energy_error=None if alone else float(found.energy_error[-1]),
        energy_variance=float(variance[-1]),
        entropy=float(found.entropy[-1]),
        n_samples=energies[..., 0].size,
        ess=float(ess[-1]),
        detail=detail | {"tau_int": tau} | ({KEY: found.as_detail()} if curved else {}),
    )
