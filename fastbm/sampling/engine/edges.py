"""Couplings and biases in whole numbers, whose sums no order of additions changes, and energies from these."""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np

from ...kernels.patterns import WORDS
from ...kernels.unlike import (
    DIGIT,
    EDGES,
    FEW_DIGITS,
    LOOKS_UP,
    MANY_DIGITS,
    SOME_DIGITS,
    room_of_sums,
    sum_unlike,
    tables_of_sums,
)
from ...kernels.words import QUAD, SHORT, SIDE, room_for_rows, write_rows
from ...machine.couplings import Couplings

ENERGY_ERROR = 1e-9  # of sum |W| + sum |b|: the most that an energy may be off
FLOAT_BITS = 53  # of a float64
SMALL = 1 << 12  # units of machines whose numbers are kept, which short runs would wait for
LISTED = 14  # units, of which one pair has all: the sums of all states stay in the second cache
SIZES = 7, 5  # units of a group: at most, of up to four; of more, so that sums of their pairs stay in the second cache
TOGETHER = 5  # edges, whose sums have so many digits at most: on all processors, as numbers depend on it
EDGES_OF_A_PAIR = 40 if LOOKS_UP else 8  # that are summed in the time of looking a pair up
MANY = 1 << 13  # edges, whose sums are rounded in float64 to about as much as numbers of fewer digits


class EdgeNumbers:
    """Numbers of edges that an energy has where their units are unlike, in multiples of a unit.

    A unit that is up is unlike one beyond the last, so that biases are edges too; and so are binary couplings, by
    x_i x_j = (x_i + x_j - u_ij) / 2, u being 1 where both are unlike.

    Attributes
    ----------
    exact : bool
        Whether the roundings of all couplings together are at most `ENERGY_ERROR`; else there are no numbers.
    unit : float
        Of which energies are whole numbers, but for a constant.
    margin : float
        What energies may be off from those that are summed in float64.
    """

    def __init__(self, couplings: Couplings, bias: np.ndarray, *, binary: bool) -> None:
        indptr, indices, values = couplings.csr()
        n_units = couplings.n_units
        rows = np.repeat(np.arange(n_units, dtype=np.int32), np.diff(indptr))
        once = rows < indices
        weights = values[once]
        of_units = -2.0 * bias
        if binary:
            of_units = -bias - 0.5 * np.bincount(rows, values, n_units)
        units = np.flatnonzero(of_units).astype(np.int32)
        values = np.concatenate([(0.5 if binary else 2.0) * weights, of_units[units]])
        ends = np.stack([np.append(rows[once], units), np.append(indices[once], np.full_like(units, n_units))], axis=1)
        step = EDGES or 1
        left = -len(values) % step if len(values) else step
        self._n_units = n_units
        self._edges = np.concatenate([ends, np.full((left, 2), n_units, np.int32)], dtype=np.int32)
        self._constant = 0.0 if binary else float(bias.sum() - weights.sum())
        self._most = float(np.abs(weights).sum() + np.abs(bias).sum())
        self.exact = self._count(np.append(values, np.zeros(left))) and self._rounded <= ENERGY_ERROR * self._most
        self.margin = 2.0 * ENERGY_ERROR * self._most
        self._tables = np.zeros((0, self._n_digits, 16), np.uint16)
        if self.exact and EDGES:
            self._tables = tables_of_sums(self._numbers.astype(np.int64).reshape(-1, EDGES), self._n_digits)

    def _count(self, values: np.ndarray) -> bool:
        """Find a unit and numbers of it, first such that need few digits; return whether there are any."""
        sizes = np.abs(values)
        groups = np.append(sizes, np.zeros(-len(sizes) % TOGETHER)).reshape(-1, TOGETHER)
        most, total = float(groups.sum(axis=1).max()), float(sizes.sum())
        self.unit, self._n_digits, self._rounded = float(sizes[sizes > 0].min(initial=math.inf)), FEW_DIGITS, 0.0
        if not total:
            self.unit = 1.0
        if most / self.unit < 1 << DIGIT * FEW_DIGITS:
            self._numbers = np.rint(values / self.unit)
            if np.array_equal(self._numbers * self.unit, values):
                return True
        self._n_digits = MANY_DIGITS if len(values) < MANY else SOME_DIGITS
        if not math.isfinite(total):
            return False
        room = DIGIT * self._n_digits - math.frexp(most)[1], FLOAT_BITS - math.frexp(total)[1]
        exponent = min(room) - 1  # as numbers are rounded up
        self.unit, self._numbers = math.ldexp(1.0, -exponent), np.rint(np.ldexp(values, exponent))
        self._rounded = float(np.abs(np.ldexp(self._numbers, -exponent) - values).sum())
        return self.unit > 0.0

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Edges, numbers and tables, as kernels take them."""
        return self._edges, self._numbers, self._tables

    @property
    def of_samples(self) -> tuple[tuple[np.ndarray, ...], float, float]:
        """What kernels take that tell energies: arrays, the unit, and the constant."""
        return self.arrays, self.unit, self._constant

    @property
    def many_digits(self) -> bool | None:
        """True where there are more digits than one."""
        return None if self._n_digits == FEW_DIGITS else True

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Sums of numbers within pairs of groups of units; None where they are not sooner looked up than summed.

        Where both groups of each pair begin, (n_pairs, 2) int64, and the sums (n_pairs, 2^k, 2^k) by states of its
        second and its first group, of k units; those within a group are part of the first pair that it is in.
        """
        n = self._n_units
        if n > SHORT:
            return None
        n_groups = 2 if n <= LISTED else max(2, -(-n // SIZES[0]))
        size = -(-n // n_groups) if n_groups <= 4 else SIZES[1]
        n_groups = max(2, -(-n // size))
        first, second = np.triu_indices(n_groups, 1)
        if len(self._edges) < EDGES_OF_A_PAIR * (len(first) - 1):
            return None
        whole = np.zeros((n_groups * size + 1,) * 2)
        ends = np.where(self._edges < n, self._edges, n_groups * size).T
        np.add.at(whole, tuple(ends), self._numbers)
        up = (np.arange(1 << size)[:, None] >> np.arange(size) & 1).astype(np.float64)
        of_groups = whole[:-1, :-1].reshape(n_groups, size, n_groups, size).swapaxes(1, 2)
        within = of_groups[range(n_groups), range(n_groups)]
        biases = whole[:-1, -1].reshape(n_groups, size)
        own = ((up @ within) * (1.0 - up) + (1.0 - up) @ within * up).sum(axis=2) + biases @ up.T
        sums = _unlike(up, of_groups[first, second])
        sums[: n_groups - 1] += own[1:, :, None]  # the first group stands before all others
        sums[0] += own[0]
        return size * np.stack([first, second], axis=1), sums

    def energies(self, up: np.ndarray) -> np.ndarray:
        """Return energies without offset of the chains of a block."""
        sums: np.ndarray = np.empty((1, 32 * WORDS))
        self.sum(up[None], sums)
        found: np.ndarray = self.energies_of(sums)[0]
        return found

    def sum(self, ups: np.ndarray, sums: np.ndarray) -> None:
        """Sum numbers in states (n_states, n_units + 1, `WORDS`) of all chains. Mutates `sums` (n_states, 128)."""
        sum_unlike(ups, self.arrays, self.many_digits, self.room(len(ups)), sums)

    def room(self, n_states: int) -> tuple[np.ndarray, ...]:
        """Return room for the sums of so many states."""
        return room_of_sums(n_states, self._n_digits)

    def energies_of(self, sums: np.ndarray) -> np.ndarray:
        """Return energies without offset from sums of numbers."""
        found: np.ndarray = self._constant + self.unit * sums
        return found

    def check(self, kept: np.ndarray, full: np.ndarray) -> None:
        """Hold energies against their sums in float64.

        Raises
        ------
        RuntimeError
            If they have come apart.
        """
        c = int(np.argmax(np.abs(kept - full)))
        if abs(kept[c] - full[c]) > self.margin:
            raise RuntimeError(
                f"the energy of a chain, {kept[c]!r}, is not that of its state, {full[c]!r}: the memory of this "
                "machine or its compiled kernels are damaged. What was committed before is sound; resume the run "
                "elsewhere."
            )


class Links:
    """Edges (n, 2) int32 between units, of which it is counted how many are unlike."""

    def __init__(self, edges: np.ndarray, n_units: int) -> None:
        self._n_units, step = n_units, EDGES or 1
        left = np.full((-len(edges) % step, 2), n_units)  # between nothing, which is never unlike
        ends = np.concatenate([edges, left], dtype=np.int32)
        tables = np.zeros((0, FEW_DIGITS, 16), np.uint16)
        if EDGES:
            tables = np.repeat(tables_of_sums(np.ones((1, EDGES), np.int64), FEW_DIGITS), len(ends) // EDGES, axis=0)
        self._arrays = ends, np.ones(len(ends)), tables

    def count_unlike(self, packed: np.ndarray) -> np.ndarray:
        """Return how many there are in each state, (...) whole float64, of packed states (..., n_bytes)."""
        rows = packed.reshape(-1, packed.shape[-1])
        n_words = -(-self._n_units // SIDE) * QUAD
        some, words = np.zeros((SIDE, n_words), np.uint32), np.zeros((32 * n_words + 1, QUAD), np.uint32)
        found, sums, rooms = np.empty(len(rows)), np.empty((1, SIDE)), (room_of_sums(1, FEW_DIGITS), room_for_rows())
        for first in range(0, len(rows), SIDE):
            part = rows[first : first + SIDE]
            some.view(np.uint8)[: len(part), : part.shape[1]] = part
            # what writes a row of bits for each state writes one for each unit from these
            write_rows(some.astype("<u4", copy=False), words[:-1], False, rooms[1])
            sum_unlike(words[None, : self._n_units + 1], self._arrays, None, rooms[0], sums)
            found[first : first + SIDE] = sums[0, : len(part)]
        return found.reshape(packed.shape[:-1])


def _unlike(up: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return sums of numbers (n, i, j) where units i and j are unlike, (n, states of j's group, states of i's group).

    No part of a sum is more than the sum of all sizes, so that each is exact.
    """
    down, turned = 1.0 - up, numbers.swapaxes(1, 2)
    sums: np.ndarray = (down @ turned) @ up.T
    sums += (up @ turned) @ down.T
    return sums


def numbers_of(couplings: Couplings, bias: np.ndarray, *, binary: bool) -> EdgeNumbers:
    """Return the numbers of a machine, for small ones those that were made before; nobody may write to them."""
    if couplings.n_units > SMALL:
        return EdgeNumbers(couplings, bias, binary=binary)
    return _kept(couplings, bias.tobytes(), binary)  # type: ignore[arg-type]


@lru_cache(maxsize=8)
def _kept(couplings: Couplings, bias: bytes, binary: bool) -> EdgeNumbers:
    return EdgeNumbers(couplings, np.frombuffer(bias), binary=binary)
