"""Exact sums over all 2^n states by Gray code.

The reference among the engines: logarithms throughout, any range of couplings, memory that grows with n alone. Pieces
are blocks of the code of a fixed size. The lowest states of a piece come first: weights are relative to the lowest. The
code is that of `fastbm.kernels.exact.gray`.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..._base.halting import Halt, never
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ..integers import IntegerMachine
from ..plan import Forecast, Part, Speeds, Wanted
from .code import LOW_UNITS, SLICES_A_THREAD, Block, Code, Totals, Weights, list_states

PIECE_UNITS = 30  # 2^30 states take one to two seconds on one thread
MOST_UNITS = 62  # beyond it a state has no number of 64 bits
NEGLIGIBLE = 1e-30  # beta times the range of the energies below which moments of the energy are those at beta = 0
LARGEST_SCALE = 1e280  # at which all states but the lowest weigh nothing
LISTING, TOTAL = 0.2, 0.8  # time of a state to find the lowest, and to sum without moments, over that with moments
LOG_2 = math.log(2.0)


@dataclass(frozen=True)
class GraySum:
    """A sum by Gray code, planned."""

    machine: IntegerMachine | None  # None where it cannot be done
    convention: Units
    beta: float
    wanted: Wanted
    n_lowest: int
    distribution: tuple[int, ...] | None
    n_pieces: int
    forecast: Forecast
    name: str = field(default="gray", init=False)
    named_pairs: None = field(default=None, init=False)

    @property
    def detail(self) -> dict[str, Any]:
        """How the code is cut: the number of pieces."""
        return {"pieces": self.n_pieces}

    @property
    def _form(self) -> IntegerMachine:
        if self.machine is None:
            raise ValueError(f"A sum over {self.forecast.size} cannot be done by Gray code.")
        return self.machine

    @cached_property
    def _order(self) -> list[int]:
        """The units in the order in which the sum takes them: the chosen ones are first."""
        chosen = list(self.distribution or ())
        return chosen + [unit for unit in range(self._form.n_units) if unit not in set(chosen)]

    @cached_property
    def _natural(self) -> Code:
        """The code of the units as they are numbered."""
        return Code.of(self._form, range(self._form.n_units))

    @cached_property
    def _code(self) -> Code:
        """The code that is summed over: of two units at least, which is what its kernels take."""
        return Code.of(self._form, self._order, 2)

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part:
        """Sum one block of the code."""
        depth = self._code.n_high - (self.n_pieces.bit_length() - 1)
        block = Block(k << depth, depth, threads, halt)
        lowest = list_states(self._natural, block, max(self.n_lowest, 1))
        natural = self._order == sorted(self._order)
        least = int((lowest if natural else list_states(self._code, block, 1))[0, 0])
        scale = min(self.beta * math.ldexp(1.0, -self._form.exponent) / LOG_2, LARGEST_SCALE)
        weights = Weights(self._code, block, least, scale)
        totals, up, pairs, distribution = None, None, None, None
        if self.distribution is not None:
            totals, chosen = weights.distribution(len(self.distribution))
            distribution = chosen / totals[0]
        if self.wanted.moments:
            totals, risen = weights.moments()
            up, pairs = self._up(risen / totals[0])
        log_z, energy, variance = self._energies(totals or weights.totals(), least, block)
        return Part(log_z, energy, variance, up, pairs, distribution, lowest if self.n_lowest else None)

    def _energies(self, totals: Totals, least: int, block: Block) -> tuple[float, float, float]:
        """Return log Z, <E> and its variance."""
        form, beta = self._form, self.beta
        whole, first, second = totals
        low_energy = form.base + math.ldexp(least, -form.exponent)
        n_added = self._code.machine.n_units - form.n_units
        log_z = math.log(math.ldexp(whole, -n_added)) - beta * low_energy
        if beta * math.ldexp(1.0, 61 - form.exponent) <= NEGLIGIBLE:
            return log_z, *_flat_energy(self._code, block)
        height = first / whole
        width = math.sqrt(max(second / whole - height**2, 0.0))
        width = width * LOG_2 / beta  # its square is beyond the largest number where energies are beyond its root
        return log_z, low_energy + height * LOG_2 / beta, min(width * width, sys.float_info.max)

    def _up(self, ordered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P(i up) and P(i and j up), from the latter in the order of the sum."""
        n = len(self._order)
        pairs = np.empty((n, n))
        pairs[np.ix_(self._order, self._order)] = ordered[:n, :n]
        return pairs.diagonal().copy(), pairs

    def found(self, part: Part) -> dict[str, Any]:
        """Return what only this engine gives, from all pieces combined.

        Returns
        -------
        dict
            "lowest energies" (n_lowest,) and "lowest states" (n_lowest, n_units) int8 in the model's units, ordered by
            energy and then by number; "distribution" (2^m,) of the chosen units.
        """
        form, detail = self._form, {}
        if part.lowest is not None:
            steps, numbers = part.lowest.T
            bits = numbers[:, None] >> np.arange(form.n_units) & 1
            detail["lowest energies"] = form.base + np.ldexp(steps.astype(float), -form.exponent)
            detail["lowest states"] = self.convention.values(bits)
        if part.distribution is not None:
            detail["distribution"] = part.distribution
        return detail


def _flat_energy(code: Code, block: Block) -> tuple[float, float]:
    """<E> and its variance over a block whose states weigh the same: couplings of spins are uncorrelated there."""
    gray = block.start ^ (block.start >> 1)
    held = np.arange(code.n_low + block.depth, code.machine.n_units)
    free, _, added = code.machine.condition(held, gray >> (held - code.n_low) & 1)
    mean = math.ldexp(4 * added - int(free.rises.sum()) // 2 - 2 * int(free.fields.sum()), -2 - free.exponent)
    pairs = np.ldexp(np.triu(free.rises, 1).astype(float), -2 - free.exponent)
    fields = np.ldexp(free.fields.astype(float), -1 - free.exponent) + (pairs + pairs.T).sum(axis=1)
    with np.errstate(over="ignore"):
        variance = float((pairs**2).sum() + (fields**2).sum())
    return free.base + mean, min(variance, sys.float_info.max)


def plan(
    model: BoltzmannMachine,
    beta: float,
    wanted: Wanted,
    *,
    threads: int,
    max_bytes: float,
    speeds: Speeds,
    n_lowest: int = 0,
    distribution: tuple[int, ...] | None = None,
    min_pieces: int = 1,
) -> GraySum:
    """Plan a sum by Gray code; memory is small, whatever `max_bytes` is.

    Parameters
    ----------
    n_lowest : int
        List as many states of lowest energy; all where there are fewer.
    distribution : tuple of int, optional
        Units, each once, whose joint distribution is wanted. Its memory is 2^m numbers for each slice under way.
    min_pieces : int
        Cut the code into at least as many pieces, where it has as many steps.
    """
    n = model.n_units
    able = n <= MOST_UNITS
    n_lowest = min(n_lowest, 1 << min(n, MOST_UNITS))
    n_high = max(n - LOW_UNITS, 0)
    n_cuts = min(max(n - PIECE_UNITS, (min_pieces - 1).bit_length()), n_high) if able else 0
    effort = _effort(wanted, n_lowest, distribution)
    seconds = math.ldexp(effort * speeds.gray_state, n) / threads if able else math.inf
    slice_bytes = 8.0 * (_numbers(wanted, n_high) + 4 * n_lowest + (1 << len(distribution or ())))
    forecast = Forecast(seconds, SLICES_A_THREAD * threads * slice_bytes, f"2^{n} states")
    return GraySum(
        IntegerMachine.of(model) if able else None,
        model.convention,
        beta,
        wanted,
        n_lowest,
        None if distribution is None else tuple(distribution),
        1 << n_cuts,
        forecast,
    )


def _effort(wanted: Wanted, n_lowest: int, distribution: tuple[int, ...] | None) -> float:
    """Time of a state, over that of a sum with moments; that of the long lists of lowest states is left out."""
    sums = int(wanted.moments) + TOTAL * (distribution is not None)
    listing = LISTING * (bool(distribution) + bool(n_lowest))
    return (sums or TOTAL) + listing


def _numbers(wanted: Wanted, n_high: int) -> int:
    """Numbers of 8 bytes that a slice holds, but for lists and distributions."""
    tables = 3 * n_high + 4 if wanted.moments else 4
    return (tables << LOW_UNITS) + n_high**2
