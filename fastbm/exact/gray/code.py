"""Blocks of a Gray code in slices on threads, and what is added up over them.

The code and its slices are those of `fastbm.kernels.exact.gray`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._base.halting import Halt, stop_if_asked
from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.exact.gray import list_lowest, sum_slice, sum_slice_distribution, sum_slice_moments, tabulate_low
from ..integers import IntegerMachine
from ..plan import first_states

LOW_UNITS = 10  # a table of 1024 energies and weights stays in the first-level cache
SLICE_UNITS = 25  # a stop is looked for every few slices: about a tenth of a second
SMALL_SLICE_UNITS = 17  # smaller slices cost more to hand out than they save
SLICES_A_THREAD = 2  # slices that are handed out at a time
LAST = np.iinfo(np.int64).max  # energy and number of no state

Totals = tuple[float, float, float]  # sums of w, w z and w z^2


@dataclass(frozen=True)
class Code:
    """A machine whose first units are low and whose others a Gray code runs through."""

    machine: IntegerMachine
    n_low: int

    @classmethod
    def of(cls, machine: IntegerMachine, order: Sequence[int], n_least: int = 1) -> Code:
        """Put the units in this order, and uncoupled ones behind them if they are fewer than `n_least`."""
        n = max(len(order), n_least)
        rises, fields = np.zeros((n, n), np.int64), np.zeros(n, np.int64)
        rises[: len(order), : len(order)] = machine.rises[np.ix_(order, order)]
        fields[: len(order)] = machine.fields[order]
        return cls(IntegerMachine(rises, fields, machine.base, machine.exponent), min(LOW_UNITS, n))

    @property
    def n_high(self) -> int:
        """Number of units that the code runs through."""
        return self.machine.n_units - self.n_low

    @cached_property
    def table(self) -> np.ndarray:
        """(2^n_low,) int64: energies of the couplings of the low units."""
        found = np.empty(1 << self.n_low, np.int64)
        tabulate_low(np.ascontiguousarray(self.machine.rises[: self.n_low, : self.n_low]), found)
        return found


@dataclass(frozen=True)
class Block:
    """A block of 2^depth steps of a code from `start`, a multiple of it.

    It is done in slices of a fixed size, so that the bits do not depend on the threads.
    """

    start: int
    depth: int
    threads: int
    halt: Halt

    def slices(self, code: Code, function: Callable[[int, int], Any]) -> Iterator[Any]:
        """Yield what `function` returns for the start and the depth of each slice, in order."""
        n_units = self.depth + code.n_low
        cut = max(n_units - SLICE_UNITS, min(3, n_units - SMALL_SLICE_UNITS), 0)
        depth = self.depth - cut
        starts = [self.start + (k << depth) for k in range(1 << cut)]
        group = SLICES_A_THREAD * self.threads
        for k in range(0, len(starts), group):
            stop_if_asked(self.halt)
            yield from fan_out(lambda start: function(start, depth), starts[k : k + group], self.threads)


def list_states(code: Code, block: Block, n_lowest: int) -> np.ndarray:
    """Return the first states of a block by energy and number, (n_lowest, 2); rows of `LAST` where there are fewer."""
    machine = code.machine

    def run(start: int, depth: int) -> np.ndarray:
        energies, numbers = np.full(n_lowest, LAST), np.full(n_lowest, LAST)
        list_lowest(machine.rises, machine.fields, code.table, start, depth, energies, numbers)
        return np.stack([energies, numbers], axis=1)

    found = np.full((n_lowest, 2), LAST)
    for rows in block.slices(code, run):
        found = first_states(np.concatenate([found, rows]), n_lowest)
    return found


@dataclass(frozen=True)
class Weights:
    """Weights 2^-z of the states of a block, z = scale (energy - least)."""

    code: Code
    block: Block
    least: int
    scale: float

    @cached_property
    def _arguments(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        machine = self.code.machine
        return machine.rises, machine.fields, self.code.table - self.least

    def totals(self) -> Totals:
        """Return the sums of w, w z and w z^2."""

        def run(start: int, depth: int) -> Totals:
            found: Totals = sum_slice(*self._arguments, start, depth, self.scale)
            return found

        return _added(self.block.slices(self.code, run))

    def moments(self) -> tuple[Totals, np.ndarray]:
        """Return the sums of `totals`, and the weight with units i and j up, (n, n)."""
        n_low, n_high = self.code.n_low, self.code.n_high
        lows, pairs = np.zeros((1 + n_high, 1 << n_low)), np.zeros((n_high, n_high))

        def run(start: int, depth: int) -> tuple[Totals, np.ndarray, np.ndarray]:
            own_lows, own_pairs = np.zeros_like(lows), np.zeros_like(pairs)
            totals = sum_slice_moments(*self._arguments, start, depth, self.scale, own_lows, own_pairs)
            return totals, own_lows, own_pairs

        totals = []
        for found, own_lows, own_pairs in self.block.slices(self.code, run):
            totals.append(found)
            lows += own_lows
            pairs += own_pairs
        return _added(totals), _pairs_up(lows, pairs)

    def distribution(self, n_chosen: int) -> tuple[Totals, np.ndarray]:
        """Return the sums of `totals`, and the weights of the settings of the first units, (2^n_chosen,)."""
        size = 1 << max(n_chosen, self.code.n_low)
        weights = np.zeros(size)

        def run(start: int, depth: int) -> tuple[Totals, np.ndarray]:
            own = np.zeros(size)
            return sum_slice_distribution(*self._arguments, start, depth, self.scale, own), own

        totals = []
        for found, own in self.block.slices(self.code, run):
            totals.append(found)
            weights += own
        return _added(totals), weights.reshape(-1, 1 << n_chosen).sum(axis=0)


def _added(totals: Any) -> Totals:
    whole, first, second = (math.fsum(values) for values in zip(*totals, strict=True))
    return whole, first, second


def _pairs_up(lows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return the weight with units i and j both up.

    It follows from the weight by settings of the low units and the weight of pairs of high ones.
    """
    size, n_high = lows.shape[1], len(pairs)
    n_low = size.bit_length() - 1
    bits = (np.arange(size)[:, None] >> np.arange(n_low) & 1).astype(float)
    up = np.empty((n_low + n_high, n_low + n_high))
    with single_threaded_blas():  # on many threads a product has other bits
        low = np.tril((bits * lows[0][:, None]).T @ bits)  # products of some BLAS are symmetric but for rounding
        up[n_low:, :n_low] = lows[1:] @ bits
    up[:n_low, :n_low] = low + np.tril(low, -1).T
    up[:n_low, n_low:] = up[n_low:, :n_low].T
    up[n_low:, n_low:] = pairs + np.triu(pairs, 1).T
    return up
