"""When a chain has forgotten its start: the doubling test.

A run of T sweeps is cut into windows (T/8, T/4], (T/4, T/2] and (T/2, T]. Where the last two have the same mean within
its error the run is stationary from T/4 on; else T doubles. What remains of a start that decays with a time tau falls
from a part a of the standard deviation at T/4, small enough to hide in the error, to a^4 or less at T.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._base import checks
from .._base.arrays import near_one
from .autocorrelation import MANY_CHAINS, error_by, windowed_time

N_WINDOWS = 3
N_BINS = 16  # in a window
UNIT = 16  # sweeps in the first window
Z = 2.0


def is_stationary(means: Any, *, z: float = Z) -> bool:
    """Tell whether the last two windows agree in the mean of every observable over all chains.

    Parameters
    ----------
    means : (n_windows, n_bins, n_observables, n_chains) array
        Means of the bins of equal width that each window is cut into, the oldest window first; at least two windows.
    z : float
        Standard errors that the means may differ by. For n chains it is widened to the quantile of Student's t with
        n - 1 degrees of freedom that has the same rate of false alarms.

    Returns
    -------
    bool

    Notes
    -----
    With 8 chains or more the error is that of the differences of the single chains, which are independent of one
    another however slow they are. With fewer it comes from the autocorrelation of the bins inside each window.
    """
    array = np.asarray(checks.real_array("means", means), np.float64)
    if array.ndim != 4 or len(array) < 2:
        raise ValueError(
            "means must have shape (n_windows, n_bins, n_observables, n_chains) and at least two windows; got "
            f"{array.shape}."
        )
    z, n_chains = checks.real("z", z, above=0.0), array.shape[3]
    # each observable near one by itself: of tiny ones the squares would be 0
    old, recent = np.stack([near_one(array[-2:, :, k])[0] for k in range(array.shape[2])], axis=2)
    differences = (recent - old).mean(axis=0)
    if n_chains >= MANY_CHAINS:
        error = differences.std(axis=1, ddof=1) / math.sqrt(n_chains) * _widening(z, n_chains - 1)
    else:
        parts = (np.moveaxis(_without_drift(part), 1, 2) for part in (old, recent))
        error = np.hypot(*(error_by(windowed_time, part) for part in parts))  # by which `LogBins` was measured
    return bool((np.abs(differences.mean(axis=1)) <= z * error).all())


def _without_drift(bins: np.ndarray) -> np.ndarray:
    """Bins (n_bins, n_observables, n_chains) less every chain's mean and the straight line that all follow together.

    With a line or the spread of few slow chains left in, a drift would hide in its own error: two to seven chains that
    start ten standard deviations off and relax in 50 sweeps were called stationary after 64.
    """
    time = np.arange(len(bins)) - (len(bins) - 1) / 2
    centred = bins - bins.mean(axis=0)
    slope = np.tensordot(time, centred.mean(axis=2), axes=1) / (time @ time)
    return centred - (time[:, None] * slope)[:, :, None]


def _widening(z: float, freedom: int) -> float:
    """Student's quantile over the normal one at the same tail."""
    from scipy.special import ndtr, stdtrit

    return float(-stdtrit(freedom, ndtr(-z))) / z


class LogBins:
    """Sums over windows that double in length, for finding the end of the burn-in while a run goes on.

    Parameters
    ----------
    n_observables, n_chains : int
    unit : int
        Rows in the first window, a multiple of 16. Looks are taken after 4, 8, 16, ... units.
    z : float
        Passed to `is_stationary` at every look.

    Attributes
    ----------
    n_rows : int
        Rows seen so far.

    Notes
    -----
    Memory does not grow with the run. A metastable start, in which nothing moves for a while before it decays, looks
    stationary to this test as to any other: use several observables, and starts that differ.

    Measured on first-order autoregressive chains, z = 2, one observable, 100 to 300 runs each. *False alarms*, which
    cost a doubling: with 8 to 64 stationary chains 3 to 5 % at the first look and below 1 % at the first two together,
    whatever tau_int (two observables: 8 to 12 % and 2 %). One to seven chains: 5 to 7 % and 2 % with tau_int = 0.5;
    with a longer one they go on until T is some ten to twenty tau_int, a single chain with 9.5 to 250 on average.
    *Detection*: what a start 100 standard deviations off has left at the look that calls it stationary was never above
    0.004 of a standard deviation (tau_int up to 50, one to 64 chains); from 10 off, never above 0.06 and on average
    0.007. A start only 3 off, with tau_int = 50, hides in the noise of few chains: with one to 16, 0.06 to 0.4 was
    left on average, with 64 not more than 0.02.
    """

    def __init__(self, n_observables: int, n_chains: int, *, unit: int = UNIT, z: float = Z) -> None:
        sizes = [checks.whole("n_observables", n_observables, least=1), checks.whole("n_chains", n_chains, least=1)]
        if checks.whole("unit", unit, least=N_BINS) % N_BINS:
            raise ValueError(f"unit must be a multiple of {N_BINS}, the bins of a window; got {unit}.")
        self.unit, self.z, self.n_rows = unit, checks.real("z", z, above=0.0), 0
        self._origin = np.zeros(sizes)
        self._sums = np.zeros((N_WINDOWS, N_BINS, *sizes))

    def add(self, row: Any) -> bool | None:
        """Add one sweep's observables, (n_observables, n_chains).

        Returns
        -------
        bool or None
            Whether the chains are stationary, when it is time for a look; else None.
        """
        values = np.asarray(checks.real_array("row", row), np.float64)
        checks.shape("row", values, self._origin.shape)
        if not np.isfinite(values).all():
            raise ValueError(f"row must be finite; {int((~np.isfinite(values)).sum())} of {values.size} are not.")
        if not self.n_rows:
            self._origin[...] = values
        start, length = self._window(self.n_rows)
        if self.n_rows == start and start:
            self._sums[:-1] = self._sums[1:]
            self._sums[-1] = 0.0
        # from the first row on, so that values that do not vary have means that do not differ
        self._sums[-1, (self.n_rows - start) * N_BINS // length] += values - self._origin
        self.n_rows += 1
        if self.n_rows < start + length or self.n_rows < 4 * self.unit:
            return None
        return is_stationary(self.means(), z=self.z)

    def _window(self, row: int) -> tuple[int, int]:
        """First row and length of the window that holds a row, counted from 0."""
        if row < self.unit:
            return 0, self.unit
        length = self.unit << ((row // self.unit).bit_length() - 1)
        return length, length

    def means(self) -> np.ndarray:
        """Return the means of the bins less every chain's first row, the oldest window first.

        They are (3, 16, n_observables, n_chains), and sensible when all windows are full. At the first inspection the
        oldest window is all of the first unit.
        """
        _, length = self._window(max(self.n_rows - 1, 0))
        widths = np.maximum([length // 4, length // 2, length], self.unit) / N_BINS
        return self._sums / widths[:, None, None, None]

    def state(self) -> dict[str, np.ndarray]:
        """Return all there is as arrays whose shapes never change."""
        return {"origin": self._origin.copy(), "sums": self._sums.copy(), "n_rows": np.array(self.n_rows)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a `state` of the same numbers of observables and chains."""
        expected = {key: array.shape for key, array in self.state().items()}
        found = {key: np.shape(state[key]) for key in expected if key in state}
        if found != expected:
            raise ValueError(f"state must hold arrays of shapes {expected}; got {found}.")
        self._origin, self._sums = (np.array(state[key], np.float64) for key in ("origin", "sums"))
        self.n_rows = int(state["n_rows"])
