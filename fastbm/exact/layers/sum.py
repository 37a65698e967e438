"""Sums over one set of alternate layers, the other layers in closed form.

A restricted machine takes 2^n states of its smaller side, a deeper one those of its even or odd layers, whichever have
fewer units. Averages are mixtures over these states, given which all other units are independent: with
s_j = P(j up | r), P(j and k up) = sum_r p(r) s_j s_k, a matrix product over the states.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ..._base.halting import Halt, never, stop_if_asked
from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.exact.layers import LANES, fill_conditionals
from ...machine.machine import BoltzmannMachine
from ..plan import Forecast, Part, Speeds, Wanted
from .form import LARGEST, LayerForm, StateWeights, terms_per_state

MOST_LOW = 10  # units whose settings stand in tables
TABLE = 1 << 22  # entries that those tables may have, beyond what a vector needs
MOST_SUMMED = 62  # beyond it a state has no 64-bit number
BLOCK_TERMS, BLOCK_STATES = 1 << 26, 1 << 17  # of what one thread does at a time: a few milliseconds
PIECE_TERMS = 1 << 34  # of a piece without moments: a second or two
PIECE_PRODUCTS, PIECE_STATES = 1 << 38, 1 << 20  # of a piece with moments: some seconds; weights of its states are held
CHUNK_PRODUCTS, FEWEST, MOST = 1 << 32, 256, 4096  # states that go into one matrix product
LOST = 1e-18  # share of a piece's weight that its lightest states may have and be left out of averages: below rounding
BATCH = 8  # blocks for each thread between two looks at a stop
HELD = 1 << 20  # numbers of matrix products of a thread that are added up together

T = TypeVar("T")


def low_units(form: LayerForm) -> int:
    """Return how many of the enumerated units are low."""
    room = max(TABLE // max(form.n_closed, 1), LANES).bit_length() - 1
    return min(MOST_LOW, room, form.n_summed)


def block_rows(cost: float, n_low_states: int) -> int:
    """Return how many settings of the high units are weighed at a time."""
    states = min(BLOCK_STATES, BLOCK_TERMS / cost)
    return 1 << max(int(states / max(n_low_states, LANES)).bit_length() - 1, 0)


def in_batches(task: Callable[[Any], T], items: range, size: int, threads: int, halt: Halt) -> list[T]:
    """Fan out `task`, and look for a stop after every `size` items for each thread."""
    results: list[T] = []
    step = size * threads
    for first in range(0, len(items), step):
        stop_if_asked(halt)
        results += fan_out(task, items[first : first + step], threads)
    return results


@dataclass
class LayerSum:
    """The sum over all states of the enumerated units; see `fastbm.exact.plan.Sum`."""

    form: LayerForm
    beta: float
    wanted: Wanted
    n_low: int
    n_inside: int  # enumerated units that vary within a piece
    forecast: Forecast
    name: str = "layers"

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""
        return 1 << (self.form.n_summed - self.n_inside)

    @property
    def named_pairs(self) -> np.ndarray | None:
        """None: pairs are a full matrix."""
        return None

    @property
    def detail(self) -> dict[str, Any]:
        """Numbers of units that are enumerated and that are summed in closed form."""
        return {"summed": self.form.n_summed, "closed": self.form.n_closed}

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part:
        """Sum piece `k`."""
        stop_if_asked(halt)
        tables = StateWeights(self.form, self.beta, self.n_low)
        n_high = 1 << (self.n_inside - self.n_low)
        rows = min(block_rows(tables.cost, tables.n_low_states), n_high)
        starts = range(k * n_high, (k + 1) * n_high, rows)
        shift = -self.beta * self.form.offset
        if not self.wanted.moments:

            def total_of(start: int) -> tuple[float, float]:
                top, weights = tables.weigh(start, rows)
                return top, float(weights.sum())

            blocks = in_batches(total_of, starts, BATCH, threads, halt)
            top = max(t for t, _ in blocks)
            return Part(shift + top + math.log(math.fsum(math.exp(t - top) * w for t, w in blocks)))
        weighed = in_batches(lambda start: tables.weigh(start, rows), starts, BATCH, threads, halt)
        top = max(t for t, _ in weighed)
        weights = np.concatenate([(math.exp(t - top) * w).ravel() for t, w in weighed])
        total = math.fsum(weights.reshape(-1, tables.n_low_states).sum(axis=1))
        return self._average(tables, k * n_high, weights / total, shift + top + math.log(total), threads, halt)

    def _average(
        self, tables: StateWeights, first: int, weights: np.ndarray, log_z: float, threads: int, halt: Halt
    ) -> Part:
        """Averages over the piece whose states have `weights`, of sum 1, and whose high settings start at `first`."""
        form, n = self.form, self.form.n_units
        n_high = len(weights) // tables.n_low_states
        gaps, pulls = tables.high_tables(first, n_high)
        states = np.flatnonzero(weights > _negligible(weights))
        chances = weights[states]
        roots = np.sqrt(chances)
        energies = np.empty((2, len(states)))
        held = [i for i in range(self.n_inside, form.n_summed) if first >> (i - self.n_low) & 1]

        def average(start: int) -> tuple[np.ndarray, np.ndarray]:
            part = slice(start, start + size)
            numbers, weight = states[part], roots[part]
            rows, moments = np.empty((len(numbers), n)), np.empty((2, len(numbers)))
            fill_conditionals(rows, moments, weight, numbers, gaps, tables.low_gaps, self.beta, form.share)
            rows[:, held] = weight[:, None]  # numbers do not hold the units that are up throughout the piece
            moments[0] -= pulls[numbers // tables.n_low_states] + tables.low_pulls[numbers % tables.n_low_states]
            energies[:, part] = moments
            return rows.T @ rows, weight @ rows

        size = chunk_states(n)
        pairs, up = np.zeros((n, n)), np.zeros(n)
        starts, step = range(0, len(states), size), threads * min(max(HELD // n**2, 1), BATCH)
        for at in range(0, len(starts), step):
            stop_if_asked(halt)
            with single_threaded_blas():
                done = fan_out(average, starts[at : at + step], threads)
            for product, single in done:
                pairs += product
                up += single
        return Part(log_z, *self._energy(chances, energies), *self._ordered(pairs, up))

    def _energy(self, chances: np.ndarray, energies: np.ndarray) -> tuple[float, float]:
        """Mean and variance over states that have means and variances of their own."""
        reference = float(energies[0, chances.argmax()])
        mean = float((chances * (energies[0] - reference)).sum())
        with np.errstate(over="ignore"):  # where energies are beyond the root of the largest number
            variance = float((chances * (energies[1] + (energies[0] - reference - mean) ** 2)).sum())
        return self.form.offset + (reference + mean), min(variance, sys.float_info.max)

    def _ordered(self, pairs: np.ndarray, up: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return P(up) and P(both up) in the machine's order of units.

        A unit in closed form is up with itself, not twice on its own.
        """
        order = np.concatenate([self.form.summed, self.form.closed])
        up[: self.form.n_summed] = np.diagonal(pairs)[: self.form.n_summed]
        np.fill_diagonal(pairs, up)
        place = np.argsort(order)
        return up[place], pairs[np.ix_(place, place)]


def _negligible(weights: np.ndarray) -> float:
    """Return the weight up to which all states together weigh no more than `LOST`."""
    exponents = -np.frexp(weights)[1]  # weights are at most 1: these are not below -1
    shares = np.bincount(exponents + 1, weights=weights)
    dropped = np.cumsum(shares[::-1])[::-1] <= LOST
    kept = int(np.flatnonzero(~dropped).max()) - 1
    return math.ldexp(0.5, -kept) * (1.0 - 2.0**-53)


def chunk_states(n_units: int) -> int:
    """Return the states of one matrix product."""
    return min(max(CHUNK_PRODUCTS // n_units**2, FEWEST), MOST)


def plan(
    model: BoltzmannMachine, beta: float, wanted: Wanted, *, threads: int, max_bytes: float, speeds: Speeds
) -> LayerSum:
    """Plan the sum over the alternate layers with fewer units.

    Notes
    -----
    Cost O(2^n_summed n_closed), with moments O(2^n_summed n_units^2). Machines that are not layered, and those of more
    than 62 units to enumerate, have a forecast of inf.
    """
    form = LayerForm.of(model)
    n_low, n_summed, n = low_units(form), form.n_summed, form.n_units
    cost = state_terms(form, n_low, beta)
    n_inside = min(n_summed, max(n_low, int(math.log2(PIECE_TERMS / cost))))
    if wanted.moments:
        n_inside = min(n_inside, max(n_low, int(math.log2(min(PIECE_PRODUCTS / n**2, PIECE_STATES)))))
    n_bytes = table_bytes(form, n_low, cost, threads)
    seconds = cost * speeds.layer_term
    if wanted.moments:
        seconds += 0.5 * n**2 * speeds.product_term + (n + 64) * speeds.table_entry
        n_bytes += 8.0 * (2 * threads + 2) * n**2 + 8.0 * threads * chunk_states(n) * n
        n_bytes += 40.0 * (1 << n_inside) + 8.0 * (1 << (n_inside - n_low)) * form.n_closed
    possible = form.n_closed > 0 and n_summed <= MOST_SUMMED and n_bytes <= max_bytes
    seconds = seconds * 2.0**n_summed / threads if possible else math.inf
    size = f"2^{n_summed} states of layers with {n_summed} of {n} units"
    return LayerSum(form, beta, wanted, n_low, n_inside, Forecast(seconds, n_bytes, size))


def state_terms(form: LayerForm, n_low: int, beta: float) -> float:
    """Return what one state of the enumerated units takes, in factors."""
    n_steep = int((form.widest(n_low, beta) > LARGEST).sum())
    return float(terms_per_state(form.n_closed - n_steep, n_steep))


def table_bytes(form: LayerForm, n_low: int, cost: float, threads: int) -> float:
    """Return the memory for the tables of the low units, and for the blocks that the threads work on."""
    n_low_states = max(1 << n_low, LANES)
    rows = block_rows(cost, n_low_states)
    return 8.0 * (4 * n_low_states * form.n_closed + threads * rows * (3 * n_low_states + 3 * form.n_closed))
