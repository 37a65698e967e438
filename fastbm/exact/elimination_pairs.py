"""Pairs of units: who is coupled to whom, where a pair stands in the cliques, and pairs that no clique holds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..kernels import elimination as kernels
from ..model import BoltzmannMachine
from .elimination_order import Neighbours, Order, evaluate
from .elimination_program import Program


def neighbours_of(model: BoltzmannMachine) -> list[set[int]]:
    """The units that each unit is coupled to."""
    indptr, indices, _ = model.couplings.csr()
    return neighbours_in(indptr, indices)


def neighbours_in(indptr: np.ndarray, indices: np.ndarray) -> list[set[int]]:
    """The same, from a matrix in compressed rows."""
    ends, others = indptr.tolist(), indices.tolist()
    return [set(others[first:stop]) for first, stop in itertools.pairwise(ends)]


def with_pairs(neighbours: Neighbours, pairs: np.ndarray) -> list[set[int]]:
    """The same with more pairs, so that some clique holds each of them."""
    joined = [set(others) for others in neighbours]
    for i, j in pairs.tolist():
        joined[i].add(j)
        joined[j].add(i)
    return joined


def sorted_pairs(model: BoltzmannMachine, chosen: np.ndarray | None) -> np.ndarray:
    """All coupled pairs and the chosen ones, (n_pairs, 2), i < j, sorted."""
    n = model.n_units
    indptr, indices, _ = model.couplings.csr()
    i, j = np.repeat(np.arange(n, dtype=np.int64), np.diff(indptr)), indices.astype(np.int64)
    keys = (i * n + j)[i < j]
    if chosen is not None and len(chosen):
        ordered = np.sort(np.asarray(chosen, np.int64), axis=1)
        keys = np.union1d(keys, ordered[:, 0] * n + ordered[:, 1])
    return np.stack([keys // n, keys % n], axis=1)


def cover(pairs: np.ndarray) -> tuple[int, ...]:
    """Units that have a part in all pairs, the one with the most pairs left first."""
    left, found = pairs, []
    while len(left):
        counts = np.bincount(left.ravel())
        found.append(int(counts.argmax()))
        left = left[(left != found[-1]).all(axis=1)]
    return tuple(found)


def reduced_order(order: Order, unit: int, neighbours: Sequence[set[int]]) -> Order:
    """The same order of the machine without one unit; its tables are no larger."""
    units = [other - (other > unit) for other in order.units if other != unit]
    reduced = evaluate(order.name, units, neighbours)
    assert reduced is not None
    return reduced


@dataclass(frozen=True)
class Finder:
    """Where units and pairs stand in what is laid out as the cliques."""

    starts: np.ndarray  # of every unit's own clique
    keys: np.ndarray  # i n + j of all pairs i < j of a clique's own unit and another of it, sorted
    at: np.ndarray  # where each stands

    @classmethod
    def of(cls, program: Program) -> Finder:
        n, starts = program.n_steps, program.steps[:, kernels.START]
        own = np.repeat(program.cliques[starts], program.steps[:, kernels.WIDTH] + 1)
        keys = np.minimum(own, program.cliques) * n + np.maximum(own, program.cliques)
        keys[starts] = -1
        order = np.argsort(keys, kind="stable")[n:]
        of_unit = np.empty(n, np.int64)
        of_unit[program.cliques[starts]] = starts
        return cls(of_unit, keys[order], order)

    def alone(self, sums: np.ndarray) -> np.ndarray:
        """What stands at every unit."""
        return sums[self.starts]

    def pairs(self, sums: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """What stands at every pair; nan where no clique holds it."""
        keys = pairs[:, 0] * len(self.starts) + pairs[:, 1]
        place = np.searchsorted(self.keys, keys)
        place[place == len(self.keys)] = 0
        if not len(self.keys):
            return np.full(len(pairs), np.nan)
        return np.where(self.keys[place] == keys, sums[self.at[place]], np.nan)
