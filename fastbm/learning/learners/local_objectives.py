"""Objectives that are sums over units of a loss of the unit given all others; all are convex and need no log Z.

With y_i = +-1, f = W s + b and the margin u_i = beta (hi - lo) y_i f_i (the log-odds of what the unit is):

- pseudo-likelihood: sum_i <log(1 + exp(-u_i))>, minus the mean log p(s_i | others);
- RISE: sum_i <exp(-u_i / 2)>, for spins <exp(-beta s_i f_i)>; and logRISE: sum_i log <exp(-u_i / 2)>;
- minimum probability flow to all states that differ by one flip: sum_i <exp((E(s) - E(s flipped at i)) beta / 2)>. As
  the energy changes by u_i / beta this is RISE. Neighbours that are rows of the data stay in: without them nothing is
  left to learn from once all states were seen.

W_ij and W_ji are one parameter. Averages are over the distinct rows of a data set with their weights, which stand in
blocks of units by rows (`Patterns`).

Besag, J. R. Stat. Soc. B 36, 192 (1974), doi:10.1111/j.2517-6161.1974.tb00999.x; Ekeberg et al., Phys. Rev. E 87,
012707 (2013), doi:10.1103/PhysRevE.87.012707; Vuffray, Misra, Lokhov and Chertkov, NeurIPS 29, 2595 (2016); Lokhov et
al., Sci. Adv. 4, e1700791 (2018), doi:10.1126/sciadv.1700791; Sohl-Dickstein, Battaglino and DeWeese, Phys. Rev. Lett.
107, 220601 (2011), doi:10.1103/PhysRevLett.107.220601.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..._base.threads import fan_out
from ...data.rows import Rows
from ...kernels.bit_products import add_bit_product
from ...kernels.bits import ROWS, pack_lanes
from ...kernels.learning.conditionals import LANES, exponential_residuals, logistic_residuals
from ...machine.couplings import Couplings, Sparse
from ...machine.couplings.protocol import row_blocks
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ..minibatches import MOST_NUMBERS, distinct
from ..moments import Parameters

BLOCK = 1 << 16  # numbers in a block: two arrays of float64 of this size fit a core's own cache
FEWEST = 1024  # rows in a block
RULES = ("pseudolikelihood", "rise", "log-rise", "minimum-probability-flow")
MANY = 128  # units, from which look-ups pay
STRANDS = 16  # sums over blocks run side by side in at most so many, whatever the number of threads
SMALLEST = 1e-15  # is added to a unit's loss before the logarithm, which has no lower bound where data are separable


class Block(NamedTuple):
    """The values (n_units, size) int8 of some rows in the machine's units, and their weights (size / LANES, LANES).

    Weights sum to 1 over all blocks.
    """

    number: int
    values: np.ndarray
    weights: np.ndarray


class Patterns:
    """Distinct rows, a byte a unit, cut into blocks of (n_units, n_rows) that are worked on one at a time.

    Blocks depend on the data alone; they are kept where rows are in memory or few, else made each time. A block's last
    rows may repeat its first one, with weight 0.

    Attributes
    ----------
    n_blocks, n_units, size : int
        `size` rows a block.
    means, spread : (n_units,) arrays
        Weighted mean and standard deviation of each unit.
    ends : (float, float)
        Values of a unit that is down and up.
    """

    def __init__(self, up: Rows | np.ndarray, units: Units, weights: np.ndarray | None = None) -> None:
        self._rows, self._shares = distinct(up, weights)
        self._units, self.ends = units, (float(units.lo), float(units.hi))
        n_rows, self.n_units = self._rows.shape
        size = min(max(BLOCK // self.n_units, FEWEST), n_rows)
        self.size = -(-size // LANES) * LANES
        self.n_blocks = -(-n_rows // self.size)
        self._kept: list[Block] | None = None
        if self._rows.in_memory or n_rows * self.n_units <= MOST_NUMBERS:
            self._kept = [self._make(k) for k in range(self.n_blocks)]
        self._words: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        p = self._rows.sums(self._shares) / (n_rows if self._shares is None else 1.0)
        p = np.clip(p, 0.0, 1.0)
        self.means = units.lo + units.span * p
        self.spread = units.span * np.sqrt(p * (1.0 - p))

    def block(self, k: int) -> Block:
        """Return block `k`."""
        return self._make(k) if self._kept is None else self._kept[k]

    def words(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the bits of block `k` as words of units (n_units / 32, size), and of rows (size / 32, n_units)."""
        if (found := self._words.get(k)) is None:
            up = (self.block(k).values == self._units.hi).view(np.uint8)
            found = _packed(up), _packed(np.ascontiguousarray(up.T))
            if self._kept is not None:
                self._words[k] = found
        return found

    def _make(self, k: int) -> Block:
        first = k * self.size
        n_rows = min(self.size, len(self._rows) - first)
        values = np.empty((self.n_units, self.size), np.int8)
        values[:, :n_rows] = self._units.values(self._rows[first : first + n_rows].T)
        values[:, n_rows:] = values[:, :1]
        weights = np.zeros(self.size)
        weights[:n_rows] = 1.0 / len(self._rows) if self._shares is None else self._shares[first : first + n_rows]
        return Block(k, values, weights.reshape(-1, LANES))

    def _blocks(self) -> Iterator[Block]:
        return map(self.block, range(self.n_blocks))

    def correlations(self) -> np.ndarray:
        """Return the units' correlation matrix; units that never change are correlated with none."""
        second = np.zeros((self.n_units, self.n_units))
        for k, values, weights in self._blocks():
            centred = values - self.means[:, None]
            if self.n_units >= MANY:  # the other factor's mean times these adds up to 0
                centred *= weights.ravel()
                add_bit_product(second, centred, self.words(k)[1], *self.ends)
            else:
                centred *= np.sqrt(weights.ravel())
                second += centred @ centred.T
        second = 0.5 * (second + second.T)
        width = np.where(self.spread > 0, self.spread, 1.0)
        second /= width[:, None] * width[None, :]
        np.fill_diagonal(second, 1.0)
        return second


def _packed(up: np.ndarray) -> np.ndarray:
    """Return the bits of (n, m) as words (ceil(n / 32), m)."""
    words = np.zeros((-(-len(up) // ROWS), up.shape[1]), np.uint32)
    pack_lanes(words, up)
    return words


class _Sums(NamedTuple):
    """Each unit's loss and its derivatives by the unit's couplings and bias, all times exp(-peak)."""

    peaks: np.ndarray
    losses: np.ndarray
    cross: np.ndarray
    pull: np.ndarray

    def rescale(self, peaks: np.ndarray, pairs: _Pairs) -> None:
        """Go over to larger peaks."""
        if not np.array_equal(peaks, self.peaks):
            factors = np.exp(self.peaks - peaks)
            self.losses[:] *= factors
            self.pull[:] *= factors
            self.cross[:] *= pairs.by_loss(factors)
            self.peaks[:] = peaks

    def add(self, other: _Sums, pairs: _Pairs) -> None:
        """Add sums, which are brought to the same peaks."""
        peaks = np.maximum(self.peaks, other.peaks)
        for one in (self, other):
            one.rescale(peaks, pairs)
        self.losses[:] += other.losses
        self.cross[:] += other.cross
        self.pull[:] += other.pull


class _DensePairs:
    """Derivatives by all pairs: entry (i, j) of `cross` belongs to unit i's loss."""

    def __init__(self, couplings: Couplings, patterns: Patterns) -> None:
        self._weights, self._patterns = couplings.matrix(), patterns

    def field(self, block: Block, out: np.ndarray) -> None:
        """Write the fields of all units without their biases."""
        np.matmul(self._weights, block.values.astype(float), out=out)

    def add_cross(self, residuals: np.ndarray, block: Block, cross: np.ndarray) -> None:
        """Add the derivatives by couplings, from those by fields."""
        cross += residuals @ block.values.T.astype(float)

    def by_loss(self, factors: np.ndarray) -> np.ndarray:
        """Return the factors of units' losses for the entries of `cross`."""
        return factors[:, None]

    def joined(self, cross: np.ndarray) -> np.ndarray:
        """Return the derivatives by couplings, from those of all losses."""
        whole = cross + cross.T
        np.fill_diagonal(whole, 0.0)
        return whole


class _ManyPairs(_DensePairs):
    """The same with products by look-ups, which take half of the time where there are many units."""

    def field(self, block: Block, out: np.ndarray) -> None:
        out[:] = 0.0
        add_bit_product(out, self._weights, self._patterns.words(block.number)[0], *self._patterns.ends)

    def add_cross(self, residuals: np.ndarray, block: Block, cross: np.ndarray) -> None:
        add_bit_product(cross, residuals, self._patterns.words(block.number)[1], *self._patterns.ends)


class _SparsePairs:
    """Derivatives by coupled pairs: one row of `cross` for the losses of units i, one for those of units j."""

    def __init__(self, couplings: Sparse) -> None:
        self._whole, self._edges = couplings.scipy(), couplings.edges.T

    def field(self, block: Block, out: np.ndarray) -> None:
        out[:] = self._whole @ block.values.astype(float)

    def add_cross(self, residuals: np.ndarray, block: Block, cross: np.ndarray) -> None:
        values = block.values.astype(float)
        for edges in row_blocks(self._edges.shape[1], values.shape[1]):
            i, j = self._edges[:, edges]
            cross[0, edges] += np.einsum("et,et->e", residuals[i], values[j])
            cross[1, edges] += np.einsum("et,et->e", residuals[j], values[i])

    def by_loss(self, factors: np.ndarray) -> np.ndarray:
        return factors[self._edges]

    def joined(self, cross: np.ndarray) -> np.ndarray:
        return cross[0] + cross[1]


_Pairs = _DensePairs | _SparsePairs


class LocalObjective:
    """The objective of `rule`, without penalties, and its gradient.

    Works through the rows a block at a time; the run's loop holds BLAS to one thread, so that the bits are the same
    for any number of threads. What sums are written to is kept from call to call: fresh memory costs as much as a
    block.
    """

    def __init__(self, rule: str, like: BoltzmannMachine, patterns: Patterns, beta: float, threads: int) -> None:
        self._rule, self._like, self._patterns, self._threads = rule, like, patterns, threads
        self._logistic = rule == "pseudolikelihood"
        self._scale = beta * like.convention.span * (1.0 if self._logistic else 0.5)
        # of two blocks at least: to make and to add a strand's sums takes half as long as a block
        n_blocks, n = patterns.n_blocks, patterns.n_units
        couplings = like.couplings
        shape = (2, len(couplings.edges)) if isinstance(couplings, Sparse) else (n, n)
        self._strands = [
            (blocks, np.empty((n, patterns.size)), _Sums(np.empty(n), np.empty(n), np.empty(shape), np.empty(n)))
            for blocks in np.array_split(np.arange(n_blocks), min(STRANDS, max(n_blocks // 2, 1)))
        ]

    def __call__(self, parameters: Parameters) -> tuple[float, Parameters]:
        """Return the objective, averaged over rows, and its gradient."""
        couplings = self._like.couplings.with_arrays(parameters.weights)
        pairs: _Pairs
        if isinstance(couplings, Sparse):
            pairs = _SparsePairs(couplings)
        else:
            pairs = (_ManyPairs if couplings.n_units >= MANY else _DensePairs)(couplings, self._patterns)
        fan_out(lambda strand: self._sum(pairs, parameters.bias, *strand), self._strands, self._threads)
        total, *others = (sums for _, _, sums in self._strands)
        for one in others:
            total.add(one, pairs)
        value, factors = self._value(total)
        return value, Parameters((pairs.joined(total.cross * pairs.by_loss(factors)),), total.pull * factors)

    def _value(self, total: _Sums) -> tuple[float, np.ndarray]:
        """Return the objective, and the factor by which each unit's scaled derivatives enter its gradient."""
        if self._logistic:
            return float(total.losses.sum()), np.ones_like(total.losses)
        logs = total.peaks + np.log(total.losses)
        if self._rule == "log-rise":
            value = np.logaddexp(logs, np.log(SMALLEST))
            return float(value.sum()), np.exp(logs - value) / total.losses
        # Without parameters the sum is n, so no unit's loss is larger at the optimum. Beyond e n it goes on as a
        # straight line in the logarithm, which is convex as well and keeps line searches finite.
        most = np.log(len(logs)) + 1.0
        size = np.exp(np.minimum(logs, most))
        return float((size * (1.0 + np.maximum(logs - most, 0.0))).sum()), size / total.losses

    def _sum(self, pairs: _Pairs, bias: np.ndarray, blocks: np.ndarray, field: np.ndarray, total: _Sums) -> None:
        """Write the sums over some blocks, added one after the other."""
        for array in total:
            array[:] = 0.0
        if not self._logistic:
            total.peaks[:] = -np.inf
        n_units, size = field.shape
        cut = (n_units, size // LANES, LANES)
        losses, peaks = np.empty(n_units), np.empty(n_units)
        for k in blocks:
            block = self._patterns.block(k)
            pairs.field(block, field)
            about = field.reshape(cut), block.values.reshape(cut), block.weights, bias, self._scale, losses
            if self._logistic:
                logistic_residuals(*about)
            else:
                exponential_residuals(*about, peaks)
                largest = np.maximum(total.peaks, peaks)
                total.rescale(largest, pairs)
                factors = np.exp(peaks - largest)
                losses *= factors
                field *= factors[:, None]
            pairs.add_cross(field, block, total.cross)
            total.losses[:] += losses
            total.pull[:] += field.sum(axis=1)
