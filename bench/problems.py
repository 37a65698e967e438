"""The machines that every program samples, by a name that worker processes can be sent."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import fastbm as bm

from . import graphs

MODEL_SEED = 1


class Problem(NamedTuple):
    """A kind of spin glass (or the ferromagnet), its size (units, or the sides of a periodic lattice), its seed.

    Families of `graphs` are kinds too: their ground states are the maximum cuts.
    """

    kind: str
    size: Any
    seed: int = MODEL_SEED

    @property
    def is_cut(self) -> bool:
        """Whether its ground state is a maximum cut."""
        return self.kind in graphs.FAMILIES

    @property
    def is_sparse(self) -> bool:
        """Whether most pairs are not coupled."""
        return self.kind != "sk"

    def __str__(self) -> str:
        if self.is_cut:
            return f"{graphs.FAMILIES[self.kind]}, n = {self.size}"
        if self.kind == "sk":
            return f"SK n = {self.size}"
        names = {
            "gaussian": "Gaussian glass",
            "open": "open Gaussian glass",
            "bimodal": "±J glass",
            "ferromagnet": "ferromagnet",
        }
        return f"{len(self.size)}D {names[self.kind]} {' x '.join(map(str, self.size))}"


@cache
def machine(problem: Problem) -> bm.BoltzmannMachine:
    """Return the machine of a problem; built once in each process."""
    kind, size, seed = problem
    if kind == "sk":
        return bm.models.sherrington_kirkpatrick(size, seed=seed)
    if problem.is_cut:
        i, j, weights = graphs.edges(kind, size, seed)
        matrix = scipy.sparse.coo_array((-weights, (i, j)), (size, size))
        return bm.BoltzmannMachine(matrix + matrix.T)
    if kind == "ferromagnet":
        return bm.models.ising(size)
    if kind == "open":
        return bm.models.edwards_anderson(size, distribution="gaussian", periodic=False, seed=seed)
    return bm.models.edwards_anderson(size, distribution=kind, seed=seed)


def pairs(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both units and the coupling of every pair that is coupled."""
    weights = scipy.sparse.coo_array(machine(problem).weights)
    above = weights.row < weights.col
    return weights.row[above], weights.col[above], weights.data[above]


@cache
def forward_bonds(problem: Problem) -> np.ndarray:
    """The couplings (*sides, axes) of every site of a lattice with the next one along each axis."""
    sites = np.arange(np.prod(problem.size)).reshape(problem.size)
    weights = scipy.sparse.csr_array(machine(problem).weights)
    ends = [np.roll(sites, -1, axis) for axis in range(sites.ndim)]
    bonds = [weights[sites.ravel(), end.ravel()] for end in ends]
    return np.stack([np.asarray(bond).reshape(problem.size) for bond in bonds], axis=-1)


def colours(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The sites of the two colours of a lattice with even sides."""
    parity = np.indices(problem.size).sum(axis=0).ravel() % 2
    return np.flatnonzero(parity == 0), np.flatnonzero(parity == 1)
