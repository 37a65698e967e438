"""An elimination laid out for the kernels: steps, cliques, where tables stand, and where pairs of units are found.

Steps come in post-order: the children of a step right before it, those that need most memory first (Liu, ACM Trans.
Math. Softw. 12, 127 (1986), doi:10.1145/6497.6499). Messages of steps at even depth form one stack and those at odd
depth another: a step takes its children from the top of one and puts its message on top of the other. The two grow from
the ends of one array.

Of pairs it is told who is coupled to whom, where a pair stands in the cliques, and which pairs no clique holds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...kernels.exact import elimination as kernels
from ...machine.machine import BoltzmannMachine
from .order import Neighbours, Order, evaluate


@dataclass(frozen=True)
class Program:
    """An elimination laid out, but for the numbers of the couplings; see `fastbm.kernels.exact.elimination`.

    Attributes
    ----------
    steps : (n_steps, 6) int64 array
    cliques : (n_places,) int64 array
        Units of every step's clique, its own first.
    places : (n_places,) int64 array
    heights : (n_steps + 1, 2) int64 array
        Entries on both stacks before every step.
    work : (n_steps,) float64 array
        Entries of messages, each counted half for itself and half for every child that is read for it.
    marks : tuple of int
        Steps at which segments begin, and the number of steps: chances are kept for a segment at a time.
    """

    steps: np.ndarray
    cliques: np.ndarray
    places: np.ndarray
    heights: np.ndarray
    work: np.ndarray
    marks: tuple[int, ...]

    @property
    def n_steps(self) -> int:
        """Number of steps, one for each unit."""
        return len(self.steps)

    @property
    def n_held(self) -> int:
        """Entries of the array that holds both stacks."""
        return _n_held(self.steps, self.heights)

    @property
    def sizes(self) -> np.ndarray:
        """Entries of every message."""
        return 1 << self.steps[:, kernels.WIDTH]

    @property
    def n_chances(self) -> int:
        """Entries of the largest segment."""
        return max(int(self.sizes[first:stop].sum()) for first, stop in self.segments)

    @property
    def n_kept(self) -> int:
        """Entries of all messages that are kept at the beginnings of segments."""
        return int(self.heights[list(self.marks[1:-1])].sum())

    @property
    def segments(self) -> list[tuple[int, int]]:
        """First step of every segment, and the step after its last."""
        return list(zip(self.marks, self.marks[1:], strict=False))

    def cut(self, most: int) -> Program:
        """Return the program in segments of at most `most` chances each, or a single step."""
        ends = np.cumsum(self.sizes)
        marks = [0]
        while marks[-1] < self.n_steps:
            done = int(ends[marks[-1] - 1]) if marks[-1] else 0
            marks.append(max(int(np.searchsorted(ends, done + most, side="right")), marks[-1] + 1))
        steps = self.steps.copy()
        begins = np.repeat([0, *ends[np.array(marks[1:-1], int) - 1]], np.diff(marks))
        steps[:, kernels.CHANCE] = ends - self.sizes - begins
        return dataclasses.replace(self, steps=steps, marks=tuple(marks))


def lay_out(order: Order) -> Program:
    """Make the program of an order, in one segment."""
    parents = [min(scope) if scope else -1 for scope in order.scopes]
    done = _post_order(parents, [1 << len(scope) for scope in order.scopes])
    step = np.empty(len(done), np.int64)
    step[done] = np.arange(len(done))
    number, unit = step.tolist(), np.array(order.units)
    scopes = [sorted(number[k] for k in order.scopes[old]) for old in done]  # relative order stays that of `order`
    widths = np.array([len(scope) for scope in scopes])
    steps = np.full((len(done), 6), -1, np.int64)
    steps[:, kernels.START] = np.cumsum(widths + 1) - widths - 1
    steps[:, kernels.WIDTH] = widths
    cliques = unit[done][np.array([k for own, scope in enumerate(scopes) for k in (own, *scope)])]
    places: list[int] = []
    for scope in scopes:
        found = {k: place for place, k in enumerate([scope[0], *scopes[scope[0]]])} if scope else {}
        places += [0, *(found[k] for k in scope)]
    for k in range(len(done) - 1, -1, -1):
        if scopes[k]:
            parent = scopes[k][0]
            steps[k, kernels.SIBLING], steps[parent, kernels.CHILD] = steps[parent, kernels.CHILD], k
    parent_steps = np.array([scope[0] if scope else -1 for scope in scopes])
    heights = _stack(steps, parent_steps)
    n_children = np.bincount(parent_steps[parent_steps >= 0], minlength=len(done))
    work = 0.5 * (1 + n_children) * (1 << widths)
    program = Program(steps, cliques, np.array(places, np.int64), heights, work, (0, len(done)))
    return program.cut(int((1 << widths).sum()))


def _post_order(parents: list[int], sizes: list[int]) -> list[int]:
    """Children before their parents, and among children first those that need most beyond what they leave."""
    n = len(parents)
    children: list[list[int]] = [[] for _ in range(n + 1)]  # the last stands for all that have no parent
    for k, parent in enumerate(parents):
        children[parent].append(k)
    peaks = [0] * n
    for k in range(n):  # parents are later than their children
        children[k].sort(key=lambda child: (sizes[child] - peaks[child], child))
        held = 0
        for child in children[k]:
            peaks[k] = max(peaks[k], held + peaks[child])
            held += sizes[child]
        peaks[k] = max(peaks[k], held + sizes[k])
    order: list[int] = []
    waiting = children[n]
    while waiting:  # parents first, last children first: the reverse is wanted
        k = waiting.pop()
        order.append(k)
        waiting.extend(children[k])
    return order[::-1]


def _stack(steps: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Fill in where messages stand; return the heights of both stacks before every step."""
    n = len(steps)
    odd = [0] * n
    for k in range(n - 1, -1, -1):
        odd[k] = 1 - odd[parents[k]] if parents[k] >= 0 else 0
    sizes = (1 << steps[:, kernels.WIDTH]).tolist()
    heights = np.zeros((n + 1, 2), np.int64)
    taken = [0] * n  # entries of a step's children
    tops, bases = [0, 0], np.empty(n, np.int64)
    for k, parent in enumerate(parents.tolist()):
        side = odd[k]
        bases[k] = tops[side]
        tops[side] += sizes[k]
        tops[1 - side] -= taken[k]
        if parent >= 0:
            taken[parent] += sizes[k]
        else:
            tops[0] -= sizes[k]  # nobody reads it: log Z is in the shifts
        heights[k + 1] = tops
    held = _n_held(steps, heights)
    steps[:, kernels.MESSAGE] = np.where(np.array(odd) == 1, held - bases - np.array(sizes), bases)
    return heights


def _n_held(steps: np.ndarray, heights: np.ndarray) -> int:
    """Return the most entries held at a time: a step's children are still there when its message is written."""
    return int((heights[:-1].sum(axis=1) + (1 << steps[:, kernels.WIDTH])).max())


def neighbours_of(model: BoltzmannMachine) -> list[set[int]]:
    """Return the units that each unit is coupled to."""
    indptr, indices, _ = model.couplings.csr()
    return neighbours_in(indptr, indices)


def neighbours_in(indptr: np.ndarray, indices: np.ndarray) -> list[set[int]]:
    """Return what `neighbours_of` does, from a matrix in compressed rows."""
    ends, others = indptr.tolist(), indices.tolist()
    return [set(others[first:stop]) for first, stop in itertools.pairwise(ends)]


def with_pairs(neighbours: Neighbours, pairs: np.ndarray) -> list[set[int]]:
    """Return neighbours with more pairs, so that some clique holds each of them."""
    joined = [set(others) for others in neighbours]
    for i, j in pairs.tolist():
        joined[i].add(j)
        joined[j].add(i)
    return joined


def sorted_pairs(model: BoltzmannMachine, chosen: np.ndarray | None) -> np.ndarray:
    """Return all coupled pairs and the chosen ones, (n_pairs, 2), i < j, sorted."""
    n = model.n_units
    indptr, indices, _ = model.couplings.csr()
    i, j = np.repeat(np.arange(n, dtype=np.int64), np.diff(indptr)), indices.astype(np.int64)
    keys = (i * n + j)[i < j]
    if chosen is not None and len(chosen):
        ordered = np.sort(np.asarray(chosen, np.int64), axis=1)
        keys = np.union1d(keys, ordered[:, 0] * n + ordered[:, 1])
    return np.stack([keys // n, keys % n], axis=1)


def cover(pairs: np.ndarray) -> tuple[int, ...]:
    """Return units that have a part in all pairs, the one with the most pairs left first."""
    left, found = pairs, []
    while len(left):
        counts = np.bincount(left.ravel())
        found.append(int(counts.argmax()))
        left = left[(left != found[-1]).all(axis=1)]
    return tuple(found)


def reduced_order(order: Order, unit: int, neighbours: Sequence[set[int]]) -> Order:
    """Return the same order for the machine without one unit; its tables are no larger."""
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
        """Index the units and pairs of a program's cliques."""
        n, starts = program.n_steps, program.steps[:, kernels.START]
        own = np.repeat(program.cliques[starts], program.steps[:, kernels.WIDTH] + 1)
        keys = np.minimum(own, program.cliques) * n + np.maximum(own, program.cliques)
        keys[starts] = -1
        order = np.argsort(keys, kind="stable")[n:]
        of_unit = np.empty(n, np.int64)
        of_unit[program.cliques[starts]] = starts
        return cls(of_unit, keys[order], order)

    def alone(self, sums: np.ndarray) -> np.ndarray:
        """Return what stands at every unit."""
        return sums[self.starts]

    def pairs(self, sums: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Return what stands at every pair; nan where no clique holds it."""
        keys = pairs[:, 0] * len(self.starts) + pairs[:, 1]
        place = np.searchsorted(self.keys, keys)
        place[place == len(self.keys)] = 0
        if not len(self.keys):
            return np.full(len(pairs), np.nan)
        return np.where(self.keys[place] == keys, sums[self.at[place]], np.nan)
