"""Whether a run may stop, or has forgotten its start: looked at after sample counts that depend on nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..diagnostics import Binned, LogBins
from ..diagnostics.binning import N_BINS
from ..diagnostics.stationarity import UNIT

FIRST_LOOK, GROWTH = 64, 1.25
MOST_BINNED, FEWEST_BINS = 1 << 19, 16
FALSE_ALARM = 0.0455  # of one look at all quantities together: two standard errors for one of them


def look_after(n_samples: int) -> int:
    """The first count of samples above `n_samples` at which to look: 64 times a power of 1.25, rounded up."""
    count, k = FIRST_LOOK, 0
    while count <= n_samples:
        k += 1
        count = int(np.ceil(FIRST_LOOK * GROWTH**k))
    return count


def bins_for(size: int) -> int:
    """Bins for series of so many chains: 256, fewer where these would take more than some megabytes."""
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
        """Those of the rows that are watched."""
        for name in self.sizes:
            if not np.isfinite(rows[name]).all():
                raise ValueError(
                    f"observables[{name!r}] returned a number that is not finite, and no stopping rule or burn-in can "
                    'be found from it. Leave out until and burn_in="auto", or mend the function.'
                )
        return {name: np.swapaxes(rows[name].reshape(len(rows[name]), self.n_groups, -1), 1, 2) for name in self.sizes}


class Rule:
    """The stopping rule: every watched quantity must have enough effective samples and agree between chains."""

    def __init__(self, limits: Mapping[str, float], grouped: Grouped) -> None:
        self.limits, self._grouped = dict(limits), grouped
        self._bins = {
            name: Binned((size // grouped.n_groups, grouped.n_groups), n_bins=bins_for(size))
            for name, size in grouped.sizes.items()
        }

    def met(self, rows: Mapping[str, np.ndarray]) -> bool | None:
        """Take rows, which must not reach beyond the next look; whether to stop, None if it is no time to look."""
        for name, values in self._grouped.split(rows).items():
            self._bins[name].add(values)
        n_samples = next(iter(self._bins.values())).n_samples
        if look_after(n_samples - 1) != n_samples:
            return None
        return all(self._good(bins) for bins in self._bins.values())

    def _good(self, bins: Binned) -> bool:
        enough = np.min(bins.ess()) >= self.limits.get("ess", 0.0)
        return bool(enough and not np.max(bins.r_hat()) > self.limits.get("r_hat", np.inf))

    def state(self) -> dict[str, np.ndarray]:
        """All there is, for a checkpoint."""
        return {f"until/{name}/{key}": a for name, bins in self._bins.items() for key, a in bins.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        for name, bins in self._bins.items():
            bins.restore({key: state[f"until/{name}/{key}"] for key in bins.state()})


class Relaxation:
    """The search for the end of the burn-in: all watched quantities must look stationary at the same look.

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
        """Rows seen so far."""
        return next(iter(self._bins.values())).n_rows

    def rows_to_look(self) -> int:
        """Rows until the next look."""
        look = 4 * UNIT
        while look <= self.n_rows:
            look *= 2
        return look - self.n_rows

    def over(self, rows: Mapping[str, np.ndarray]) -> bool:
        """Take rows, which must not reach beyond the next look; whether the run is stationary there."""
        verdicts: list[Any] = []
        for name, values in self._grouped.split(rows).items():
            verdicts.append([self._bins[name].add(row.T) for row in values][-1])
        return all(verdict is True for verdict in verdicts)

    def state(self) -> dict[str, np.ndarray]:
        """All there is, for a checkpoint."""
        return {f"burn_in/{name}/{key}": a for name, bins in self._bins.items() for key, a in bins.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
        for name, bins in self._bins.items():
            bins.restore({key: state[f"burn_in/{name}/{key}"] for key in bins.state()})
