"""Machines in which every pair is coupled: spin glasses, ferromagnets, associative memories."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._base import checks
from ..machine.couplings import Dense, check_size
from ..machine.machine import BoltzmannMachine
from ..machine.units import SPIN
from .origin import generator, named

TILE = 256  # rows and columns that are copied at a time, in the cache


def sherrington_kirkpatrick(n: int, *, seed: int | None = 0, field: float = 0.0) -> BoltzmannMachine:
    """Return the Sherrington-Kirkpatrick spin glass: W_ij ~ N(0, 1/n), every pair coupled.

    Parameters
    ----------
    n : int
        Number of spins.
    seed : int or None
        Draws the couplings.
    field : float
        The bias of every unit.

    Returns
    -------
    BoltzmannMachine
        Spin units.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    References
    ----------
    Sherrington and Kirkpatrick, Phys. Rev. Lett. 35, 1792 (1975), doi:10.1103/PhysRevLett.35.1792.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.sherrington_kirkpatrick(100, seed=1)
    <BoltzmannMachine: 100 spin units>
    """
    check_size(n := checks.whole("n", n, least=1))
    field = checks.real("field", field)
    weights = _symmetric(generator(seed).normal(scale=1 / math.sqrt(n), size=(n, n)))
    made = BoltzmannMachine(Dense(weights), np.full(n, field), units="spin")
    return named(made, "sherrington_kirkpatrick", n=n, seed=seed, field=field)


def curie_weiss(n: int, *, coupling: float = 1.0, field: float = 0.0) -> BoltzmannMachine:
    """Return the Curie-Weiss ferromagnet: every pair coupled by J / n.

    Parameters
    ----------
    n : int
        Number of spins.
    coupling, field : float
        J, and the bias of every unit.

    Returns
    -------
    BoltzmannMachine
        Spin units.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    References
    ----------
    Kac, in Statistical Physics, Phase Transitions and Superfluidity (1968), p. 241.

    Examples
    --------
    >>> import fastbm as bm
    >>> float(bm.models.curie_weiss(4, coupling=2.0).energy([1, 1, 1, 1]))
    -3.0
    """
    check_size(n := checks.whole("n", n, least=1))
    coupling, field = checks.real("coupling", coupling), checks.real("field", field)
    weights = np.full((n, n), coupling / n)
    np.fill_diagonal(weights, 0.0)
    made = BoltzmannMachine(weights, np.full(n, field), units="spin")
    return named(made, "curie_weiss", n=n, coupling=coupling, field=field)


def hopfield(patterns: Any) -> BoltzmannMachine:
    """Return the Hopfield network that stores `patterns`: W_ij = sum_mu x_i x_j / n.

    Parameters
    ----------
    patterns : (n_patterns, n) array of -1 and 1

    Returns
    -------
    BoltzmannMachine
        Spin units.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    References
    ----------
    Hopfield, Proc. Natl. Acad. Sci. 79, 2554 (1982), doi:10.1073/pnas.79.8.2554.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.hopfield([1, -1, 1]).field([1, -1, 1]).round(6)
    array([ 0.666667, -0.666667,  0.666667])
    """
    stored = np.atleast_2d(checks.any_array("patterns", patterns))
    stored = SPIN.values(SPIN.bits("patterns", stored), np.float64)
    if stored.ndim != 2 or not stored.size:
        raise ValueError(f"patterns must have shape (n_patterns, n_units); got {stored.shape}.")
    weights = stored.T @ stored / stored.shape[1]
    np.fill_diagonal(weights, 0.0)
    return BoltzmannMachine(weights, units="spin")


def random_machine(
    n: int, *, n_hidden: int = 0, scale: float = 1.0, bias_scale: float = 0.0, units: str = "spin", seed: int | None = 0
) -> BoltzmannMachine:
    """Return a fully coupled machine with W_ij ~ N(0, scale^2 / n) and b_i ~ N(0, bias_scale^2).

    Parameters
    ----------
    n : int
        Number of units, hidden ones included.
    n_hidden : int
        How many of them are hidden (the last ones).
    scale, bias_scale : float
    units : {"spin", "binary"}
    seed : int or None

    Returns
    -------
    BoltzmannMachine

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.random_machine(10, n_hidden=3, units="binary")
    <BoltzmannMachine: 10 binary units, 3 hidden>
    """
    check_size(n := checks.whole("n", n, least=1))
    draws = generator(seed)
    weights = _symmetric(draws.normal(scale=checks.real("scale", scale, least=0.0) / math.sqrt(n), size=(n, n)))
    bias = draws.normal(scale=checks.real("bias_scale", bias_scale, least=0.0), size=n)
    return BoltzmannMachine(Dense(weights), bias, units=units, n_hidden=n_hidden)


def _symmetric(draws: np.ndarray) -> np.ndarray:
    """Put draws above the diagonal below it too, in place, tile by tile; nothing of it need be checked or copied."""
    for a in range(0, len(draws), TILE):
        rows = slice(a, a + TILE)
        upper = np.triu(draws[rows, rows], 1)
        draws[rows, rows] = upper + upper.T
        for b in range(a + TILE, len(draws), TILE):
            draws[b : b + TILE, rows] = draws[rows, b : b + TILE].T
    return draws
