"""Variable elimination: exact sums over machines whose couplings make a graph of low width, of any size.

Units are summed out one after the other; each leaves a table over the units it is coupled to then
(`fastbm.kernels.exact.elimination`). A second pass, backwards, gives P(i up) and P(i and j up) of every coupled pair
(`fastbm.kernels.exact.elimination_marginals`). The variance of the energy comes with the first pass: mean and variance
of all that is summed out, given the units that are left, mixed at every step.

Dechter, Artif. Intell. 113, 41 (1999), doi:10.1016/S0004-3702(99)00059-4.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..._base.halting import Halt, never
from ...machine.machine import BoltzmannMachine
from ..plan import Forecast, Part, Speeds, Wanted
from .order import REPORTED, Neighbours, Order, best_order
from .program import (
    Finder,
    Program,
    cover,
    lay_out,
    neighbours_in,
    neighbours_of,
    reduced_order,
    sorted_pairs,
    with_pairs,
)
from .tables import RANGE, Tables

CHANCES = 0.3  # cost of a chance, ...
BACK = 1.1  # ... of an entry on the way back, ...
ENERGIES = 0.9  # ... and of mean and variance of the energy, in entries of messages
SMALL_STEP = 16.0  # entries that a step costs besides its own
PLANNED_STEP = 2000.0  # entries that a step costs to plan
GRAPHS = 8  # whose orders are kept for the next sum over the same graph


@dataclass(frozen=True)
class EliminationSum:
    """A planned elimination; `tables` is None where no order is narrow enough.

    `given` are units at each of which a machine without it is summed too: P(i and j up) = P(i up) P(j up | i up) for
    all j.
    """

    forecast: Forecast
    wanted: Wanted
    model: BoltzmannMachine
    order: Order | None
    tables: Tables | None
    max_bytes: float
    pairs: np.ndarray | None = None
    given: tuple[int, ...] = ()

    name = "elimination"
    n_pieces = 1

    @property
    def named_pairs(self) -> np.ndarray | None:
        """(n_pairs, 2) int array of what `Part.pairs` is about, i < j; None where it is the whole matrix."""
        return None if self._is_whole else self.pairs

    @property
    def _is_whole(self) -> bool:
        n = self.model.n_units
        return self.pairs is not None and len(self.pairs) == n * (n - 1) // 2

    @property
    def detail(self) -> dict[str, Any]:
        """Width and name of the order, entries of all its messages, and in how many segments they are computed."""
        if self.order is None or self.tables is None:
            return {}
        found: dict[str, Any] = {"width": self.order.width, "order": self.order.name}
        found |= {"n_entries": self.order.n_entries, "n_segments": len(self.tables.program.segments)}
        return found | ({"n_conditioned": len(self.given)} if self.given else {})

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part:
        """Do the sum: there is one piece."""
        if self.tables is None:
            raise ValueError(f"elimination cannot do this sum: {self.forecast.size}.")
        if not self.wanted.moments:
            return Part(self.tables.sum_out(threads, halt))
        log_z, sums, variance = _moments(self.tables, self.wanted.energy_variance, threads, halt)
        finder, scale = Finder.of(self.tables.program), self.tables.scale
        energy = self.tables.base - scale * math.fsum((self.tables.values * sums).tolist())
        up = finder.alone(sums)
        assert self.pairs is not None
        pairs = finder.pairs(sums, self.pairs)
        for unit in self.given:
            of_unit = (self.pairs == unit).any(axis=1)
            others = self.pairs[of_unit].sum(axis=1) - unit
            pairs[of_unit] = up[unit] * self._up_given(unit, threads, halt)[others]
        if self._is_whole:
            whole = np.diag(up)
            whole[self.pairs[:, 0], self.pairs[:, 1]] = whole[self.pairs[:, 1], self.pairs[:, 0]] = pairs
            pairs = whole
        if variance is not None:  # beyond the largest number where energies are beyond its root
            variance = min(scale * variance * scale, sys.float_info.max)
        return Part(log_z, energy, variance, up, pairs)

    def _up_given(self, unit: int, threads: int, halt: Halt) -> np.ndarray:
        """P(j up | `unit` up) of all units."""
        assert self.order is not None and self.tables is not None
        model = self.model.condition([unit], [self.model.convention.hi])
        order = reduced_order(self.order, unit, neighbours_of(model))
        tables = Tables.of(model, self.tables.beta, lay_out(order)).cut(1, self.max_bytes)
        _, sums, _ = _moments(tables, False, threads, halt)
        return np.insert(Finder.of(tables.program).alone(sums), unit, 1.0)


def _moments(tables: Tables, variance: bool, threads: int, halt: Halt) -> tuple[float, np.ndarray, float | None]:
    """Return log Z; P(up) and P(both up) laid out as the cliques; variance of the energy, in units of scale^2."""
    program, steps = tables.program, tables.steps(threads, halt)
    shifts, sums, marginals = np.zeros((3, program.n_steps)), np.zeros(len(program.places)), None
    for first, stop, chances in tables.chances(shifts, 3 if variance else 1, steps):
        marginals = np.empty(program.n_held) if marginals is None else marginals
        steps.marginalise(sums, marginals, chances, first, stop)
    last = program.sizes == 1  # steps without scope: one in every connected part, and these are independent
    return tables.log_z(shifts), sums, math.fsum(shifts[2, last].tolist()) if variance else None


def plan(
    model: BoltzmannMachine, beta: float, wanted: Wanted, *, threads: int, max_bytes: float, speeds: Speeds
) -> EliminationSum:
    """Plan the elimination of all units of a machine, in the cheapest order found.

    Chosen pairs that are not coupled are held by a clique, as if they were coupled, or found from machines in which one
    unit of each is given, whichever costs less.
    """
    indptr, indices, _ = model.couplings.csr()
    pairs = sorted_pairs(model, wanted.pairs) if wanted.moments else None
    chosen = pairs is not None and wanted.pairs is not None and len(wanted.pairs) > 0
    graph = (array.astype(np.int64).tobytes() for array in (indptr, indices))
    order, program, size, given = _laid_out(*graph, pairs.tobytes() if pairs is not None and chosen else b"")
    if order is None or program is None:
        return EliminationSum(Forecast(math.inf, 0.0, size), wanted, model, None, None, max_bytes, pairs)
    n_rows = (3 if wanted.energy_variance else 1) if wanted.moments else 0
    tables = Tables.of(model, beta, program).cut(n_rows, max_bytes)
    seconds = math.inf
    if tables.is_finite:
        seconds = speeds.message_entry * _entries(tables, n_rows, len(given)) / _useful(tables, threads)
    forecast = Forecast(seconds, tables.n_bytes(n_rows), size)
    return EliminationSum(forecast, wanted, model, order, tables, max_bytes, pairs, given)


@lru_cache(maxsize=GRAPHS)
def _laid_out(indptr: bytes, indices: bytes, pairs: bytes) -> tuple[Order | None, Program | None, str, tuple[int, ...]]:
    """Return the order for a graph and the pairs asked for, laid out; the width, in words; units to be given."""
    starts, units = (np.frombuffer(text, np.int64) for text in (indptr, indices))
    if np.diff(starts).min() > REPORTED:  # no order is less wide than the least degree
        return None, None, f"width above {REPORTED}", ()
    neighbours = neighbours_in(starts, units)
    order, size = best_order(neighbours)
    given: tuple[int, ...] = ()
    if pairs:
        order, size, given = _order_with(neighbours, np.frombuffer(pairs, np.int64).reshape(-1, 2), order, size)
    return order, lay_out(order) if order else None, size, given


def _order_with(
    neighbours: Neighbours, pairs: np.ndarray, order: Order | None, size: str
) -> tuple[Order | None, str, tuple[int, ...]]:
    """Return an order whose cliques hold all pairs, or `order` and the units that are to be given."""
    given: tuple[int, ...] = ()
    if order is not None:
        finder = Finder.of(lay_out(order))
        given = cover(pairs[np.isnan(finder.pairs(np.zeros(len(finder.at) + len(neighbours)), pairs))])
        if not given:
            return order, size, given
    dearer = 0 if order is None else order.n_entries + PLANNED_STEP * len(neighbours)
    wider, wider_size = best_order(with_pairs(neighbours, pairs))
    if order is None or (wider is not None and wider.n_entries < order.n_entries + len(given) * dearer):
        return wider, wider_size, ()
    return order, size, given


def _entries(tables: Tables, n_rows: int, n_given: int) -> float:
    """Return the cost in entries of messages.

    Messages are computed forward, computed again, and passed backward; and once more for every unit that is given.
    """
    program = tables.program
    work = float(program.work.sum()) + SMALL_STEP * program.n_steps
    if n_rows == 0:
        return work
    passes = 1.0 + CHANCES + BACK + (1.0 if len(program.segments) > 1 else 0.0)
    energies = ENERGIES if n_rows == 3 else 0.0
    return work * (passes + energies) + n_given * (work * passes + PLANNED_STEP * program.n_steps)


def _useful(tables: Tables, threads: int) -> float:
    """How many times faster it is on all threads: only large steps are split over them."""
    program = tables.program
    split = float(program.work[program.sizes > RANGE].sum() / program.work.sum())
    return 1.0 / (1.0 - split + split / threads)
