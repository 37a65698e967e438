"""A layered machine as the layers whose states are enumerated and those that are summed in closed form.

Alternate layers are not coupled to one another: given the state r of every second layer the units of the others are
independent. With gaps f_j(r) = E(j down) - E(j up) = span (b_j + sum_i W_ij r_i) the weight of r is
exp(-beta E(r)) prod_j (exp(beta lo f_j / span) + exp(beta hi f_j / span)).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._base import arrays
from ...kernels.exact.layers import LANES, WIDTH, multiply_factors, multiply_steep
from ...kernels.functions import multiply_exponentials
from ...machine.couplings import Layered
from ...machine.machine import BoltzmannMachine

LARGEST = 690.0  # nats that the factors of a group may reach: exp(709) is the largest number


@dataclass(frozen=True)
class LayerForm:
    """Energies of a machine of which some units are enumerated and the others summed in closed form.

    E = offset - pull v - sum_j f_j (x_j + lo / span), v the values of the enumerated units, x_j = 1 where a unit in
    closed form is up, and f = gaps + v weights.
    """

    summed: np.ndarray  # (n_summed,) indices of the enumerated units
    closed: np.ndarray  # (n_closed,) indices of the others
    weights: np.ndarray  # (n_summed, n_closed)
    gaps: np.ndarray  # (n_closed,)
    pull: np.ndarray  # (n_summed,)
    lo: float
    hi: float
    offset: float

    @classmethod
    def of(cls, model: BoltzmannMachine) -> LayerForm:
        """Enumerate the alternate layers with fewer units; all units of a machine without layers."""
        couplings, bias, units = model.couplings, model.flat_bias, model.convention
        everything = np.arange(model.n_units)
        if not isinstance(couplings, Layered):
            summed, closed, weights = everything, everything[:0], np.zeros((model.n_units, 0))
        else:
            sides = [np.concatenate([everything[:0], *(everything[a] for a in couplings.layers[k::2])]) for k in (0, 1)]
            fewer = int(len(sides[1]) < len(sides[0]))
            summed, closed = sides[fewer], sides[1 - fewer]
            weights = _block(couplings, summed, closed)
        pull, gaps = bias[summed], units.span * bias[closed]
        return cls(
            summed, closed, units.span * weights, gaps, pull, float(units.lo), float(units.hi), model.offset
        )  # fmt: skip

    @property
    def n_summed(self) -> int:
        """Number of enumerated units."""
        return len(self.summed)

    @property
    def n_closed(self) -> int:
        """Number of units summed in closed form."""
        return len(self.closed)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.n_summed + self.n_closed

    @property
    def share(self) -> float:
        """Ratio lo / span: 0 for binary units, -1/2 for spins."""
        return self.lo / (self.hi - self.lo)

    def tables_of(self, units: slice, base: np.ndarray, first: int, n_settings: int) -> tuple[np.ndarray, np.ndarray]:
        """Return gaps and pulls of settings `first` and on of the enumerated units `units`.

        To gaps they add `base`, to pulls nothing.
        """
        both = tabulate(self._both[units], np.append(base, 0.0), self.lo, self.hi, first, n_settings)
        return np.ascontiguousarray(both[:, :-1]), both[:, -1]

    @cached_property
    def _both(self) -> np.ndarray:
        """Return what an enumerated unit adds to gaps, and last to the pull."""
        return np.concatenate([self.weights, self.pull[:, None]], axis=1)

    def widest(self, n_low: int, beta: float) -> np.ndarray:
        """Return how far |p_j| or |q_j| reaches for every unit in closed form, in nats.

        They are those of `fastbm.kernels.exact.layers`.
        """
        ends = np.stack([self.lo * self.weights, self.hi * self.weights])
        least, most = ends.min(axis=0), ends.max(axis=0)
        sums = [
            *(side[n_low:].sum(axis=0) + self.gaps for side in (least, most)),
            *(side[:n_low].sum(axis=0) for side in (least, most)),
        ]
        return beta * np.abs(sums).max(axis=0)


def _block(couplings: Layered, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the couplings between two sets of layers."""
    row_of, column_of = np.zeros((2, couplings.n_units), np.int64)
    row_of[rows], column_of[columns] = np.arange(len(rows)), np.arange(len(columns))
    weights = np.zeros((len(rows), len(columns)))
    everything = np.arange(couplings.n_units)
    for k, block in enumerate(couplings.blocks):
        upper, lower = everything[couplings.layers[k]], everything[couplings.layers[k + 1]]
        if not block.size:
            continue
        if np.isin(upper[0], rows):
            weights[np.ix_(row_of[upper], column_of[lower])] = block
        else:
            weights[np.ix_(row_of[lower], column_of[upper])] = block.T
    return weights


class StateWeights:
    """Tables from which the weights of all states of the enumerated units are made, the low ones of them in vectors.

    State number r is high * n_low_states + low; bit i of it is enumerated unit i.
    """

    def __init__(self, form: LayerForm, beta: float, n_low: int) -> None:
        self.form, self.beta = form, beta
        self.n_low, self.n_low_states = n_low, 1 << n_low
        self.low_units, self.high_units = slice(0, n_low), slice(n_low, None)
        slots, self._groups, self._steep = _slots(form.widest(n_low, beta))
        self._slots, self._empty = slots, slots < 0
        n_lanes = max(self.n_low_states, LANES)  # settings beyond those of the low units repeat them
        gaps, self.low_pulls = form.tables_of(self.low_units, np.zeros(form.n_closed), 0, n_lanes)
        self.low_gaps = gaps[: self.n_low_states]
        self._line = beta * self.low_pulls
        self._line += beta * (form.share + 1.0) * gaps[:, slots[~self._empty]].sum(axis=1)
        n_tiles = n_lanes // LANES
        factors = _exponentials(-beta * gaps.take(slots, axis=1))
        factors[:, self._empty] = 1.0
        tiles = factors.reshape(n_tiles, LANES, len(slots) // WIDTH, WIDTH).transpose(0, 2, 3, 1)
        self._factors = arrays.copy(tiles.reshape(n_tiles, len(slots) // WIDTH, WIDTH * LANES))
        steep = beta * gaps.take(self._steep, axis=1).reshape(n_tiles, LANES, len(self._steep))
        self._steep_odds = arrays.copy(steep.transpose(0, 2, 1))

    @property
    def cost(self) -> float:
        """Terms a state takes: an exponential takes as long as many factors."""
        return float(terms_per_state(len(self._slots), len(self._steep)))

    def high_tables(self, first: int, n_high: int) -> tuple[np.ndarray, np.ndarray]:
        """Return gaps from the biases and settings `first` and on of the high units, and their pulls."""
        return self.form.tables_of(self.high_units, self.form.gaps, first, n_high)

    def weigh(self, first: int, n_high: int) -> tuple[float, np.ndarray]:
        """Return top and weights (n_high, n_low_states) for settings `first` and on of the high units.

        exp(top) times the weights is exp(-beta (E - offset)) summed over the units in closed form.
        """
        gaps, pulls = self.high_tables(first, n_high)
        fast = gaps.take(self._slots, axis=1)
        line = self.beta * pulls
        line += self.beta * self.form.share * fast[:, ~self._empty].sum(axis=1)
        fast *= self.beta
        fast = _exponentials(fast)
        fast[:, self._empty] = 0.0
        mantissas = arrays.zeros((n_high, len(self._line)), np.float64)
        heights = arrays.zeros(mantissas.shape, np.float64)
        mantissas.fill(1.0)
        np.add(line[:, None], self._line, out=heights)
        multiply_factors(mantissas, heights, fast, self._factors, self._groups)
        if len(self._steep):
            steep = self.beta * gaps.take(self._steep, axis=1)
            multiply_steep(mantissas, heights, steep, self._steep_odds, self.form.share)
        top = float(heights.max())
        multiply_exponentials(mantissas, heights, top)
        return top, mantissas[:, : self.n_low_states]


def tabulate(weights: np.ndarray, base: np.ndarray, lo: float, hi: float, first: int, n_settings: int) -> np.ndarray:
    """Return base + sum_i v_i weights_i for settings `first` and on, v_i being hi where bit i is set, else lo.

    `weights` is (n_bits, n), `base` (n,), the table (n_settings, n). `n_settings` is a power of two, and `first` a
    multiple of it, so that each of the low bits doubles the table and the high ones add the same to all of it. Where
    there are fewer bits than settings need, these repeat.
    """
    found = np.empty((n_settings, base.size))
    found[0], n, down, up = base, 1, lo * weights, hi * weights
    for i in range(len(weights)):
        if n < n_settings:
            np.add(found[:n], up[i], out=found[n : 2 * n])
            if lo:
                found[:n] += down[i]
            n *= 2
        elif lo or first >> i & 1:
            found += up[i] if first >> i & 1 else down[i]
    while n < n_settings:
        found[n : 2 * n] = found[:n]
        n *= 2
    return found


def _exponentials(values: np.ndarray) -> np.ndarray:
    found = np.ones(values.shape)
    multiply_exponentials(found, values, 0.0)
    return found


def terms_per_state(n_slots: int, n_steep: int) -> int:
    """Return what a state takes, in factors: an exponential takes as long as sixteen of them."""
    return n_slots + 16 * n_steep + 32


def _slots(widest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Order units in blocks of `WIDTH`, and blocks in groups, whose products stay within `LARGEST`.

    Returns the unit of every slot (-1 for none), the first block of every group and of what follows, and the units that
    are too steep.
    """
    reach = widest + np.log(2.0)
    blocks = list(_packed(np.argsort(reach, kind="stable"), reach, WIDTH))
    sums = np.array([reach[block].sum() for block in blocks])
    slots = np.full((len(blocks), WIDTH), -1)
    for row, block in zip(slots, blocks, strict=True):
        row[: len(block)] = block
    groups = [int(group[0]) for group in _packed(np.arange(len(blocks)), sums, len(blocks))]
    return slots.ravel(), np.array([*groups, len(blocks)]), np.flatnonzero(reach > LARGEST)


def _packed(items: np.ndarray, sizes: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """Cut items into runs of at most `most` whose sizes add up to at most `LARGEST`; leave out those that exceed it."""
    run: list[int] = []
    total = 0.0
    for item in items:
        size = float(sizes[item])
        if size > LARGEST:
            continue
        if run and (len(run) == most or total + size > LARGEST):
            yield np.array(run)
            run, total = [], 0.0
        run.append(int(item))
        total += size
    if run:
        yield np.array(run)
