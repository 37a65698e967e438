"""Hypercubic lattices with couplings between nearest neighbours: the Ising model and the Edwards-Anderson glass."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .._base import checks
from ..machine.couplings import Sparse, check_indices
from ..machine.machine import BoltzmannMachine
from .origin import generator, named

DISTRIBUTIONS = ("bimodal", "gaussian")


def ising(
    shape: Sequence[int],
    *,
    coupling: float = 1.0,
    field: float = 0.0,
    periodic: bool = True,
    random_field: float = 0.0,
    seed: int | None = 0,
) -> BoltzmannMachine:
    """Return the nearest-neighbour Ising model on a hypercubic lattice, in a uniform or a random field.

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
    random_field : float
        Standard deviation of normal fields that are added to the biases, one for each unit.
    seed : int or None
        Draws the random fields, and is refused where there are none.

    Returns
    -------
    BoltzmannMachine
        Spin units, sparse couplings. Cost: memory and time of the order of the bonds.

    Raises
    ------
    ValueError
        For an empty shape, one of more than 2^31 - 1 units, a periodic side of length 1, which would couple units to
        themselves, a negative `random_field`, or a `seed` without one.

    References
    ----------
    Ising, Z. Phys. 31, 253 (1925), doi:10.1007/BF02980577; Onsager, Phys. Rev. 65, 117 (1944),
    doi:10.1103/PhysRev.65.117. Random fields: Imry and Ma, Phys. Rev. Lett. 35, 1399 (1975),
    doi:10.1103/PhysRevLett.35.1399.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.ising((32, 32))
    <BoltzmannMachine: 1024 spin units, 2048 couplings>
    """
    sides = _check_sides(shape, periodic)
    coupling, field = checks.real("coupling", coupling), checks.real("field", field)
    i, j = _bonds(sides, periodic)
    fields, of_fields = _fields(sides, field, random_field, generator(seed))
    about = {"shape": sides, "coupling": coupling, "field": field, "periodic": bool(periodic)} | of_fields
    if of_fields:
        about["seed"] = seed
    elif seed != 0:
        raise ValueError("seed draws random fields, and random_field is 0: leave seed out, or pass random_field.")
    return named(_lattice(sides, i, j, np.full(len(i), coupling), fields), "ising", **about)


def edwards_anderson(
    shape: Sequence[int],
    *,
    distribution: str = "bimodal",
    seed: int | None = 0,
    field: float = 0.0,
    periodic: bool = True,
    random_field: float = 0.0,
) -> BoltzmannMachine:
    """Return the Edwards-Anderson spin glass: random couplings between nearest neighbours on a hypercubic lattice.

    Parameters
    ----------
    shape : sequence of int
        Sides of the lattice, for instance (8, 8, 8); unit (x, y, ...) has index ``numpy.ravel_multi_index``.
    distribution : {"bimodal", "gaussian"}
        Couplings are -1 or +1, equally likely, or drawn from N(0, 1).
    seed : int or None
        Draws the couplings, and after them random fields.
    field : float
        The bias of every unit.
    periodic : bool
        Whether opposite sides are joined. A periodic side of length 2 has both bonds, drawn one by one and added; where
        they cancel there is no coupling.
    random_field : float
        Standard deviation of normal fields that are added to the biases, one for each unit.

    Returns
    -------
    BoltzmannMachine
        Spin units, sparse couplings.

    Raises
    ------
    ValueError, TypeError
        For an empty shape, one of more than 2^31 - 1 units, a periodic side of length 1, or another argument out of
        range; the text names it.

    References
    ----------
    Edwards and Anderson, J. Phys. F 5, 965 (1975), doi:10.1088/0305-4608/5/5/017.

    Examples
    --------
    >>> import fastbm as bm
    >>> bm.models.edwards_anderson((8, 8, 8), seed=1)
    <BoltzmannMachine: 512 spin units, 1536 couplings>
    """
    sides = _check_sides(shape, periodic)
    distribution, field = checks.choice("distribution", distribution, DISTRIBUTIONS), checks.real("field", field)
    i, j = _bonds(sides, periodic)
    draws = generator(seed)
    values = draws.normal(size=len(i)) if distribution == "gaussian" else 2.0 * draws.integers(0, 2, len(i)) - 1.0
    fields, of_fields = _fields(sides, field, random_field, draws)
    about = {"shape": sides, "distribution": distribution, "seed": seed, "field": field, "periodic": bool(periodic)}
    return named(_lattice(sides, i, j, values, fields), "edwards_anderson", **about | of_fields)


def _check_sides(shape: Sequence[int], periodic: bool) -> list[int]:
    given = np.atleast_1d(checks.any_array("shape", shape)).tolist()
    sides = [checks.whole(f"shape[{k}]", side, least=1) for k, side in enumerate(given)]
    if not sides:
        raise ValueError("shape must name at least one side; got an empty shape.")
    check_indices("shape", math.prod(sides))
    if periodic and 1 in sides:
        raise ValueError(
            f"shape has a periodic side of length 1: {tuple(sides)}. Leave it out, or pass periodic=False."
        )
    return sides


def _bonds(sides: list[int], periodic: bool) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of every bond: axis by axis, and along an axis site by site, each site with the next one."""
    site = np.arange(math.prod(sides), dtype=np.int32).reshape(sides)
    starts, ends = [], []
    for axis, side in enumerate(sides):
        kept = np.arange(side if periodic else side - 1)
        starts.append(site.take(kept, axis).ravel())
        ends.append(np.roll(site, -1, axis).take(kept, axis).ravel())
    return np.concatenate(starts), np.concatenate(ends)


def _fields(
    sides: list[int], field: float, random_field: float, draws: np.random.Generator
) -> tuple[np.ndarray, dict[str, float]]:
    """Return the bias of every unit, and what of it is to be noted besides a uniform field."""
    fields, spread = np.full(math.prod(sides), field), checks.real("random_field", random_field, least=0.0)
    if not spread:
        return fields, {}
    return fields + spread * draws.normal(size=len(fields)), {"random_field": spread}


def _lattice(sides: list[int], i: np.ndarray, j: np.ndarray, values: np.ndarray, bias: np.ndarray) -> BoltzmannMachine:
    return BoltzmannMachine(Sparse.of_pairs(math.prod(sides), i, j, values), bias, units="spin")
