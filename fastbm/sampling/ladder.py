"""A short annealing that measures how far the energy fluctuates at every beta, and ladders made from it.

Two neighbours of a ladder whose energies are Gaussian with standard deviation sigma swap with probability
erfc(step sigma / 2), so that steps of equal thermodynamic length, the integral of sigma over beta, swap equally often.

Kofke, J. Chem. Phys. 117, 6911 (2002), doi:10.1063/1.1507776; Predescu, Predescu and Ciobanu, J. Chem. Phys. 120, 4119
(2004), doi:10.1063/1.1644093.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from .._base import rng
from .._base.arrays import near_one
from .._base.halting import Halted
from ..machine.machine import BoltzmannMachine
from .chains import make_chains, threads_between
from .engine.engine import Engine
from .engine.lookup import LookupChains
from .engine.temperatures import TemperingChains

SWAP_RATE = 0.3
MOST_BETAS, MOST_STEPS = 64, 4096
GRID = 40  # temperatures of the pilot
SWEEPS = 64  # at each of them; energies of the second half are kept
SECONDS = 1.0  # of one core, about: fewer sweeps are done where these would take longer
MANY_UNITS = 4096  # beyond it 16 chains are enough
TIE = 1e-3  # part of a ladder's length that is spread evenly, so that steps stay finite where nothing fluctuates


class Profile(NamedTuple):
    """Mean and standard deviation of the energy (without offset) at increasing inverse temperatures."""

    betas: np.ndarray
    mean: np.ndarray
    std: np.ndarray


def energy_profile(
    model: BoltzmannMachine,
    beta_low: float,
    beta_high: float,
    *,
    rule: str = "gibbs",
    in_words: bool = False,
    seed: int = 0,
    threads: int | None = None,
    halt: Callable[[], bool] | None = None,
) -> Profile:
    """Measure the energy's fluctuations between two inverse temperatures.

    Parameters
    ----------
    rule : {"gibbs", "metropolis"}
    in_words : bool
        Whether the run that follows takes the kernel "lookup": chains then take it too, up to 4096 units, beyond which
        tables would take longer than sweeps. It is the faster, and no other is compiled.
    seed : int
        Random numbers are the pilot's own: the run that follows with the same seed shares none of them.
    halt : function, optional
        Asked between sweeps: true if a stop is wanted.

    Returns
    -------
    Profile
        Good to some per cent where chains relax within a few sweeps; below a glass transition it is that of the
        valleys in which chains are caught. It does not depend on `threads`.

    Raises
    ------
    Halted
        If a stop was wanted.

    Notes
    -----
    64 chains (16 beyond 4096 units) are annealed over 40 temperatures, even in asinh(2 beta s) with s the standard
    deviation of the energy at beta = 0 over sqrt(n_units): linear where the machine is hot, logarithmic where it is
    cold. Cost: at most 2560 sweeps, fewer where they would take more than a second of one core.
    """
    small = model.n_units <= MANY_UNITS
    n_chains = 64 if small else 16
    chains = make_chains(
        model,
        n_chains,
        rule=rule,
        kernel="lookup" if in_words and small else None,
        beta=beta_low,
        highest_beta=beta_high,
        seed=rng.derive(seed, rng.PILOT),
        threads=threads_between(model, n_chains, GRID * SWEEPS, threads),
    )
    if halt is not None:
        chains.halt = halt
    scale = spread_of(_energies(chains)) / math.sqrt(model.n_units)
    betas = asinh_grid(beta_low, beta_high, scale)
    work = chains.attempt_seconds * chains.n_units * chains.n_chains  # whatever the number of threads
    n_sweeps = int(min(max(SECONDS / (GRID * work), 1), SWEEPS))
    found = _measure_all(chains, betas, n_sweeps // 2, -(-n_sweeps // 2))
    return Profile(betas, np.array([np.mean(some) for some in found]), np.array([spread_of(some) for some in found]))


def asinh_grid(beta_low: float, beta_high: float, scale: float) -> np.ndarray:
    """Return the inverse temperatures of a profile, equidistant in asinh, the first and the last exactly as given."""
    betas = np.linspace(beta_low, beta_high, GRID)
    if scale > 0.0:
        low, high = np.arcsinh(2.0 * scale * betas[[0, -1]])
        betas[1:-1] = np.sinh(np.linspace(low, high, GRID))[1:-1] / (2.0 * scale)
    return betas


def _measure_all(chains: Engine, betas: np.ndarray, n_before: int, n_sweeps: int) -> list[np.ndarray]:
    """Do what `measure` does at each of `betas`; return what it does there, (n_sweeps, n_chains) each."""
    if isinstance(chains, TemperingChains) and chains.tempers(n_before + n_sweeps):
        if chains.halt():
            raise Halted
        return np.split(chains.measure(n_before, n_sweeps, betas), len(betas))
    found = []
    for beta in betas:
        chains.set_beta(np.full(chains.n_chains, beta))
        if chains.halt():
            raise Halted
        found.append(measure(chains, n_before, n_sweeps))
    return found


def measure(chains: Engine, n_before: int, n_sweeps: int) -> np.ndarray:
    """Do sweeps, then `n_sweeps` more; return what `quick_energies` does after each of these, (n_sweeps, n_chains)."""
    if isinstance(chains, LookupChains):
        return chains.measure(n_before, n_sweeps)
    if isinstance(chains, TemperingChains) and chains.tempers(n_before + n_sweeps):
        return chains.measure(n_before, n_sweeps)
    found = np.empty((n_sweeps, chains.n_chains))
    if n_before:
        chains.sweep(n_before)
    for t in range(n_sweeps):
        chains.sweep(1)
        found[t] = chains.quick_energies()
    return found


def _energies(chains: Engine) -> np.ndarray:
    """Return energies, (n_chains,), by a kernel that the measurements take too where there is one."""
    if isinstance(chains, TemperingChains) and chains.tempers(1):
        return chains.measure_now()
    return chains.quick_energies()


def spread_of(energies: np.ndarray) -> float:
    """Return the standard deviation of energies, also of ones whose squares overflow or underflow."""
    energies, exponent = near_one(energies)
    return math.ldexp(float(np.std(energies)), exponent)


def equal_steps(profile: Profile, n_betas: int | None = None, *, step: float | None = None) -> np.ndarray:
    """Return a ladder whose steps have equal thermodynamic length.

    Parameters
    ----------
    profile : Profile
    n_betas : int, optional
        Length of the ladder, at least 2; left out, enough for a swap rate of about 0.3, at most 64: steps are then
        sqrt(2) z / sigma with z the upper 15 % point of a normal distribution, from 0.3 = erfc(step sigma / 2).
    step : float, optional
        Length of a step, in place of that for swaps; there are then at most 4096.

    Returns
    -------
    (n_betas,) array
        Strictly increasing, from the first to the last beta of the profile.
    """
    (knots, unit), (std, energy_unit) = near_one(profile.betas), near_one(profile.std)
    betas = np.linspace(0, len(knots) - 1, 16 * (len(knots) - 1) + 1)
    betas = np.interp(betas, np.arange(len(knots)), knots)
    std = np.interp(betas, knots, std)
    length = np.concatenate([[0.0], np.cumsum(np.diff(betas) * (std[1:] + std[:-1]) / 2)])
    if n_betas is None:
        most = MOST_BETAS if step is None else MOST_STEPS
        step = step or -math.sqrt(2.0) * NormalDist().inv_cdf(SWAP_RATE / 2)
        steps = min(np.ldexp(length[-1], unit + energy_unit) / step, float(most))
        n_betas = min(max(2, math.ceil(steps) + 1), most)
    length += (TIE * length[-1] or 1.0) * (betas - betas[0]) / (betas[-1] - betas[0])
    ladder = np.ldexp(np.interp(np.linspace(0.0, length[-1], n_betas), length, betas), unit)
    ladder[0], ladder[-1] = profile.betas[0], profile.betas[-1]
    return ladder
