"""The noise of a moment error: the part of the free chains, and that of the data.

An epoch's average of s_i s_j over chains has some variance, autocorrelation in time included. Chains are independent
but for the parameters that they share, so the average over every second chain less that over the others tells it:
with n_a and n_b chains, n together, n_a n_b / n^2 (m_a - m_b)^2 is unbiased for the variance of m, whatever the chains'
memory is. The data's own variance is that of a mean over n_rows independent rows, (a - <s_i s_j>) (<s_i s_j> - b) /
n_rows with a and b the two values of s_i s_j; of hidden units, which may count by their means, it is the most there
can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..._base import rng
from ...kernels.learning.contrastive import add_halves, count_halves
from ...machine.couplings import Couplings, Layered, Sparse
from ...machine.machine import BoltzmannMachine

MOST_PAIRS = 128  # drawn at random, which tell the root mean square to about 6 %


class PairChoice:
    """A choice of coupled pairs, drawn at random by the seed; all where there are few.

    Attributes
    ----------
    units : (2, n_pairs) int64 array
        Numbers of both units of each pair.
    """

    def __init__(self, couplings: Couplings, seed: int) -> None:
        blocks = couplings.arrays
        sizes = [couplings.n_units * (couplings.n_units - 1) // 2]
        if isinstance(couplings, (Layered, Sparse)):
            sizes = [block.size for block in blocks]
        n_pairs = sum(sizes)
        generator = rng.keyed(seed, rng.MONITOR, 4)
        chosen = np.sort(generator.choice(n_pairs, size=min(n_pairs, MOST_PAIRS), replace=False))
        self._places: list[tuple[np.ndarray, ...]] = []
        units, first = [], 0
        for k, size in enumerate(sizes):
            mine = chosen[(chosen >= first) & (chosen < first + size)] - first
            first += size
            if isinstance(couplings, Sparse):
                self._places.append((mine,))
                units.append(np.asarray(couplings.edges)[mine].T)
            elif isinstance(couplings, Layered):
                place = np.divmod(mine, blocks[k].shape[1])
                self._places.append(place)
                units.append(np.stack([layer.start + i for layer, i in zip(couplings.layers[k:], place, strict=False)]))
            else:
                place = _upper(mine, couplings.n_units)
                self._places.append(place)
                units.append(np.stack(place))
        self.units = np.ascontiguousarray(np.concatenate(units, axis=1), np.int64)

    def pick(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the chosen pairs' entries of arrays in the couplings' shape."""
        return np.concatenate([array[place] for array, place in zip(arrays, self._places, strict=True)])


def _upper(k: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of the k-th entry above the diagonal of an n x n matrix, row by row."""
    starts = np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])
    i = np.searchsorted(starts, k, side="right") - 1
    return i, k - starts[i] + i + 1


def _mean(numbers: np.ndarray) -> float:
    """Return the mean of numbers, or 0 of none."""
    return float(numbers.sum()) / max(numbers.size, 1)


class MomentNoise:
    """Noise of an epoch's <s_i s_j>_clamped - <s_i s_j>_free: a root mean square standard error of pairs.

    At most 128 coupled pairs enter.

    Parameters
    ----------
    like : BoltzmannMachine
    seed : int
    n_rows : int or None
        Rows of equal weight behind the data; None where their moments are exact.
    own_chains : bool
        Whether the free phase has chains of its own; without, the noise is the data's.

    Attributes
    ----------
    of_chains : float
        The part of the last epoch's noise that is the chains'.
    """

    of_chains = 0.0

    def __init__(self, like: BoltzmannMachine, seed: int, n_rows: int | None, *, own_chains: bool) -> None:
        self.pairs = PairChoice(like.couplings, seed)
        self._n_rows, self._own_chains = n_rows, own_chains
        self._units = like.convention
        self.forget()

    def forget(self) -> None:
        """Drop all sums, to begin another epoch."""
        n_pairs = self.pairs.units.shape[1]
        self._sums, self._counts = np.zeros((2, n_pairs)), [0, 0]
        self._clamped, self._n_clamped = np.zeros(n_pairs), 0

    def counted(self, first: int, words: np.ndarray) -> np.ndarray:
        """Return counts (2, n_pairs) int64 of states of chains, 64 a word, from number `first` on."""
        counts = np.zeros(self._sums.shape, np.int64)
        count_halves(counts, words, self.pairs.units, self._units.lo < 0)
        return counts[::-1] if first % 2 else counts

    def add_counts(self, counts: np.ndarray, n_chains: int, times: int) -> None:
        """Add what `counted` returns of all chains, so many times."""
        self.count(n_chains, times)
        own = np.array([[times * -(-n_chains // 2)], [times * (n_chains // 2)]])
        self._sums += own - 2 * counts if self._units.lo < 0 else counts

    def add_values(self, values: np.ndarray) -> None:
        """Add states, or means, of chains (n_chains, n_units) float32."""
        add_halves(self._sums, values, self.pairs.units)
        self.count(len(values))

    @property
    def sums(self) -> np.ndarray:
        """Sums over chains of even and of odd number, (2, n_pairs), for who adds to them and calls `count`."""
        return self._sums

    def count(self, n_chains: int, times: int = 1) -> None:
        """Add to the numbers of chains, even and odd ones, that `sums` hold, so many times."""
        even, odd = self._counts
        self._counts = [even + times * -(-n_chains // 2), odd + times * (n_chains // 2)]

    def add_clamped(self, arrays: Sequence[np.ndarray]) -> None:
        """Add the clamped pairs of an update, in the shape of the couplings' arrays."""
        self._clamped += self.pairs.pick(arrays)
        self._n_clamped += 1

    def take(self, gap: np.ndarray | None = None) -> float:
        """Return the noise of the epoch that is over, and begin another.

        `gap` is the epoch's <s_i s_j>_clamped - <s_i s_j>_free at the pairs, where the clamped phase itself was not
        taken in.
        """
        (first, second), sums = self._counts, self._sums
        clamped = self._clamped / max(self._n_clamped, 1) if gap is None else gap + sums.sum(axis=0) / (first + second)
        variance = np.zeros(len(clamped))
        if self._n_rows is not None:
            low = -1.0 if self._units.lo < 0 else 0.0
            variance = np.maximum((1.0 - clamped) * (clamped - low), 0.0) / self._n_rows
        if self._own_chains:
            if second:
                apart = sums[0] / first - sums[1] / second
                of_chains = first * second / (first + second) ** 2 * apart**2
                self.of_chains = math.sqrt(_mean(of_chains))
                variance += of_chains
            else:
                variance += np.nan  # one chain has nothing to be held against
        self.forget()
        return math.sqrt(_mean(variance))

    def state(self) -> dict[str, np.ndarray]:
        """Return the sums of an epoch that is not over."""
        return {
            "sums": self._sums, "counts": np.array(self._counts), "clamped": self._clamped,
            "n_clamped": np.array(self._n_clamped),
        }  # fmt: skip

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        self._sums, self._counts = np.array(state["sums"]), state["counts"].tolist()
        self._clamped, self._n_clamped = np.array(state["clamped"]), int(state["n_clamped"])
