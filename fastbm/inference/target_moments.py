"""Moments of the states of a machine that chains are counted in, and what is told of them unit by unit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._base.arrays import cleared, empty
from ..diagnostics.autocorrelation import standard_error
from ..diagnostics.ranks import largest_r_hats, r_hats_of_codes
from ..machine.machine import BoltzmannMachine
from ..sampling.unseen import AGRESTI_COULL, rarely
from .chain_counts import COUNTS, PairCounts, PairHalves, added, count_states, shares_of_pairs
from .result import moments_from_up
from .temperatures import FEWEST_SPREAD, spread_error

N_BLOCKS = 32  # means over this many blocks of every chain are kept for the error bars
TOGETHER = 1 << 18  # numbers of units that are looked at together: of fewer, threads wait for each other


class OfUnits(NamedTuple):
    """How often units are up, and how well that is known.

    Attributes
    ----------
    p, noise : (n_units,) array
        Part of the time, and its standard error as far as flips that were seen tell.
    of_chains : (n_chains, n_units) array
        The same of each chain.
    r_hat : float
        The largest of all units, told from blocks of samples; 0 of fewer than 4.
    """

    p: np.ndarray
    noise: np.ndarray
    of_chains: np.ndarray
    r_hat: float

    @classmethod
    def joined(cls, parts: Sequence[OfUnits]) -> OfUnits:
        """Return what looks at some units each have told, of all."""
        p, noise, of_chains, r_hats = zip(*parts, strict=True)
        together = np.ascontiguousarray(np.concatenate(of_chains, axis=1))  # as it lies, sums have their bits
        return cls(np.concatenate(p), np.concatenate(noise), together, max(r_hats))


class TargetMoments:
    """Moments of `n_samples` states of `n_chains` chains, which come packed, in the order in which they were taken.

    Attributes
    ----------
    halves : PairHalves or None
        How often pairs of units differ in halves of chains, which not everybody needs.
    """

    def __init__(
        self,
        model: BoltzmannMachine,
        n_samples: int,
        n_chains: int,
        threads: int,
        *,
        pairs: bool = True,
        halves: bool = False,
    ) -> None:
        n = model.n_units
        self._units, self._threads = model.convention, threads
        self._pairs = shares_of_pairs(n, threads) if pairs else []
        self.halves = PairHalves(n, n_chains, n_samples) if halves else None
        self._block = np.arange(n_samples) * min(N_BLOCKS, n_samples) // n_samples
        self._sizes = np.bincount(self._block)
        self._sums = cleared((len(self._sizes), n_chains, n), COUNTS)
        self._done = 0

    def add(self, packed: np.ndarray) -> None:
        """Count states, (n_samples, n_chains, ceil(n_units / 8)) uint8, unit 0 in the lowest bit."""
        first, self._done = self._done, self._done + len(packed)
        blocks = self._block[first : self._done]
        count_states(packed, blocks, self._sums, self._threads, self._pairs, self.halves, first)

    @property
    def n_blocks(self) -> int:
        """Blocks of samples, of which means over time are known."""
        return len(self._sizes)

    @property
    def pairs(self) -> PairCounts | None:
        """How often each pair of units was up together."""
        return added(self._pairs) if self._pairs else None

    def fractions(self, units: slice = slice(None)) -> np.ndarray:
        """Return the part of the time that units are up in blocks of samples, (n_blocks, n_chains, n_units).

        They lie in memory unit by unit, as they are looked at.
        """
        return self._fractions(self._counts(units))

    def _counts(self, units: slice) -> np.ndarray:
        by_unit = np.moveaxis(self._sums[..., units], -1, 0)
        counts = empty(by_unit.shape, COUNTS)
        counts[...] = by_unit
        return np.moveaxis(counts, 0, -1)

    def _fractions(self, counts: np.ndarray) -> np.ndarray:
        by_unit = np.moveaxis(counts, -1, 0)
        return np.moveaxis(np.divide(by_unit, self._sizes[:, None], out=empty(by_unit.shape, np.float64)), 0, -1)

    def looks(self) -> list[Callable[[], OfUnits]]:
        """Return calls that look at some units each, in the order of units; they may be made side by side."""
        _, n_chains, n_units = self._sums.shape
        few = max(1, TOGETHER // (len(self._sizes) * n_chains))
        few = min(few, -(-n_units // self._threads))
        return [partial(self._look, slice(k, k + few)) for k in range(0, n_units, few)]

    def _look(self, units: slice) -> OfUnits:
        counts = self._counts(units)
        fractions = self._fractions(counts)
        p, of_chains = fractions.mean(axis=(0, 1)), fractions.mean(axis=0)
        return OfUnits(p, standard_error(fractions), of_chains, self._r_hat(counts, fractions))

    def _r_hat(self, counts: np.ndarray, fractions: np.ndarray) -> float:
        """Return the largest R-hat of units, 0 of fewer than 4 blocks. Mutates `counts`."""
        if len(fractions) < 4:
            return 0.0
        least = int(self._sizes.min())  # of two sizes, at most
        values = np.concatenate([np.arange(size + 1) / size for size in (least, least + 1)])
        if 2 * len(values) > fractions[..., 0].size:
            return largest_r_hats([fractions], 1)[0]
        counts += ((self._sizes - least) * (least + 1))[:, None, None]
        return float(r_hats_of_codes(counts, values).max())

    def result(self, found: OfUnits, ess: float, sure: np.ndarray, n_starts: float) -> dict[str, Any]:
        """Return the moment fields of an Inference; for the arguments see `errors_of_fractions`."""
        pairs, noise, of_chains = self.pairs, found.noise, found.of_chains
        assert pairs is not None
        if len(of_chains) >= FEWEST_SPREAD:
            noise = np.maximum(noise, spread_error(of_chains - of_chains.mean(axis=0)))
        error = errors_of_fractions(found.p, noise, ess, sure, n_starts)
        return moments_from_up(self._units, pairs.up()) | {"mean_error": self._units.span * error}


def errors_of_fractions(p: np.ndarray, noise: np.ndarray, ess: float, sure: np.ndarray, n_starts: float) -> np.ndarray:
    """Return standard errors of the fractions of time that units are up.

    Parameters
    ----------
    p : (n_units,) array
        The fractions.
    noise : (n_units,) array
        Their standard errors, as far as flips that were seen tell.
    ess : float
        Effective samples of the energy: no unit that never flipped has more.
    sure : (n_units,) array
        Log-odds that a unit's own bias leaves it, of `certain`.
    n_starts : float
        How often chains began anew: so many independent samples there are of valleys that they do not leave.

    Notes
    -----
    A few flips, or none, tell of their own scarcity badly: where a unit was up once, six times are likely enough. So
    two more visits to its rarer side are reckoned with than were seen (`rarely`). Of a side of probability p the noise
    tells (p / noise)^2 visits, and p over their number is what one adds. They say nothing of a valley that is seldom
    found and then not soon left, so they are put together with one visit that takes a chain for all its time: what a
    visit adds is (p + 1 / n_starts) / (visits + 1). What a bias makes certain, whatever the neighbours do, bounds how
    often a unit is on that side even then. Units that only their neighbours hold, and that never flip, have wide errors
    of about 1.4 / n_starts: whether they would flip back at once cannot be told.
    """
    rarer, held = np.minimum(p, 1.0 - p), np.maximum(np.where(p < 0.5, -sure, sure), 0.0)
    longest = np.maximum(np.exp(-held) / n_starts, 1.0 / ess)
    visits = np.divide(rarer, noise, out=np.zeros_like(noise), where=noise > 0.0) ** 2
    found: np.ndarray = np.hypot(noise, rarely((visits + 1.0) / (rarer + longest), AGRESTI_COULL))
    return found
