"""Named models of physics and of learning, ready made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _checks, rng
from .couplings import check_size
from .model import BoltzmannMachine


def ising(
    shape: Sequence[int], *, coupling: float = 1.0, field: float = 0.0, periodic: bool = True
) -> BoltzmannMachine:
    """Return the nearest-neighbour Ising model on a hypercubic lattice.

    Parameters
    ----------
    shape : sequence of int
        Sides of the lattice, for instance (32, 32); unit (x, y, ...) has index ``numpy.ravel_multi_index``.
    coupling : float
        J of every bond; positive favours equal neighbours.
    field : float
        The bias of every unit.
    periodic : bool
        Whether opposite sides are joined. A periodic side of length 2 has both bonds, so 2 J.

    Returns
    -------
    BoltzmannMachine
        Spin units.

    Raises
    ------
    ValueError
        For an empty shape or a periodic side of length 1, which would couple units to themselves.

    References
    ----------
    Ising, Z. Phys. 31, 253 (1925), doi:10.1007/BF02980577; Onsager, Phys. Rev. 65, 117 (1944),
    doi:10.1103/PhysRev.65.117.
    """
    sides = [_checks.whole(f"shape[{k}]", side, least=1) for k, side in enumerate(np.atleast_1d(shape).tolist())]
    if not sides:
        raise ValueError("shape must name at least one side; got an empty shape.")
    if periodic and 1 in sides:
        raise ValueError(
            f"shape has a periodic side of length 1: {tuple(sides)}. Leave it out, or pass periodic=False."
        )
    coupling, field = _checks.real("coupling", coupling), _checks.real("field", field)
    n = math.prod(sides)
    check_size(n)
    site = np.arange(n).reshape(sides)
    weights = np.zeros((n, n))
    for axis, side in enumerate(sides):
        neighbour = np.roll(site, -1, axis)
        bonds = np.ones(sides, bool) if periodic else np.indices(sides)[axis] < side - 1
        np.add.at(weights, (site[bonds], neighbour[bonds]), coupling)
        np.add.at(weights, (neighbour[bonds], site[bonds]), coupling)
    made = BoltzmannMachine(weights, np.full(n, field), units="spin")
    return _named(made, "ising", shape=sides, coupling=coupling, field=field, periodic=bool(periodic))


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
    """
    check_size(n := _checks.whole("n", n, least=1))
    field = _checks.real("field", field)
    weights = _symmetric(_generator(seed).normal(scale=1 / math.sqrt(n), size=(n, n)))
    made = BoltzmannMachine(weights, np.full(n, field), units="spin")
    return _named(made, "sherrington_kirkpatrick", n=n, seed=seed, field=field)


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
    """
    check_size(n := _checks.whole("n", n, least=1))
    coupling, field = _checks.real("coupling", coupling), _checks.real("field", field)
    weights = np.full((n, n), coupling / n)
    np.fill_diagonal(weights, 0.0)
    made = BoltzmannMachine(weights, np.full(n, field), units="spin")
    return _named(made, "curie_weiss", n=n, coupling=coupling, field=field)


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
    """
    from .units import SPIN

    stored = np.atleast_2d(np.asarray(patterns))
    stored = SPIN.values(SPIN.bits("patterns", stored), np.float64)
    if stored.ndim != 2 or not stored.size:
        raise ValueError(f"patterns must have shape (n_patterns, n_units); got {stored.shape}.")
    weights = stored.T @ stored / stored.shape[1]
    np.fill_diagonal(weights, 0.0)
    return BoltzmannMachine(weights, units="spin")


def restricted(
    n_visible: int | None = None,
    n_hidden: int | None = None,
    *,
    weights: Any = None,
    visible_bias: Any = None,
    hidden_bias: Any = None,
    units: str = "binary",
    scale: float = 0.01,
    seed: int | None = 0,
) -> BoltzmannMachine:
    """Return a restricted Boltzmann machine: visible units coupled to hidden ones only.

    Parameters
    ----------
    n_visible, n_hidden : int, optional
        Sizes; they follow from `weights` where that is given.
    weights : (n_visible, n_hidden) array, optional
        Drawn from N(0, scale^2) when left out.
    visible_bias, hidden_bias : arrays, optional
        0 when left out.
    units : {"binary", "spin"}
    scale : float
    seed : int or None

    Returns
    -------
    BoltzmannMachine
        Layered, one block.

    Raises
    ------
    ValueError, TypeError
        For an argument out of range; the text names it.

    References
    ----------
    Smolensky, in Parallel Distributed Processing 1 (1986), p. 194; Hinton, Neural Comput. 14, 1771 (2002),
    doi:10.1162/089976602760128018.
    """
    if weights is None:
        if n_visible is None or n_hidden is None:
            raise ValueError("restricted needs weights=, or n_visible and n_hidden to draw them.")
        size = (_checks.whole("n_visible", n_visible, least=1), _checks.whole("n_hidden", n_hidden, least=1))
        weights = _generator(seed).normal(scale=_checks.real("scale", scale, least=0.0), size=size)
    block = _checks.finite_array("weights", weights)
    _checks.shape("weights", block, ("n_visible", "n_hidden"))
    for name, wanted, found in (("n_visible", n_visible, block.shape[0]), ("n_hidden", n_hidden, block.shape[1])):
        if wanted not in (None, found):
            raise ValueError(f"{name} is {wanted}, but weights has shape {block.shape}.")
    biases = []
    for name, bias, size in (
        ("visible_bias", visible_bias, block.shape[0]),
        ("hidden_bias", hidden_bias, block.shape[1]),
    ):
        vector = _checks.finite_array(name, np.zeros(size) if bias is None else bias)
        _checks.shape(name, vector, (size,))
        biases.append(vector)
    return BoltzmannMachine([block], biases, units=units)


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
    """
    check_size(n := _checks.whole("n", n, least=1))
    generator = _generator(seed)
    weights = _symmetric(generator.normal(scale=_checks.real("scale", scale, least=0.0) / math.sqrt(n), size=(n, n)))
    bias = generator.normal(scale=_checks.real("bias_scale", bias_scale, least=0.0), size=n)
    return BoltzmannMachine(weights, bias, units=units, n_hidden=n_hidden)


def _named(model: BoltzmannMachine, name: str, **arguments: Any) -> BoltzmannMachine:
    model.origin = {"name": name, **arguments}
    return model


def _generator(seed: int | None) -> np.random.Generator:
    return rng.keyed(rng.resolve(seed), rng.MODEL)


def _symmetric(draws: np.ndarray) -> np.ndarray:
    upper = np.triu(draws, 1)
    return upper + upper.T
