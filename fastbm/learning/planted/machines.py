"""A planted machine: the rows drawn from it, and the quantities that its learned twins are compared with."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ... import diagnostics
from ..._base import rng
from ...inference.exact.method import forecast_seconds
from ...inference.likelihood import log_sums
from ...inference.methods import run_method
from ...inference.monte_carlo import find_burn_in
from ...inference.result import is_sparse
from ...inference.tempering.ladder import make_ladder
from ...machine.machine import BoltzmannMachine
from ...sampling.exact import draw_exactly
from ...sampling.tempering import TemperedChains

N_CHAINS = 64  # that rows are drawn by, and as many for the held-out ones
EXACT_SECONDS = 2.0  # forecast of sums, and of tables to draw from, that are done exactly
LONGEST_BURN_IN, PILOT, LARGEST_THIN = 4_096, 128, 100  # sweeps of ladders
HALVES = (slice(0, N_CHAINS), slice(N_CHAINS, 2 * N_CHAINS))  # chains of rows to learn from, and of held-out ones
N_LADDERS, N_SWEEPS = 32, 4_000  # that measure a machine which cannot be summed


class Rows(NamedTuple):
    """Bits (n_rows, n_visible) to learn from, and as many held out; `sampler` is what drew them."""

    rows: np.ndarray
    holdout: np.ndarray
    sampler: str


class MachineMoments(NamedTuple):
    """Quantities of a machine at a temperature: log Z, and moments of its visible units in spins.

    `method` computed them.

    `pairs` is nan where a moment is not known; `log_p` the mean log-likelihood of rows, with the error of log Z.
    """

    method: str
    mean: np.ndarray
    pairs: np.ndarray
    log_p: float
    log_p_error: float


def draw(model: BoltzmannMachine, beta: float, n_rows: int, seed: int, threads: int) -> Rows:
    """Draw independent rows of the visible units where tables for that can be made, else of tempered chains.

    Chains belong to the seed and their index alone, so that the rows of a smaller set are the first ones of a larger.
    """
    n_samples = -(-n_rows // N_CHAINS)
    seed = rng.derive(seed, rng.SPLIT)
    try:
        about: dict[str, Any] = {"seed": seed, "threads": threads, "max_forecast_seconds": EXACT_SECONDS}
        packed, sampler = draw_exactly(model, beta, (n_samples, 2 * N_CHAINS), **about), "exact"
    except ValueError:  # no engine can take the machine
        packed, sampler = _draw_tempered(model, beta, n_samples, seed, threads), "tempering"
    up = np.unpackbits(packed, axis=2, count=model.n_visible, bitorder="little")
    rows, holdout = (np.ascontiguousarray(up[:, half].reshape(-1, model.n_visible)[:n_rows]) for half in HALVES)
    return Rows(rows, holdout, sampler)


def _draw_tempered(model: BoltzmannMachine, beta: float, n_samples: int, seed: int, threads: int) -> np.ndarray:
    """Draw rows by tempering, two correlation times of the energy apart in a ladder, or a hundred sweeps at most."""
    ladder = make_ladder(model, beta, None, None, seed=seed, threads=threads)
    chains = TemperedChains(model, 2 * N_CHAINS, ladder, seed=seed, threads=threads)
    find_burn_in(chains, LONGEST_BURN_IN)
    energies = chains.record(PILOT, 1)["samples/energy"]
    thin = min(LARGEST_THIN, math.ceil(2 * float(diagnostics.tau_int(energies))))
    packed: np.ndarray = chains.record(n_samples, thin)["samples/states"]
    return packed


def measure(model: BoltzmannMachine, beta: float, holdout: np.ndarray, seed: int, threads: int) -> MachineMoments:
    """Measure a machine, and the likelihood of rows of bits under it.

    By a sum over all states where that is short, else by tempering.
    """
    spins, n = model.to_units("spin"), model.n_visible
    exact = forecast_seconds(spins, moments=True) <= EXACT_SECONDS
    method = "exact" if exact else "tempering"
    options: dict[str, Any] = {"energy_variance": False} if exact else {"n_chains": N_LADDERS, "n_sweeps": N_SWEEPS}
    common: dict[str, Any] = {"beta": beta, "clamp": None, "moments": True, "threads": threads}
    found = run_method(spins, method, seed=rng.derive(seed, rng.MONITOR), **common, **options)
    assert found.log_z is not None and found.mean is not None
    sums, error, *_ = log_sums(spins, spins.convention.values(holdout, np.float64), beta, threads)
    log_p_error = math.hypot(float(found.log_z_error or 0.0), error or 0.0)
    log_p = float(sums.mean() - found.log_z)
    return MachineMoments(method, found.mean[:n], _pairs(found.second_moment, n), log_p, log_p_error)


def _pairs(second_moment: Any, n: int) -> np.ndarray:
    """Return second moments of all pairs of the first `n` units; NaN for those that are not known."""
    i, j = np.triu_indices(n, 1)
    if not is_sparse(second_moment):
        return np.asarray(second_moment[i, j])
    known, full = second_moment.tocoo(), np.full(second_moment.shape, np.nan)
    full[known.row, known.col] = known.data
    return full[i, j]


def root_mean_square(difference: np.ndarray) -> float | None:
    """Return the root mean square of the values that are known; None where none is."""
    known = difference[np.isfinite(difference)]
    return float(np.sqrt(np.mean(known**2))) if known.size else None


def couplings_of(model: BoltzmannMachine) -> np.ndarray:
    """Return the couplings in spins, of all pairs i < j in order."""
    return model.to_units("spin").couplings.matrix()[np.triu_indices(model.n_units, 1)]
