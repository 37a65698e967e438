"""The stopping rule and the search for the end of the burn-in, both tested after fixed counts of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..diagnostics import MANY_CHAINS, R_HAT_LIMIT, Binned, LogBins
from ..diagnostics.binning import N_BINS
from ..diagnostics.stationarity import UNIT

FIRST_CHECK, GROWTH = 64, 1.25
AGAIN = 2.0  # times as many samples as at the first look at which a stopping rule held, until it is believed
FEWEST = 1024  # samples of all chains of a group together: a few chains have not seen much at their first looks
MOST_BINNED, FEWEST_BINS = 1 << 19, 16
FALSE_ALARM = 0.0455  # of one look at all quantities together: two standard errors for one of them


def check_after(n_samples: int) -> int:
    """Return the first count of samples above `n_samples` at which to test: 64 times a power of 1.25, rounded up."""
    count, k = FIRST_CHECK, 0
    while count <= n_samples:
        k += 1
        count = int(np.ceil(FIRST_CHECK * GROWTH**k))
    return count


def drift_limit(n_chains: int, n_series: int) -> float:
    """Return how many of its errors a drift may reach in one of `n_series` series of `n_chains` chains.

    With 8 or more chains the error comes from their differences, and the quantile is Student's.
    """
    from scipy.special import ndtri, stdtrit

    tail = FALSE_ALARM / (2 * n_series)
    return -float(stdtrit(n_chains - 1, tail) if n_chains >= MANY_CHAINS else ndtri(tail))


def bins_for(size: int) -> int:
    """Return the number of bins for series of `size` chains: 256, fewer where these would take many megabytes."""
    return 2 * min(max(MOST_BINNED // size // 2, FEWEST_BINS // 2), N_BINS // 2)


class Grouped:
    """Series by name, chains of one temperature together: (n_samples, n) becomes (n_samples, n / n_groups, n_groups).

    Parameters
    ----------
    sizes : mapping of name to int
        Entries of one sample of each series.
    n_groups : int
        Equal groups of consecutive chains.
    """

    def __init__(self, sizes: Mapping[str, int], n_groups: int) -> None:
        self.n_groups, self.sizes = n_groups, dict(sizes)

    def split(self, rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the rows of the quantities that enter the test, grouped."""
        for name in self.sizes:
            if not np.isfinite(rows[name]).all():
                raise ValueError(
                    f"observables[{name!r}] returned a number that is not finite, and no stopping rule or burn-in can "
                    'be found from it. Leave out until and burn_in="auto", or mend the function.'
                )
        return {name: np.swapaxes(rows[name].reshape(len(rows[name]), self.n_groups, -1), 1, 2) for name in self.sizes}


class Rule:
    """The stopping rule: every quantity must have enough effective samples and agree between chains.

    R-hat and a drift between the halves speak before effective samples do, which chains that have not mixed have many
    of. The rule must hold at all looks from one to another at `again` times as many samples, twice as many unless
    given: what looked settled for a while is looked at later. Independent draws need no second look (1).
    """

    def __init__(self, limits: Mapping[str, float], grouped: Grouped, *, again: float = AGAIN) -> None:
        self.limits, self._grouped, self._again = dict(limits), grouped, again
        self._bins = {
            name: Binned((size // grouped.n_groups, grouped.n_groups), n_bins=bins_for(size))
            for name, size in grouped.sizes.items()
        }
        self._n_series = len(grouped.sizes) * grouped.n_groups
        self._since = (
            0  # samples at the first of the looks in a row at which the rule held; 0 if it did not at the last
        )

    def met(self, rows: Mapping[str, np.ndarray]) -> bool | None:
        """Add rows, which must not reach beyond the next test; return whether to stop.

        None where the test is not due.
        """
        for name, values in self._grouped.split(rows).items():
            self._bins[name].add(values)
        n_samples = next(iter(self._bins.values())).n_samples
        if check_after(n_samples - 1) != n_samples:
            return None
        good = all(self._good(bins) for bins in self._bins.values())
        self._since = (self._since or n_samples) if good else 0
        return good and n_samples >= self._again * self._since

    def _good(self, bins: Binned) -> bool:
        if np.max(bins.r_hat()) > self.limits.get("r_hat", R_HAT_LIMIT) or bins.n_samples * bins.shape[0] < FEWEST:
            return False
        if np.max(bins.drift()) > drift_limit(bins.shape[0], self._n_series):
            return False
        return bool(np.min(bins.ess()) >= self.limits.get("ess", 0.0))

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint."""
        found = {f"until/{name}/{key}": a for name, bins in self._bins.items() for key, a in bins.state().items()}
        return found | {"until_since": np.array(self._since)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        for name, bins in self._bins.items():
            bins.restore({key: state[f"until/{name}/{key}"] for key in bins.state()})
        self._since = int(state.get("until_since", 0))  # files of version 0.1 have none


class Relaxation:
    """The search for the end of the burn-in: all quantities must look stationary at the same test.

    The more of them there are, the wider the bounds of each, so that one look calls a stationary run drifting as often
    as it would for one quantity.
    """

    def __init__(self, grouped: Grouped) -> None:
        from scipy.special import ndtri

        self._grouped = grouped
        n_series = len(grouped.sizes) * grouped.n_groups
        z = float(-ndtri(FALSE_ALARM / (2 * n_series)))
        self._bins = {
            name: LogBins(grouped.n_groups, size // grouped.n_groups, z=z) for name, size in grouped.sizes.items()
        }

    @property
    def n_rows(self) -> int:
        """Number of rows added so far."""
        return next(iter(self._bins.values())).n_rows

    def rows_to_check(self) -> int:
        """Return the number of rows until the next test."""
        n_next = 4 * UNIT
        while n_next <= self.n_rows:
            n_next *= 2
        return n_next - self.n_rows

    def over(self, rows: Mapping[str, np.ndarray]) -> bool:
        """Add rows, which must not reach beyond the next test; return whether the run is stationary there."""
        verdicts: list[Any] = []
        for name, values in self._grouped.split(rows).items():
            verdicts.append([self._bins[name].add(row.T) for row in values][-1])
        return all(verdict is True for verdict in verdicts)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays of a checkpoint."""
        return {f"burn_in/{name}/{key}": a for name, bins in self._bins.items() for key, a in bins.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
        for name, bins in self._bins.items():
            bins.restore({key: state[f"burn_in/{name}/{key}"] for key in bins.state()})
