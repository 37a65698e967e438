"""The sufficient statistics phi = (s_i s_j of the coupled pairs, s_i), and their first and second moments.

Moments up to the fourth order of all units come at once: the vector of all 2^n probabilities times the n-fold Kronecker
power of [[1, 1], [lo, hi]] holds <prod_{i in S} s_i> of every set S of units (for spins the Walsh-Hadamard transform).
Two statistics multiply to another such product: of the symmetric difference of their sets for spins, whose squares are
1, and of the union for binary units, whose squares are themselves. Cost O(n 2^n) and O(n_parameters^2).
"""

from __future__ import annotations

from functools import cache, reduce
from typing import NamedTuple

import numpy as np

from ..._base.threads import fan_out, single_threaded_blas
from ...data.rows import Rows
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ..moments import Parameters, hidden_means

BLOCK_ROWS = 4096  # so few that sums of products of units' values are exact in float32
BLOCK_UNITS = 6  # transformed at a time, by one matrix product
BATCH = 8  # blocks whose matrices of second moments are held at a time
NO_VARIANCE = 1e-12  # part of a second moment below which a variance is rounding


class Statistics:
    """The sufficient statistics of a machine: pairs in the order of `Couplings.to_vector`, then units.

    Attributes
    ----------
    range : (float, float)
        The values that each of them takes.
    """

    def __init__(self, model: BoltzmannMachine) -> None:
        n = model.n_units
        rows, columns = np.broadcast_to(np.arange(n)[:, None], (n, n)), np.broadcast_to(np.arange(n), (n, n))
        couplings = model.couplings
        self.i = couplings.to_vector(couplings.pick(rows)).astype(np.int64)
        self.j = couplings.to_vector(couplings.pick(columns)).astype(np.int64)
        self.n_units, self.n_pairs = n, len(self.i)
        self._name = model.name_of
        self._couplings, self.range = couplings, (model.convention.lo, model.convention.hi)

    def __len__(self) -> int:
        return self.n_pairs + self.n_units

    def name(self, k: int) -> str:
        """Return the name of the parameter of statistic `k`, as a user knows it; beyond the last, of a combination."""
        if k >= len(self):
            return "a combination of all"
        if k < self.n_pairs:
            return f"weights[{self._name(self.i[k])}, {self._name(self.j[k])}]"
        return f"bias[{self._name(k - self.n_pairs)}]"

    def vector(self, numbers: Parameters) -> np.ndarray:
        """Return numbers of pairs and of units in the order of the statistics."""
        return np.concatenate([self._couplings.to_vector(numbers.weights), numbers.bias])

    def parameters(self, vector: np.ndarray) -> Parameters:
        """Return numbers of pairs and of units whose `vector` is given."""
        return Parameters(self._couplings.from_vector(vector[: self.n_pairs]), vector[self.n_pairs :])

    def of(self, values: np.ndarray) -> np.ndarray:
        """Compute the statistics (m, len) of values, or of independent means, (m, n_units)."""
        return np.concatenate([values[:, self.i] * values[:, self.j], values], axis=1)


class StatisticsMoments(NamedTuple):
    """First and second moments of the statistics, <phi> and <phi phi^T>."""

    mean: np.ndarray
    second: np.ndarray

    def covariance(self) -> np.ndarray:
        """Return Cov(phi); rows and columns of statistics that do not vary beyond rounding are 0."""
        covariance = self.second - np.outer(self.mean, self.mean)
        still = np.diagonal(covariance) <= NO_VARIANCE * np.diagonal(self.second)
        covariance[still] = 0.0
        covariance[:, still] = 0.0
        return covariance


def all_probabilities(model: BoltzmannMachine, beta: float) -> np.ndarray:
    """Return P(s) of all 2^n states; unit i is up where bit i of the state's number is set. Tables grow by doubling."""
    lo, hi = model.convention.lo, model.convention.hi
    weights, bias = model.couplings.matrix(), model.flat_bias
    log_f = np.zeros(1)
    for unit in range(model.n_units):
        field = np.full(1, bias[unit])
        for coupling in weights[unit, :unit]:
            field = np.concatenate([field + lo * coupling, field + hi * coupling])
        field *= beta
        log_f = np.concatenate([log_f + lo * field, log_f + hi * field])
    log_f -= log_f.max()
    np.exp(log_f, out=log_f)
    log_f /= log_f.sum()
    return log_f


class MomentsOfStates:
    """First and second moments of the statistics under any probabilities of all states, without hidden units."""

    def __init__(self, statistics: Statistics) -> None:
        bits = np.left_shift(1, np.arange(statistics.n_units))
        self._range = statistics.range
        self._sets = np.concatenate([bits[statistics.i] | bits[statistics.j], bits])
        joined = np.bitwise_or if 0 in self._range else np.bitwise_xor
        self._joined = joined.outer(self._sets, self._sets)

    def __call__(self, probabilities: np.ndarray) -> StatisticsMoments:
        """Return the moments; state k has unit i up where bit i of k is set."""
        products = _all_products(probabilities, *self._range)
        return StatisticsMoments(products[self._sets], products[self._joined])


def exact_moments(model: BoltzmannMachine, beta: float) -> StatisticsMoments:
    """Compute moments over all states of a machine without hidden units."""
    return MomentsOfStates(Statistics(model))(all_probabilities(model, beta))


def _all_products(probabilities: np.ndarray, lo: int, hi: int) -> np.ndarray:
    """Return <prod_{i in S} s_i> of all sets S of units, numbered as states are.

    A step transforms the highest bits and moves them below the others; when all are done they are in order again.
    """
    left = int(probabilities.size).bit_length() - 1
    table = probabilities
    with single_threaded_blas():
        while left:
            n_bits = min(left, BLOCK_UNITS)
            table = (table.reshape(1 << n_bits, -1).T @ _products_of(n_bits, lo, hi).T).ravel()
            left -= n_bits
    return table


@cache
def _products_of(n_units: int, lo: int, hi: int) -> np.ndarray:
    """Return the products of units' values of all sets, in all states."""
    return reduce(np.kron, [np.array([[1.0, 1.0], [lo, hi]])] * n_units)


def row_moments(
    model: BoltzmannMachine, up: Rows | np.ndarray, beta: float, threads: int, weights: np.ndarray | None = None
) -> StatisticsMoments:
    """Compute averages over rows of E[phi | v], by bits (m, n_visible).

    Hidden units must be independent given the visible ones.

    `weights` sum to 1; left out, rows weigh alike. Blocks of rows are fixed, so any number of threads gives the same
    bits; without hidden units and weights the sums are exact.
    """
    assert model.hidden_are_independent
    statistics = Statistics(model)
    dtype = np.float64 if model.n_hidden or weights is not None else np.float32

    def sums(first: int) -> tuple[np.ndarray, np.ndarray]:
        some = slice(first, first + BLOCK_ROWS)
        values = model.convention.values(up[some], dtype)
        if model.n_hidden:
            values = np.concatenate([values, hidden_means(model, values, beta)], axis=1)
        phi = statistics.of(values)
        if weights is None:
            return phi.sum(axis=0), phi.T @ phi
        weighed = phi * weights[some, None]
        return weighed.sum(axis=0), weighed.T @ phi

    mean, second = np.zeros(len(statistics)), np.zeros((len(statistics),) * 2)
    with single_threaded_blas():
        for batch in range(0, len(up), BATCH * BLOCK_ROWS):
            starts = range(batch, min(batch + BATCH * BLOCK_ROWS, len(up)), BLOCK_ROWS)
            for first, squares in fan_out(sums, starts, threads):
                mean += first
                second += squares
    total = len(up) if weights is None else 1.0
    return StatisticsMoments(mean / total, second / total)


def visible_moments(model: BoltzmannMachine, beta: float, threads: int) -> StatisticsMoments:
    """Compute moments of E[phi | v] over all states v of the visible units."""
    n = model.n_visible
    up = (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(np.uint8)
    log_f = -model.free_energy(model.convention.values(up), beta=beta)
    weights = np.exp(log_f - log_f.max())
    return row_moments(model, up, beta, threads, weights / weights.sum())


def never_seen(
    statistics: Statistics, mean: np.ndarray, units: Units, least: float, *, weights_held: bool, bias_held: bool
) -> np.ndarray:
    """Find parameters that no finite value fits: a unit or a pair has a state of probability below `least`.

    The likelihood then rises without end along the parameters that make up the indicator of that state: for binary
    units 1[both up] = x_i x_j, 1[i alone up] = x_i - x_i x_j, 1[both down] = 1 - x_i - x_j + x_i x_j; for spins any of
    the four takes the coupling and both biases. A penalty on any of them (`weights_held`, `bias_held`) ends the rise.
    """
    n, i, j = statistics.n_pairs, statistics.i, statistics.j
    up = (mean[n:] - units.lo) / units.span
    both = (mean[:n] - units.lo * (mean[n + i] + mean[n + j]) + units.lo**2) / units.span**2
    found = np.zeros(len(statistics), bool)
    if not bias_held:
        found[n:] = np.minimum(up, 1 - up) < least
    for probability, takes_i, takes_j in (
        (both, False, False),
        (up[i] - both, True, False),
        (up[j] - both, False, True),
        (1 - up[i] - up[j] + both, True, True),
    ):
        takes_i, takes_j = takes_i or units.name == "spin", takes_j or units.name == "spin"
        if weights_held or (bias_held and (takes_i or takes_j)):
            continue
        rare = np.flatnonzero(probability < least)
        found[rare] = True
        if takes_i:
            found[n + i[rare]] = True
        if takes_j:
            found[n + j[rare]] = True
    return found
