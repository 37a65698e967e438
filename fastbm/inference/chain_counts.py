"""How often units of chains are up, and pairs of them up together or unlike, in states that come packed.

These are whole numbers, whoever adds them: threads count some of the chains each.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import TypeVar

import numpy as np

from .._base.arrays import cleared
from .._base.threads import fan_out
from ..data.counting import count_along, turned
from ..diagnostics.bits import beyond_chance, bit_r_hat, r_hat_limit
from ..kernels.bits import count_chains, count_pairs
from ..machine.couplings import Couplings
from ..machine.units import Units
from .result import check_pairs, values_from_up

COUNTS = np.int32  # of samples of one chain: what is counted goes through memory more than once
WORTH_THREADS = 1 << 19  # bits, from which on threads count them together
MOST_COUNTS = 1 << 24  # of pairs of units, over all shares of the rows
FEWEST_ROWS = 1 << 10  # of a share, which goes through all pairs
MOST_PAIRS = 256  # of units, about, that are looked at; as many as there are units where these are more


class PairCounts:
    """How often each pair of units was up together, over all chains of an engine; exact integers."""

    def __init__(self, n_units: int) -> None:
        check_pairs(n_units)
        self.counts = cleared((n_units, n_units), np.int64)
        self.n = 0

    def add_rows(self, packed: np.ndarray) -> None:
        """Count states, (m, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        count_pairs(turned(packed, len(self.counts)), self.counts)
        self.n += len(packed)

    def add_words(self, words: np.ndarray) -> None:
        """Count states, of which the words (n_units, m) uint64 of a unit hold a bit each; `n` is left to the caller."""
        count_pairs(words, self.counts)

    def moments(self, units: Units, couplings: Couplings) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Return the means of units, and of products of those that are coupled, in given units."""
        mean, second = values_from_up(units, self.up())
        return mean, couplings.pick(second)

    def up(self) -> np.ndarray:
        """Return P(i and j up), a full symmetric matrix whose diagonal is P(i up)."""
        found: np.ndarray = (self.counts + self.counts.T) / self.n  # of which one triangle is empty
        np.fill_diagonal(found, self.counts.diagonal() / self.n)
        return found


class EdgeCounts:
    """How often each unit was up, and the two units of each edge (n_edges, 2) together; exact integers."""

    def __init__(self, n_units: int, edges: np.ndarray) -> None:
        self._n_units, self._edges = n_units, edges
        self.counts = np.zeros(n_units + len(edges), np.int64)
        self.n = 0

    def add_words(self, words: np.ndarray) -> None:
        """Count states as `PairCounts` does it."""
        n = self._n_units
        self.counts[:n] += np.bitwise_count(words).sum(axis=1, dtype=np.int64)
        self.counts[n:] += count_along(words, words, self._edges)

    def moments(self, units: Units, couplings: Couplings) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Return the means of units, and of products of those that are coupled, along the edges, in given units."""
        n, i, j = self._n_units, *self._edges.T
        p, both = self.counts[:n] / self.n, self.counts[n:] / self.n
        products = units.span**2 * both
        if units.lo:
            ups = units.lo * units.span * p
            products += ups[i] + ups[j]
            products += units.lo**2
        return units.lo + units.span * p, (products,)


Counts = TypeVar("Counts", bound=PairCounts | EdgeCounts)


class PairHalves:
    """How often units i and i + d differed in either half of every chain, for some distances d."""

    def __init__(self, n_units: int, n_chains: int, n_samples: int) -> None:
        n_shifts = int(np.clip(MOST_PAIRS // n_units, 1, max(1, n_units // 2)))
        self.shifts = np.unique(np.linspace(1, max(1, n_units // 2), n_shifts).astype(np.int64))
        self._half, odd = divmod(n_samples, 2)
        self._rest = self._half + odd
        self.counts = cleared((2 + odd, n_chains, n_units * len(self.shifts)), COUNTS)

    def places(self, first: int, n: int) -> np.ndarray:
        """Return where `n` samples from `first` on count: half 0 or 1, or 2 for the middle one of an odd number."""
        at = first + np.arange(n)
        return np.where(at < self._half, 0, np.where(at < self._rest, 2, 1))

    def r_hat(self) -> float:
        """Return the largest R-hat of all pairs, `R_HAT_LIMIT` at most where it does not pass what chance may bring."""
        if self._half < 2:
            return math.nan
        found = float(bit_r_hat(self.counts[:2], self._half).max())
        return beyond_chance(found, r_hat_limit(self._half, self.counts.shape[1], self.counts.shape[2]))


def count_states(
    packed: np.ndarray,
    parts: np.ndarray,
    ups: np.ndarray,
    threads: int,
    pairs: Sequence[PairCounts] = (),
    halves: PairHalves | None = None,
    first: int = 0,
) -> None:
    """Count states of chains, (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit.

    Mutates `ups` (n_parts, n_chains, n_units) of `COUNTS`, whose part of a sample `parts` (n_samples,) tell, and what
    else is given: some of `pairs`, each with a share of the states, and `halves`, of whose samples these are those from
    `first` on.
    """
    n_samples, n_chains, n_bytes = packed.shape
    rows, n_words = packed.reshape(-1, n_bytes), 64 * -(-n_bytes // 8)
    if halves is None:
        places, shifts, unlike = parts, np.empty(0, np.int64), np.empty((1, 1, 0), COUNTS)
    else:
        places, shifts, unlike = halves.places(first, n_samples), halves.shifts, halves.counts
    threads = threads if 8 * packed.size >= WORTH_THREADS else 1
    pairs = pairs[: 1 if threads == 1 else max(1, len(rows) // FEWEST_ROWS)]

    def count(k: int) -> None:
        chains = n_chains * k // threads, n_chains * (k + 1) // threads
        count_chains(packed, chains, parts, places, shifts, np.empty(n_words, np.uint64), ups, unlike)

    ends = [len(rows) * k // len(pairs) for k in range(len(pairs) + 1)] if pairs else []
    jobs = [partial(one.add_rows, rows[a:b]) for one, a, b in zip(pairs, ends, ends[1:], strict=False)]
    fan_out(lambda job: job(), jobs + [partial(count, k) for k in range(threads)], threads)


def shares_of_pairs(n_units: int, threads: int) -> list[PairCounts]:
    """Return empty counts for as many shares as threads have memory for."""
    return [PairCounts(n_units) for _ in range(min(threads, max(1, MOST_COUNTS // n_units**2)))]


def added(shares: Sequence[Counts]) -> Counts:
    """Return the counts of all shares together."""
    total = shares[0]
    if len(shares) == 1:
        return total
    total = copy.copy(total)
    total.counts, total.n = reduce(np.add, [one.counts for one in shares]), sum(one.n for one in shares)
    return total
