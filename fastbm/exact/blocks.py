"""Exact sums in three blocks, at the speed of a matrix product; see `fastbm.kernels.blocks`.

Beyond three blocks of 12 units, and where the certificate of `blocks_plan` asks for it, units are held at each of their
settings in turn: a piece of the sum for each.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..halting import Halt, never
from ..kernels.blocks import add_pairs, form_blocks
from ..model import BoltzmannMachine
from ..threads import single_threaded_blas
from .blocks_passes import Large, Passes, Small
from .blocks_plan import MOST_HELD, Leaf, cut, fewest_held, held_order, split, table_bytes
from .integers import IntegerMachine
from .part import Part
from .plan import Forecast, Wanted
from .speeds import Speeds

SMALL = 21  # units that one compiled call sums; beyond it BLAS is faster


@dataclass(frozen=True)
class BlocksSum:
    """A sum in three blocks, planned: one piece for each leaf."""

    form: IntegerMachine
    beta: float
    wanted: Wanted
    leaves: tuple[Leaf, ...]
    forecast: Forecast
    name: str = field(default="blocks", init=False)
    named_pairs: None = field(default=None, init=False)

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return len(self.leaves)

    @property
    def detail(self) -> dict[str, Any]:
        """How the sum is cut."""
        return {"held": min((len(leaf.up) for leaf in self.leaves), default=0), "pieces": self.n_pieces}

    @cached_property
    def _order(self) -> np.ndarray:
        return held_order(self.form)

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part:
        """Sum one leaf."""
        leaf = self.leaves[k]
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
            part, lowest = _sum(form, sizes, beta, self.wanted, Small())
        else:
            with single_threaded_blas():
                part, lowest = _sum(form, sizes, beta, self.wanted, Large(threads, halt))
        low_energy = form.base + math.ldexp(lowest + added, -form.exponent)
        log_z = part.log_z - self.beta * low_energy
        if part.energy is None:
            return Part(log_z)
        variance = part.energy_variance
        if variance is not None:  # beyond the largest number where energies are beyond its root
            variance = min(variance * scale * scale, sys.float_info.max)
        return Part(log_z, low_energy + part.energy * scale, variance, part.up, part.pairs)


def _sum(
    form: IntegerMachine, sizes: tuple[int, int, int], beta: float, wanted: Wanted, passes: Passes
) -> tuple[Part, int]:
    """Return the sum in heights above an integer energy, and that energy."""
    forms = form_blocks(form.rises, form.fields, sizes)
    lowest = sum(int(one[3]) for one in forms)
    f, g, h = (passes.table(one, beta) for one in forms)
    if not wanted.moments:
        return Part(math.log(passes.total(f, g, h))), lowest
    pairs = np.zeros((form.n_units, form.n_units))
    ab, bc = passes.weigh(h, g.T, f, forms[0]), passes.weigh(f.T, h, g, forms[1])
    ac = passes.weigh(f, g, h, forms[2])
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
            left = [passes.table(forms[0], beta, t, spreads[0][0]) for t in (tilt, -tilt)]
            right = [passes.table(forms[1], beta, t, spreads[1][0]) for t in (tilt, -tilt)]
            both, one = passes.covary(left, right, h, forms[2])
            variance = max(variance + 2.0 * float((both - total) / tilt + one) / (tilt * total), 0.0)
    return Part(math.log(total), energy, variance, pairs.diagonal().copy(), pairs), lowest


def _best_tilt(variance_f: float, variance_g: float) -> float:
    """The tilt that changes weights by about their own size; 0 where heights do not vary."""
    largest = max(variance_f, variance_g)
    return 1.0 / math.sqrt(largest) if largest > 1e-200 else 0.0


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


def n_products(wanted: Wanted) -> int:
    """Matrix products that a sum takes."""
    if not wanted.moments:
        return 1
    return 5 if wanted.energy_variance else 3


def n_tables(wanted: Wanted) -> int:
    """Tables that are held at a time: three, four tilted ones, the products' tiles, and one for all that is small."""
    return 11 if wanted.moments and wanted.energy_variance else 5


def plan(
    model: BoltzmannMachine,
    beta: float,
    wanted: Wanted,
    *,
    threads: int,
    max_bytes: float,
    speeds: Speeds,
    min_pieces: int = 1,
) -> BlocksSum:
    """Plan a sum in three blocks.

    Parameters
    ----------
    min_pieces : int
        Hold so many units that there are at least as many pieces.
    """
    n = model.n_units
    size = f"2^{n} states"
    n_held = fewest_held(n, n_tables(wanted), max_bytes, min_pieces)
    if n_held is None or n_held > MOST_HELD:
        form = IntegerMachine(np.zeros((0, 0), np.int64), np.zeros(0, np.int64), 0.0, 0)
        return BlocksSum(form, beta, wanted, (), Forecast(math.inf, math.inf, size))
    form = IntegerMachine.of(model)
    leaves = cut(form, beta, n_held)
    if leaves is None:
        return BlocksSum(form, beta, wanted, (), Forecast(math.inf, math.inf, f"{size} over too wide a range"))
    return BlocksSum(form, beta, wanted, leaves, _forecast(n, leaves, wanted, threads, speeds, size))


def _forecast(n: int, leaves: tuple[Leaf, ...], wanted: Wanted, threads: int, speeds: Speeds, size: str) -> Forecast:
    seconds, n_bytes = 0.0, 0.0
    for leaf in leaves:
        rest = n - len(leaf.up)
        entries = 2.0**rest if leaf.direct else table_bytes(rest) / 8.0
        terms = 0.0 if leaf.direct else 2.0**rest * n_products(wanted)
        useful = 1 if rest <= SMALL else threads
        seconds += (terms * speeds.product_term + entries * speeds.table_entry) / useful + 1e-5
        n_bytes = max(n_bytes, n_tables(wanted) / 3.0 * 8.0 * entries)
    return Forecast(seconds, n_bytes, size)
