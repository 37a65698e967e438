"""How a sum in three blocks is cut: which units are held, at which settings, and how the others are split.

Every table is scaled to a largest entry of 1, so that Z = scale sum F G H. What underflow loses is at most
2^n exp(-700), and nothing beside the sum where log sum > -700 + n log 2 + 40: the certificate. Z is at least the weight
of one state, so a low state found by descent certifies a sum before it is done. Where it cannot, one more unit is held:
the tables of each half follow its states more closely. Halves that are nothing beside a known state are dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..kernels.blocks import FARTHEST, form_blocks
from ..kernels.descent import descend
from .integers import IntegerMachine

MOST_BITS = 12  # units a block: tables of 2^24 numbers, 128 MB each
MARGIN = 40.0  # nats: exp(-40) is far below rounding
DIRECT = 12  # units that are summed from one table of all their states: it needs no certificate
MOST_LEAVES = 4096
MOST_HELD = 16  # units, where all their settings are leaves
N_STARTS = 32


@dataclass(frozen=True)
class Leaf:
    """Units that are held (a prefix of the plan's order) at bits, and whether the rest is one table."""

    up: tuple[int, ...]
    direct: bool = False

    def sizes(self, n_units: int) -> tuple[int, int, int]:
        """Sizes of the blocks that its `n_units` other units make."""
        return (0, 0, n_units) if self.direct else split(n_units)


def split(n_units: int) -> tuple[int, int, int]:
    """Sizes of the three blocks."""
    return (n_units + 2) // 3, n_units // 3, (n_units + 1) // 3


def held_order(form: IntegerMachine) -> np.ndarray:
    """Units by how strongly they pull, the strongest first: holding those narrows the range of energies most."""
    strength = np.abs(form.rises).sum(axis=1, dtype=np.float64) + np.abs(form.fields).astype(np.float64)
    return np.argsort(-strength, kind="stable")


def limit(n_units: int) -> float:
    """Exponents, in nats, that a sum over so many units may lose before the certificate fails."""
    return FARTHEST - MARGIN - n_units * math.log(2.0)


def is_narrow(form: IntegerMachine, beta: float) -> bool:
    """Whether all energies lie so close together that no sum can fail."""
    widest = 0.5 * float(np.abs(form.rises).sum(dtype=np.float64)) + float(np.abs(form.fields).sum(dtype=np.float64))
    return form.unit(beta) * 2.0 * widest < limit(form.n_units)


def cut(form: IntegerMachine, beta: float, n_held: int) -> tuple[Leaf, ...] | None:
    """Return the leaves of a sum in which at least `n_held` units are held; None where they are too many."""
    if is_narrow(form, beta):
        return tuple(Leaf(tuple(int(leaf) >> k & 1 for k in range(n_held))) for leaf in range(1 << n_held))
    order, unit = held_order(form), form.unit(beta)
    best = _lowest_found(form)
    leaves: list[Leaf] = []
    waiting: list[tuple[int, ...]] = [()]
    n_seen = 0
    while waiting:
        n_seen += 1
        if n_seen > 2 * MOST_LEAVES:
            return None
        up = waiting.pop()
        rest, _, added = form.condition(order[: len(up)], np.array(up, np.int64))
        tables = form_blocks(rest.rises, rest.fields, split(rest.n_units))
        bound = added + sum(int(table[3]) for table in tables)
        if unit * (bound - best) > MARGIN + 5.0 + (form.n_units + rest.n_units) * math.log(2.0):
            continue
        gap = unit * (added + _lowest_found(rest) - bound)
        if len(up) >= n_held and gap < limit(rest.n_units):
            leaves.append(Leaf(up))
        elif len(up) >= n_held and rest.n_units <= DIRECT:
            leaves.append(Leaf(up, direct=True))
        else:
            waiting += [(*up, 1), (*up, 0)]
    return tuple(leaves) if len(leaves) <= MOST_LEAVES else None


def _lowest_found(form: IntegerMachine) -> int:
    """The lowest integer energy that descents from some states reach."""
    if not form.n_units:
        return 0
    return int(descend(form.rises, form.fields, N_STARTS))


def fewest_held(n_units: int, n_tables: int, max_bytes: float, min_pieces: int) -> int | None:
    """How many units must be held for tables that fit; None where none do."""
    for held in range(n_units + 1):
        sizes = split(n_units - held)
        fits = max(sizes) <= MOST_BITS and table_bytes(n_units - held) * n_tables / 3 <= max_bytes
        if fits and (1 << held >= min_pieces or held == n_units):
            return held
    return None


def table_bytes(n_units: int) -> float:
    """Memory of the three tables."""
    a, b, c = split(n_units)
    return 8.0 * (2.0 ** (a + b) + 2.0 ** (b + c) + 2.0 ** (a + c))
