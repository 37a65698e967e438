"""The two ends of an annealing path, the steps between them, and states from which walks down it begin."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np

from ... import diagnostics
from ..._base import checks, rng
from ...diagnostics.ranks import split_ratio
from ...exact.choice import BUILT_IN, LARGEST_GIGABYTES
from ...exact.plan import Source
from ...machine.machine import BoltzmannMachine
from ...sampling import make_chains
from ...sampling.exact import ENGINES
from .walks import make_walk

N_BETAS = 1_000  # of a path, unless told
PILOT_CHAINS = 64
PILOT_PART = 4  # the pilot takes one step for this many of the run, within the two limits that follow
FEWEST, MOST = 20, 200
EVEN = 0.1  # part of a path's length that is spread evenly in t
N_SWEEPS = 1_000  # of Gibbs chains, unless told
LONGEST = 60.0  # seconds of one core, as forecast, that "auto" gives to exact tables
FLAT = 1e-12  # variance within rounding: energies that are all alike must not seem to differ between chains


def check_betas(name: str, betas: Any) -> np.ndarray:
    """Check the user's own path."""
    path = checks.finite_array(name, betas)
    if path.ndim != 1 or len(path) < 2 or path[0] != 0.0 or path[-1] != 1.0 or np.any(np.diff(path) <= 0):
        raise ValueError(f"{name} must increase from 0.0 to 1.0; got {np.array2string(path, threshold=6)}.")
    return path


def make_path(n_betas: int | None, betas: np.ndarray | None) -> np.ndarray:
    """Return a path in equal steps, or the user's own."""
    return np.linspace(0.0, 1.0, n_betas or N_BETAS) if betas is None else betas


def adapt_path(
    model: BoltzmannMachine, beta: float, base: np.ndarray, n_betas: int, kind: str, seed: int, threads: int
) -> np.ndarray:
    """Return a path whose steps raise the variance of log w equally, as a short pilot saw it.

    A step adds (step sigma)^2, where sigma^2 is the variance of d log f_t / dt at t, so that steps of equal length
    integral sigma dt share it equally (Gelman and Meng, Stat. Sci. 13, 163 (1998), doi:10.1214/ss/1028905934).
    """
    streams = rng.streams(rng.derive(seed, rng.PILOT), PILOT_CHAINS)
    walk = make_walk(model, beta, base, streams, threads, kind)
    grid = np.linspace(0.0, 1.0, min(max(n_betas // PILOT_PART, FEWEST), MOST) + 1)
    walk.begin()
    before, length = walk.log_w, [0.0]
    for k in range(len(grid) - 1):
        walk.follow(grid[k : k + 2])
        after = walk.log_w
        length.append(length[-1] + float((after - before).std()))
        before = after
    whole = length[-1] or 1.0
    measure = (1.0 - EVEN) * np.array(length) / whole + EVEN * grid
    path = np.interp(np.linspace(0.0, measure[-1], n_betas), measure, grid)
    path[0], path[-1] = 0.0, 1.0
    return path


class Starts(NamedTuple):
    """States as bits (n_chains, n_units), and whether they are samples of the machine: None where that is exact."""

    up: np.ndarray
    converged: bool | None
    detail: dict[str, Any]


def draw_starts(
    model: BoltzmannMachine, beta: float, n_chains: int, source: str, n_sweeps: int, seed: int, threads: int
) -> Starts:
    """Draw from the exact distribution, or by Gibbs chains of `n_sweeps` sweeps.

    "auto" takes the first where it is soon done.

    Raises
    ------
    ValueError
        If exact samples are asked for and cannot be had.
    """
    found = None if source == "gibbs" else _cheapest(model, beta, n_chains, threads)
    if source == "gibbs" or (source == "auto" and (found is None or found[1] > LONGEST)):
        return _gibbs(model, beta, n_chains, n_sweeps, seed, threads)
    if found is None:
        raise ValueError(
            f"source='exact' cannot make its tables for {model.n_units} units within {LARGEST_GIGABYTES:g} GB. "
            'Use source="tempering", or clamp units.'
        )
    name, _, exact = found
    streams = np.ascontiguousarray(rng.streams(seed, n_chains).T)
    return Starts(exact.draw(streams, 1, threads)[0], None, {"source": "exact", "source engine": name})


def _cheapest(
    model: BoltzmannMachine, beta: float, n_chains: int, threads: int
) -> tuple[str, float, Source] | None:  # fmt: skip
    """Return the engine with the least forecast on one thread, whatever the machine; None where none has tables."""
    best: tuple[str, float, Source] | None = None
    for name, module in ENGINES.items():
        if name == "layers" and not model.is_layered:
            continue
        make = importlib.import_module(f"fastbm.exact.{module}").source
        about = {"max_bytes": 1e9 * LARGEST_GIGABYTES, "speeds": BUILT_IN}
        source = make(model, beta, threads=1, **about)
        seconds = source.forecast.seconds + n_chains * source.draw_seconds
        if math.isfinite(seconds) and (best is None or seconds < best[1]):
            planned = make(model, beta, threads=threads, **about)
            if math.isfinite(planned.forecast.seconds):
                best = name, seconds, planned
    return best


def _gibbs(model: BoltzmannMachine, beta: float, n_chains: int, n_sweeps: int, seed: int, threads: int) -> Starts:
    """Return the last states of chains from random states, and whether they converged.

    They are declared converged by split R-hat of the energy and of every unit over the second half of the sweeps.
    """
    chains = make_chains(model, n_chains, beta=beta, summed=True, seed=seed, threads=threads)
    chains.sweep(n_sweeps // 2)
    size = (n_sweeps - n_sweeps // 2) // 2
    origin = chains.quick_energies()[0]
    means, squares = np.zeros((2, n_chains, 1 + model.n_units)), np.zeros((2, n_chains))
    for half in range(2):
        for _ in range(size):
            chains.sweep(1)
            rise = beta * (chains.quick_energies() - origin)
            squares[half] += rise**2
            means[half, :, 0] += rise
            means[half, :, 1:] += chains.bits()
    r_hat = _split_r_hat(means.reshape(2 * n_chains, -1), squares.ravel(), size) if size > 1 else math.inf
    converged = n_chains > 1 and r_hat <= diagnostics.R_HAT_LIMIT
    return Starts(chains.bits(), converged, {"source": "gibbs", "n_sweeps": n_sweeps, "r_hat": r_hat})


def _split_r_hat(sums: np.ndarray, squares: np.ndarray, size: int) -> float:
    """Return the largest R-hat of half-chains of `size` samples, from their sums.

    These are sums (n_halves, 1 + n_units) of beta E and of bits, and those of (beta E)^2.
    """
    means = sums / size
    second = means.copy()  # bits are their own squares
    second[:, 0] = squares / size
    within = np.maximum(second - means**2, 0.0).mean(axis=0) * size / (size - 1)
    return float(np.max(split_ratio(within + FLAT, size * means.var(axis=0, ddof=1), size)))
