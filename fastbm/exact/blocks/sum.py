"""Exact sums in three blocks, at the speed of a matrix product: how they are cut into pieces, planned and done.

Every table is scaled to a largest entry of 1, so that Z = scale sum F G H (`fastbm.kernels.exact.blocks`). What
underflow loses is at most 2^n exp(-700), and nothing beside the sum where log sum > -700 + n log 2 + 40: the
certificate. Z is at least the weight of one state, so a low state found by descent certifies a sum before it is done.

Beyond three blocks of 12 units, and where the certificate asks for it, units are held at each of their settings in
turn: a piece of the sum for each. With one more unit held the tables of each half follow its states more closely.
Halves that are nothing beside a known state are dropped.

A piece of a large sum is a prefix, the bits of the first units that are held, which its number tells: who does the
piece finds the leaves under it. How long the prefix is depends on the number of units and on what is wanted alone.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..._base.halting import Halt, never
from ..._base.threads import single_threaded_blas
from ...kernels.exact.blocks import add_pairs, form_blocks
from ...kernels.exact.small_blocks import FLAT, average_small, total_small
from ...machine.machine import BoltzmannMachine
from ..integers import IntegerMachine
from ..plan import Forecast, Part, Speeds, Wanted, combine
from .passes import Passes
from .prefixes import n_products, prefix, prefix_length
from .tree import Leaf, Tree, cut, held_order, split

MOST_BITS = 12  # units a block: tables of 2^24 numbers, 128 MB each
MOST_HELD = 16  # units, where all their settings are leaves
MOST_PREFIXED = 20  # units that are held, where prefixes tell pieces apart
N_PROBES = 4  # walks down to a leaf that a forecast takes
NODE_SECONDS = 5e-3  # to find out whether a prefix must be cut further
SMALL = 21  # units that one compiled call sums; beyond it BLAS is faster
THREADED = 24  # units from which threads gain more than handing work to them takes


@lru_cache(maxsize=256)
def fewest_held(n_units: int, n_tables: int, max_bytes: float, min_pieces: int) -> int | None:
    """Return how many units must be held for tables that fit; None where none do."""
    for held in range(n_units + 1):
        sizes = split(n_units - held)
        fits = max(sizes) <= MOST_BITS and table_bytes(n_units - held) * n_tables / 3 <= max_bytes
        if fits and (1 << held >= min_pieces or held == n_units):
            return held
    return None


def table_bytes(n_units: int) -> float:
    """Return the memory of the three tables."""
    a, b, c = split(n_units)
    return 8.0 * (2.0 ** (a + b) + 2.0 ** (b + c) + 2.0 ** (a + c))


@dataclass(frozen=True)
class BlocksSum:
    """A sum in three blocks, planned: one piece for each leaf, or for each prefix of `n_prefix` units."""

    form: IntegerMachine
    beta: float
    wanted: Wanted
    leaves: tuple[Leaf, ...]
    forecast: Forecast
    n_held: int = 0
    n_prefix: int = 0
    name: str = field(default="blocks", init=False)
    named_pairs: None = field(default=None, init=False)

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return 1 << self.n_prefix if self.n_prefix else len(self.leaves)

    @property
    def detail(self) -> dict[str, Any]:
        """How the sum is cut."""
        held = self.n_held if self.n_prefix else min((len(leaf.up) for leaf in self.leaves), default=0)
        return {"held": held, "pieces": self.n_pieces}

    @cached_property
    def _order(self) -> np.ndarray:
        return held_order(self.form)

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self.form, self.beta, self.n_held)

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part:
        """Sum one leaf, or those under a prefix in their order."""
        if not self.n_prefix:
            return self._leaf(self.leaves[k], threads, halt)
        found = Part(-math.inf)
        for leaf in self._tree.leaves(prefix(k, self.n_prefix), halt):
            found = combine((found, self._leaf(leaf, threads, halt)))
        return found

    def _leaf(self, leaf: Leaf, threads: int, halt: Halt) -> Part:
        if not leaf.up and not leaf.direct:
            return self._part(self.form, 0, split(self.form.n_units), threads, halt)
        held, up = self._order[: len(leaf.up)], np.array(leaf.up, np.int64)
        rest, free, added = self.form.condition(held, up)
        part = self._part(rest, added, leaf.sizes(rest.n_units), threads, halt)
        return part if part.up is None else _with_held(part, free, held, up)

    def _part(self, form: IntegerMachine, added: int, sizes: tuple[int, int, int], threads: int, halt: Halt) -> Part:
        scale = math.ldexp(1.0, 61 - form.exponent)  # energy of one height
        beta = min(self.beta * scale, 1e300)
        if form.n_units <= SMALL:
            part, lowest = _sum_small(form, sizes, beta, self.wanted)
        else:
            passes = Passes(threads if form.n_units >= THREADED else 1, halt)
            with single_threaded_blas():
                part, lowest = _sum(form, sizes, beta, self.wanted, passes)
        low_energy = form.base + math.ldexp(lowest + added, -form.exponent)
        log_z = part.log_z - self.beta * low_energy
        if part.energy is None:
            return Part(log_z)
        variance = part.energy_variance
        if variance is not None:  # beyond the largest number where energies are beyond its root
            variance = min(variance * scale * scale, sys.float_info.max)
        return Part(log_z, low_energy + part.energy * scale, variance, part.up, part.pairs)


def _sum_small(form: IntegerMachine, sizes: tuple[int, int, int], beta: float, wanted: Wanted) -> tuple[Part, int]:
    """Do what `_sum` does in one compiled call: below some 2^21 terms calls of BLAS cost more than they save."""
    if not wanted.moments:
        total, lowest = total_small(form.rises, form.fields, sizes, beta)
        return Part(math.log(total)), lowest
    pairs = np.zeros((form.n_units, form.n_units))
    varies = wanted.energy_variance
    total, lowest, energy, variance = average_small(form.rises, form.fields, sizes, beta, varies, pairs)
    return Part(math.log(total), energy, variance if varies else None, pairs.diagonal().copy(), pairs), lowest


def _sum(
    form: IntegerMachine, sizes: tuple[int, int, int], beta: float, wanted: Wanted, passes: Passes
) -> tuple[Part, int]:
    """Return the sum in heights above an integer energy, and that energy."""
    forms = form_blocks(form.rises, form.fields, sizes)
    lowest = sum(int(one[3]) for one in forms)
    f, g, h = passes.tables([(form, 0.0, 0.0) for form in forms], beta)
    if not wanted.moments:
        return Part(math.log(passes.total(f, g, h))), lowest
    pairs = np.zeros((form.n_units, form.n_units))
    ab, bc, ac = passes.weigh([(h, g.T, f, forms[0]), (f.T, h, g, forms[1]), (f, g, h, forms[2])])
    of_b, of_c = sizes[0], sizes[0] + sizes[1]
    for weighed, rows, cols in ((ab, 0, of_b), (bc, of_b, of_c), (ac, 0, of_c)):
        add_pairs(*weighed, rows, cols, pairs)
    total, spreads = ac.total, (ab.spread, bc.spread, ac.spread)
    energy = sum(mean for mean, _ in spreads)
    variance = None
    if wanted.energy_variance:
        variance = sum(own for _, own in spreads)
        tilt = _best_tilt(spreads[0][1], spreads[1][1])
        if tilt > 0.0:
            tilted = [(forms[k], t, spreads[k][0]) for k in range(2) for t in (tilt, -tilt)]
            tables = passes.tables(tilted, beta)
            both, one = passes.covary(tables[:2], tables[2:], h, forms[2])
            variance = max(variance + 2.0 * float((both - total) / tilt + one) / (tilt * total), 0.0)
    return Part(math.log(total), energy, variance, pairs.diagonal().copy(), pairs), lowest


def _best_tilt(variance_f: float, variance_g: float) -> float:
    """Return the tilt that changes weights by about their own size; 0 where heights do not vary."""
    largest = max(variance_f, variance_g)
    return 1.0 / math.sqrt(largest) if largest > FLAT else 0.0


def _with_held(part: Part, free: np.ndarray, held: np.ndarray, up: np.ndarray) -> Part:
    """Put the units that are held back among the others."""
    n = len(free) + len(held)
    p = np.zeros(n)
    p[held] = up
    p[free] = part.up
    pairs = np.zeros((n, n))
    pairs[np.ix_(free, free)] = part.pairs
    for unit in held[up.astype(bool)]:
        pairs[unit] = pairs[:, unit] = p
    return Part(part.log_z, part.energy, part.energy_variance, p, pairs)


def n_tables(wanted: Wanted) -> int:
    """Return how many tables are held at a time at most, whatever the number of threads.

    Three, and the tiles of a product and all that is small count as one each. With moments there are the tiles of
    three products where threads have them all at a time; with variance, later, four tilted tables and two products.
    """
    if not wanted.moments:
        return 5
    return 11 if wanted.energy_variance else 7


def plan(
    model: BoltzmannMachine,
    beta: float,
    wanted: Wanted,
    *,
    threads: int,
    max_bytes: float,
    speeds: Speeds,
    min_pieces: int = 1,
    n_prefix: int | None = None,
) -> BlocksSum:
    """Plan a sum in three blocks.

    Parameters
    ----------
    min_pieces : int
        Hold so many units that there are at least as many pieces.
    n_prefix : int, optional
        Units that tell pieces apart; 0 makes each leaf a piece. As `prefix_length` says when left out.
    """
    n = model.n_units
    size = f"2^{n} states"
    if n_prefix is None:
        n_prefix = prefix_length(n, wanted)
    n_held = fewest_held(n, n_tables(wanted), max_bytes, max(min_pieces, 1 << n_prefix))
    if n_held is None or n_held > (MOST_PREFIXED if n_prefix else MOST_HELD):
        form = IntegerMachine(np.zeros((0, 0), np.int64), np.zeros(0, np.int64), 0.0, 0)
        return BlocksSum(form, beta, wanted, (), Forecast(math.inf, math.inf, size))
    form = IntegerMachine.of(model)
    if n_prefix:
        return BlocksSum(form, beta, wanted, (), _probed(form, beta, n_held, wanted, threads, speeds), n_held, n_prefix)
    leaves = cut(form, beta, n_held)
    if leaves is None:
        return BlocksSum(form, beta, wanted, (), Forecast(math.inf, math.inf, f"{size} over too wide a range"))
    return BlocksSum(form, beta, wanted, leaves, _forecast(n, leaves, wanted, threads, speeds, size))


def _probed(form: IntegerMachine, beta: float, n_held: int, wanted: Wanted, threads: int, speeds: Speeds) -> Forecast:
    """Forecast from some leaves of a tree, each for those like it; as if nothing were dropped where they tell none."""
    tree, n = Tree(form, beta, n_held), form.n_units
    probes = [tree.probe(seed) for seed in range(1 if tree.is_narrow else N_PROBES)]
    found = [probe for probe in probes if probe] or [(Leaf((0,) * n_held), 2.0**n_held * len(probes))]
    costs = [(_forecast(n, (leaf,), wanted, threads, speeds, ""), weight) for leaf, weight in found]
    node = 0.0 if tree.is_narrow else 2.0 * NODE_SECONDS
    seconds = sum(weight * (cost.seconds + node) for cost, weight in costs) / len(probes)
    most = _forecast(n, (Leaf((0,) * n_held),), wanted, threads, speeds, "").n_bytes
    return Forecast(seconds, most, f"2^{n} states")


def _forecast(n: int, leaves: tuple[Leaf, ...], wanted: Wanted, threads: int, speeds: Speeds, size: str) -> Forecast:
    seconds, n_bytes = 0.0, 0.0
    for leaf in leaves:
        rest = n - len(leaf.up)
        entries = 2.0**rest if leaf.direct else table_bytes(rest) / 8.0
        terms = 0.0 if leaf.direct else 2.0**rest * n_products(wanted)
        useful = threads if rest >= THREADED else 1
        seconds += (terms * speeds.product_term + entries * speeds.table_entry) / useful + 1e-5
        n_bytes = max(n_bytes, n_tables(wanted) / 3.0 * 8.0 * entries)
    return Forecast(seconds, n_bytes, size)
