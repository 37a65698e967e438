"""States of a machine from which walks down a path begin."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

import numpy as np

from .. import _checks, diagnostics, rng
from ..diagnostics.ranks import split_ratio
from ..exact.choosing import BUILT_IN, LARGEST_GIGABYTES
from ..exact.plan import Source
from ..model import BoltzmannMachine
from ..sampling import make_chains
from ..sampling.exact_sources import ENGINES

SOURCES = ("tempering", "exact", "gibbs")
N_SWEEPS = 1_000  # of Gibbs chains, unless told
LONGEST = 60.0  # seconds of one core, as forecast, that "auto" gives to exact tables
FLAT = 1e-12  # variance within rounding: energies that are all alike must not seem to differ between chains


class Starts(NamedTuple):
    """States as bits (n_chains, n_units), and whether they are samples of the machine: None where that is exact."""

    up: np.ndarray
    converged: bool | None
    detail: dict[str, Any]


def check_source(source: Any, n_sweeps: Any) -> tuple[str, int]:
    """Check the options that say where states come from, and return what is left open."""
    source = _checks.choice("source", "tempering" if source is None else source, SOURCES)
    return source, _checks.whole("n_sweeps", N_SWEEPS if n_sweeps is None else n_sweeps, least=2)


def draw_starts(
    model: BoltzmannMachine, beta: float, n_chains: int, source: str, n_sweeps: int, seed: int, threads: int
) -> Starts:
    """Draw from the exact distribution, or by Gibbs chains of `n_sweeps` sweeps; "auto" takes the first where it is
    soon done.

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
    """The engine with the least forecast on one thread, whatever the machine; None where none has tables."""
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
    """The last states of chains from random states; they are declared converged by split R-hat of the energy and of
    every unit over the second half of the sweeps.
    """
    chains = make_chains(model, n_chains, beta=beta, seed=seed, threads=threads)
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
    """The largest R-hat of half-chains of `size` samples, from their sums (n_halves, 1 + n_units) of beta E and of
    bits, and those of (beta E)^2.
    """
    means = sums / size
    second = means.copy()  # bits are their own squares
    second[:, 0] = squares / size
    within = np.maximum(second - means**2, 0.0).mean(axis=0) * size / (size - 1)
    return float(np.max(split_ratio(within + FLAT, size * means.var(axis=0, ddof=1), size)))
