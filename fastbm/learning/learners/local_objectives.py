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
from ...kernels.learning.conditionals import LANES, exponential_residuals, logistic_residuals
from ...machine.couplings import Couplings, Sparse
from ...machine.couplings.protocol import row_blocks
from ...machine.machine import BoltzmannMachine
from ...machine.units import Units
from ..minibatches import MOST_NUMBERS, distinct
from ..moments import Parameters

BLOCK = 1 << 16  # numbers in a block: two arrays of float64 of this size fit a core's own cache
FEWEST = 512  # rows in a block
RULES = ("pseudolikelihood", "rise", "log-rise", "minimum-probability-flow")
STRANDS = 16  # sums over blocks run side by side in at most so many, whatever the number of threads
SMALLEST = 1e-15  # is added to a unit's loss before the logarithm, which has no lower bound where data are separable


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
    """

    def __init__(self, up: Rows | np.ndarray, units: Units, weights: np.ndarray | None = None) -> None:
        self._rows, self._shares = distinct(up, weights)
        self._units = units
        n_rows, self.n_units = self._rows.shape
        size = min(max(BLOCK // self.n_units, FEWEST), n_rows)
        self.size = -(-size // LANES) * LANES
        self.n_blocks = -(-n_rows // self.size)
        self._kept: list[tuple[np.ndarray, np.ndarray]] | None = None
        if self._rows.in_memory or n_rows * self.n_units <= MOST_NUMBERS:
            self._kept = [self._make(k) for k in range(self.n_blocks)]
        p = self._rows.sums(self._shares) / (n_rows if self._shares is None else 1.0)
        p = np.clip(p, 0.0, 1.0)
        self.means = units.lo + units.span * p
        self.spread = units.span * np.sqrt(p * (1.0 - p))

    def block(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the values (n_units, size) int8 and the weights (size / LANES, LANES) of block `k`.

        Values are in the units of the machine; weights sum to 1 over all blocks.
        """
        return self._make(k) if self._kept is None else self._kept[k]

    def _make(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        first = k * self.size
        n_rows = min(self.size, len(self._rows) - first)
        values = np.empty((self.n_units, self.size), np.int8)
        values[:, :n_rows] = self._units.values(self._rows[first : first + n_rows].T)
        values[:, n_rows:] = values[:, :1]
        weights = np.zeros(self.size)
        weights[:n_rows] = 1.0 / len(self._rows) if self._shares is None else self._shares[first : first + n_rows]
        return values, weights.reshape(-1, LANES)

    def _blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return map(self.block, range(self.n_blocks))

    def correlations(self) -> np.ndarray:
        """Return the units' correlation matrix; units that never change are correlated with none."""
        second = np.zeros((self.n_units, self.n_units))
        for values, weights in self._blocks():
            centred = (values - self.means[:, None]) * np.sqrt(weights.ravel())
            second += centred @ centred.T
        width = np.where(self.spread > 0, self.spread, 1.0)
        second /= width[:, None] * width[None, :]
        np.fill_diagonal(second, 1.0)
        return second


class _Sums(NamedTuple):
    """Each unit's loss and its derivatives by the unit's couplings and bias, all times exp(-peak)."""

    peaks: np.ndarray
    losses: np.ndarray
    cross: np.ndarray
    pull: np.ndarray


class _DensePairs:
    """Derivatives by all pairs: entry (i, j) of `cross` belongs to unit i's loss."""

    def __init__(self, couplings: Couplings, kind: type[np.floating]) -> None:
        self._weights = couplings.matrix().astype(kind, copy=False)
        self.shape = self._weights.shape

    def field(self, values: np.ndarray, out: np.ndarray) -> None:
        np.matmul(self._weights, values, out=out)

    def cross(self, residuals: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        np.matmul(residuals, values.T, out=out)

    def scaled(self, cross: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return cross * factors[:, None]

    def joined(self, cross: np.ndarray) -> np.ndarray:
        whole = cross + cross.T
        np.fill_diagonal(whole, 0.0)
        return whole


class _SparsePairs:
    """Derivatives by coupled pairs: one row of `cross` for the losses of units i, one for those of units j."""

    def __init__(self, couplings: Sparse) -> None:
        self._whole, self._edges = couplings.scipy(), couplings.edges.T
        self.shape = self._edges.shape

    def field(self, values: np.ndarray, out: np.ndarray) -> None:
        out[:] = self._whole @ values

    def cross(self, residuals: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        for edges in row_blocks(self.shape[1], values.shape[1]):
            i, j = self._edges[:, edges]
            out[0, edges] = np.einsum("et,et->e", residuals[i], values[j])
            out[1, edges] = np.einsum("et,et->e", residuals[j], values[i])

    def scaled(self, cross: np.ndarray, factors: np.ndarray) -> np.ndarray:
        return cross * factors[self._edges]

    def joined(self, cross: np.ndarray) -> np.ndarray:
        return cross[0] + cross[1]


class LocalObjective:
    """The objective of `rule`, without penalties, and its gradient.

    Works through the rows a block at a time; the run's loop holds BLAS to one thread, so that the bits are the same
    for any number of threads.

    Of dense couplings the products can be in float32, in half of the time. Losses and their derivatives are in float64
    all the same; as the derivatives of logistic losses are bounded, what is rounded in fields of log-odds of up to 30
    changes entries of the gradient by 1e-7 at most, typically by 1e-8, and the value of 1000 units by 1e-7.
    """

    def __init__(self, rule: str, like: BoltzmannMachine, patterns: Patterns, beta: float, threads: int) -> None:
        self._rule, self._like, self._patterns, self._threads = rule, like, patterns, threads
        self._logistic = rule == "pseudolikelihood"
        self._scale = beta * like.convention.span * (1.0 if self._logistic else 0.5)

    def __call__(self, parameters: Parameters, kind: type[np.floating] = np.float64) -> tuple[float, Parameters]:
        """Return the objective, averaged over rows, and its gradient; `kind` is what dense products are in."""
        couplings = self._like.couplings.with_arrays([np.array(w) for w in parameters.weights])
        pairs = _SparsePairs(couplings) if isinstance(couplings, Sparse) else _DensePairs(couplings, kind)
        n_blocks = self._patterns.n_blocks
        # of two blocks at least: to make and to add a strand's sums takes half as long as a block
        strands = np.array_split(np.arange(n_blocks), min(STRANDS, max(n_blocks // 2, 1)))
        found = fan_out(lambda blocks: self._strand(pairs, parameters.bias, kind, blocks), strands, self._threads)
        total = found[0]
        for one in found[1:]:
            total = self._joined(pairs, total, one)
        value, factors = self._value(total)
        return value, Parameters((pairs.joined(pairs.scaled(total.cross, factors)),), total.pull * factors)

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

    def _strand(
        self, pairs: _DensePairs | _SparsePairs, bias: np.ndarray, kind: type[np.floating], blocks: np.ndarray
    ) -> _Sums:
        """Return the sums over some blocks, added one after the other."""
        n_units, size = self._patterns.n_units, self._patterns.size
        values, field = np.empty((n_units, size), kind), np.empty((n_units, size), kind)
        cut, cross = (n_units, size // LANES, LANES), np.empty(pairs.shape, kind)
        total: _Sums | None = None
        for k in blocks:
            values[:], weights = self._patterns.block(k)
            pairs.field(values, field)
            losses, peaks = np.empty(n_units), np.zeros(n_units)
            about = field.reshape(cut), values.reshape(cut), weights, bias, self._scale, losses
            if self._logistic:
                logistic_residuals(*about)
            else:
                exponential_residuals(*about, peaks)
            pairs.cross(field, values, cross)
            one = _Sums(peaks, losses, cross, field.sum(axis=1, dtype=np.float64))
            total = one._replace(cross=cross.astype(float)) if total is None else self._joined(pairs, total, one)
        assert total is not None
        return total

    def _joined(self, pairs: _DensePairs | _SparsePairs, first: _Sums, second: _Sums) -> _Sums:
        """Return the sum of two sums, at the larger of their peaks; `first` may become it."""
        if self._logistic:
            for total, more in zip(first[1:], second[1:], strict=True):
                total += more
            return first
        peaks = np.maximum(first.peaks, second.peaks)
        a, b = np.exp(first.peaks - peaks), np.exp(second.peaks - peaks)
        cross = pairs.scaled(first.cross, a) + pairs.scaled(second.cross, b)
        return _Sums(peaks, a * first.losses + b * second.losses, cross, a * first.pull + b * second.pull)
