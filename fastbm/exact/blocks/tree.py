"""How a sum in three blocks is cut: the tree of settings of units that are held, whose leaves are summed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..._base.halting import Halt, never, stop_if_asked
from ...kernels.exact.blocks import FARTHEST, form_blocks
from ...kernels.exact.gray import descend
from ..integers import IntegerMachine

MARGIN = 40.0  # nats: exp(-40) is far below rounding
DIRECT = 12  # units that are summed from one table of all their states: it needs no certificate
MOST_LEAVES = 4096
N_STARTS = 32
PROBED = 42  # units that are left where random walks begin to look


@dataclass(frozen=True)
class Leaf:
    """A piece of the sum: units that are held at bits, and whether the rest is one table.

    The units that are held are a prefix of the plan's order.
    """

    up: tuple[int, ...]
    direct: bool = False

    def sizes(self, n_units: int) -> tuple[int, int, int]:
        """Return the sizes of the blocks that its `n_units` other units make."""
        return (0, 0, n_units) if self.direct else split(n_units)


WHOLE = (Leaf(()),)  # nothing is held


def split(n_units: int) -> tuple[int, int, int]:
    """Return the sizes of the three blocks."""
    return (n_units + 2) // 3, n_units // 3, (n_units + 1) // 3


def held_order(form: IntegerMachine) -> np.ndarray:
    """Return units by how strongly they pull, the strongest first: holding those narrows the range of energies most."""
    strength = np.abs(form.rises).sum(axis=1, dtype=np.float64) + np.abs(form.fields).astype(np.float64)
    return np.argsort(-strength, kind="stable")


def limit(n_units: int) -> float:
    """Return the exponents, in nats, that a sum over so many units may lose before the certificate fails."""
    return FARTHEST - MARGIN - n_units * math.log(2.0)


def is_narrow(form: IntegerMachine, beta: float) -> bool:
    """Tell whether all energies lie so close together that no sum can fail."""
    if form.unit(beta) * 2.0**63 < limit(form.n_units):  # as no energy has 2^62 steps
        return True
    widest = 0.5 * float(np.abs(form.rises).sum(dtype=np.float64)) + float(np.abs(form.fields).sum(dtype=np.float64))
    return form.unit(beta) * 2.0 * widest < limit(form.n_units)


def cut(form: IntegerMachine, beta: float, n_held: int) -> tuple[Leaf, ...] | None:
    """Return the leaves of a sum in which at least `n_held` units are held; None where they are too many."""
    if is_narrow(form, beta):
        if not n_held:
            return WHOLE
        return tuple(Leaf(tuple(int(leaf) >> k & 1 for k in range(n_held))) for leaf in range(1 << n_held))
    tree = Tree(form, beta, n_held)
    leaves: list[Leaf] = []
    waiting: list[tuple[int, ...]] = [()]
    n_seen = 0
    while waiting:
        n_seen += 1
        if n_seen > 2 * MOST_LEAVES:
            return None
        up = waiting.pop()
        if isinstance(found := tree.look(up), Leaf):
            leaves.append(found)
        elif found:
            waiting += [(*up, 1), (*up, 0)]
    return tuple(leaves) if len(leaves) <= MOST_LEAVES else None


class Tree:
    """The tree of prefixes of a sum, whose leaves are its parts."""

    def __init__(self, form: IntegerMachine, beta: float, n_held: int) -> None:
        self._form, self._n_held, self._unit = form, n_held, form.unit(beta)
        self.is_narrow = is_narrow(form, beta)
        self._order = held_order(form)
        self._best = 0 if self.is_narrow else _lowest_found(form)

    def look(self, up: tuple[int, ...]) -> Leaf | bool:
        """Return the leaf that a prefix is, or whether anything of it weighs enough to be cut further."""
        if self.is_narrow:
            return Leaf(up) if len(up) >= self._n_held else True
        form, unit = self._form, self._unit
        rest, _, added = form.condition(self._order[: len(up)], np.array(up, np.int64))
        tables = form_blocks(rest.rises, rest.fields, split(rest.n_units))
        bound = added + sum(int(table[3]) for table in tables)
        if unit * (bound - self._best) > MARGIN + 5.0 + (form.n_units + rest.n_units) * math.log(2.0):
            return False
        if len(up) < self._n_held:
            return True
        if unit * (added + _lowest_found(rest) - bound) < limit(rest.n_units):
            return Leaf(up)
        return Leaf(up, direct=True) if rest.n_units <= DIRECT else True

    def leaves(self, prefix: tuple[int, ...], halt: Halt = never) -> Iterator[Leaf]:
        """Find the leaves under a prefix one after the other, those with the next unit down first."""
        waiting = [prefix]
        while waiting:
            stop_if_asked(halt)
            up = waiting.pop()
            if isinstance(found := self.look(up), Leaf):
                yield found
            elif found:
                waiting += [(*up, 1), (*up, 0)]

    def probe(self, seed: int) -> tuple[Leaf, float] | None:
        """Walk to a random leaf; return it, and how many like it there are (Knuth, Math. Comp. 29, 1975).

        Each is weighed by the choices on the way; None where nothing is left of the prefix that it begins with.
        """
        n = self._form.n_units
        bits = np.random.default_rng(seed).integers(2, size=n).tolist()
        up: tuple[int, ...] = tuple(bits[: self._n_held if self.is_narrow else max(n - PROBED, 0)])
        weight, found = 2.0 ** len(up), self.look(up)
        while not isinstance(found, Leaf):
            looks = {bit: look for bit in (0, 1) if (look := self.look((*up, bit)))} if found else {}
            if not looks:
                return None
            bit = bits[len(up)] if len(looks) == 2 else min(looks)
            up, found, weight = (*up, bit), looks[bit], weight * len(looks)
        return found, weight


def _lowest_found(form: IntegerMachine) -> int:
    """Return the lowest integer energy that descents from some states reach."""
    if not form.n_units:
        return 0
    return int(descend(form.rises, form.fields, N_STARTS))
