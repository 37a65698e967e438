"""Where `sampled-states` takes its states from: sequential dynamics at the target, tempered, or annealed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..model import BoltzmannMachine
from ..sampling import Chains, make_chains
from ..sampling.annealing import AnnealedChains, make_schedule, resolve_schedule
from ..sampling.tempering import TemperedChains
from .monte_carlo import find_burn_in

SOURCES = ("chains", "tempering", "annealing")
PIECE_BYTES = 1 << 24  # of packed states that are held at once, about

Visited = Iterator[tuple[np.ndarray, np.ndarray]]


def visit_chains(
    model: BoltzmannMachine,
    n_chains: int,
    n_sweeps: int,
    thin: int,
    burn_in: int | None,
    *,
    beta: float,
    order: str | None,
    seed: int,
    threads: int,
) -> Visited:
    """States of chains at the target, packed (n, n_chains, bytes), with their energies (n, n_chains), without offset.

    `burn_in` None goes on until the energy is stationary, for at most `n_sweeps`.
    """
    chains = make_chains(model, n_chains, order=order, beta=beta, seed=seed, threads=threads)
    return _recorded(chains, n_sweeps, thin, burn_in)


def visit_tempered(
    model: BoltzmannMachine,
    n_chains: int,
    n_sweeps: int,
    thin: int,
    burn_in: int | None,
    *,
    beta: float,
    order: str | None,
    seed: int,
    threads: int,
    ladder: np.ndarray,
) -> Visited:
    """The same of ladders of replicas, their states at the target."""
    chains = TemperedChains(model, n_chains, ladder, order=order, seed=seed, threads=threads)
    return _recorded(chains, n_sweeps, thin, burn_in)


def _recorded(chains: Chains | TemperedChains, n_sweeps: int, thin: int, burn_in: int | None) -> Visited:
    if burn_in is None:
        find_burn_in(chains, n_sweeps)
    else:
        chains.sweep(burn_in)
    left = n_sweeps // thin
    piece = max(1, PIECE_BYTES // (chains.n_chains * (-(-chains.n_units // 8) + 8)))
    while left:
        rows = chains.record(min(piece, left), thin)
        yield rows["samples/states"], rows["samples/energy"]
        left -= len(rows["samples/energy"])


def visit_annealed(
    model: BoltzmannMachine,
    n_chains: int,
    n_sweeps: int,
    thin: int,
    *,
    beta: float,
    order: str | None,
    seed: int,
    threads: int,
) -> Visited:
    """The same of chains that are cooled from beta = 0 to the target, all the way."""
    knots = resolve_schedule(model, "adaptive", beta_low=0.0, beta=beta, seed=seed, threads=threads)
    schedule = make_schedule(n_sweeps, "adaptive", knots)
    chains = AnnealedChains(model, n_chains, betas=schedule, order=order, seed=seed, threads=threads)
    while not chains.finished:
        chains.advance(thin)
        yield chains.packed()[None], chains.energies()[None]
