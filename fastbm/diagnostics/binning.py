"""Bins that keep what a long run's averages need, in memory that does not grow with the run.

Every chain's samples are summed in bins of equal width; when all bins are full, neighbours are joined and the width
doubles. The bins' means tell the autocorrelation of the series as soon as it is longer than a bin.

Flyvbjerg and Petersen, J. Chem. Phys. 91, 461 (1989), doi:10.1063/1.457480.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._base import checks
from .autocorrelation import MANY_CHAINS, by_names, tau_int, tau_of_mean
from .ranks import split_ratio

N_BINS = 256
CHUNK = 1 << 18  # numbers that are added at once, which bounds the memory of a large block


class Binned:
    """Accumulate series of many chains in at most 256 bins.

    Samples are added one after another, so that the sums are the same to the last bit however a series is cut into
    blocks, and whether or not it was interrupted.

    Parameters
    ----------
    shape : int or tuple of int
        Of one sample: n_chains, or (n_chains, ...) for several observables.
    n_bins : int
        An even number.

    Attributes
    ----------
    n_samples : int
        Samples of every chain.
    width : int
        Samples in a bin, a power of two.

    Notes
    -----
    Sums and squares are relative to every chain's first sample, so that a small variance beside a large mean is not
    lost. What is told is as good as from the whole series where 2 tau_int is far below n_samples / 128; the last bin
    while it is being filled (less than 1/128 of the samples) counts for `mean` and the variance, not for the
    correlations.
    """

    def __init__(self, shape: int | tuple[int, ...], *, n_bins: int = N_BINS) -> None:
        if checks.whole("n_bins", n_bins, least=2) % 2:
            raise ValueError(f"n_bins must be even, as bins are joined in pairs; got {n_bins}.")
        sizes = tuple(checks.whole("shape", size, least=1) for size in np.atleast_1d(np.asarray(shape)).tolist())
        self.shape, self.n_bins, self.n_samples, self.width = sizes, n_bins, 0, 1
        self._origin = np.zeros(sizes)
        self._sums = np.zeros((2, n_bins, *sizes))  # of the values and of their squares

    def add(self, values: Any) -> None:
        """Add samples, (n_samples, n_chains, ...), in the order in which they were taken."""
        array = np.asarray(checks.real_array("values", by_names(values)), np.float64)
        if array.shape[1:] != self.shape:
            wanted = ("n_samples", *self.shape)
            raise ValueError(f"values must have shape ({', '.join(map(str, wanted))}); got {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"values must be finite; {int((~np.isfinite(array)).sum())} of {array.size} are not.")
        if len(array) and not self.n_samples:
            self._origin[...] = array[0]
        done, rows = 0, max(1, CHUNK // max(1, int(np.prod(self.shape))))
        while done < len(array):
            done += self._fill(array[done : done + rows])

    def _fill(self, values: np.ndarray) -> int:
        """Add samples to the bin that is open, or to as many empty ones as they fill; return how many were added."""
        if self.n_samples == self.n_bins * self.width:
            self._join()
        first, inside = divmod(self.n_samples, self.width)
        n_full = 0 if inside else min(len(values) // self.width, self.n_bins - first)
        n_new = n_full * self.width or min(len(values), self.width - inside)
        shifted = values[:n_new] - self._origin
        both = np.stack([shifted, shifted * shifted]).reshape(2, max(n_full, 1), -1, *self.shape)
        target = self._sums[:, first : first + max(n_full, 1)]
        # `accumulate` adds one after another; `sum` would add in pairs, and in other pairs for other blocks
        target[...] = np.add.accumulate(np.concatenate([target[:, :, None], both], axis=2), axis=2)[:, :, -1]
        self.n_samples += n_new
        return n_new

    def _join(self) -> None:
        half = self.n_bins // 2
        self._sums[:, :half] = self._sums[:, ::2] + self._sums[:, 1::2]
        self._sums[:, half:] = 0.0
        self.width *= 2

    def state(self) -> dict[str, np.ndarray]:
        """Return all there is as arrays whose shapes never change."""
        return {
            "origin": self._origin.copy(),
            "sums": self._sums[0].copy(),
            "squares": self._sums[1].copy(),
            "n_samples": np.array(self.n_samples),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a `state` of bins of the same shape."""
        expected = {key: array.shape for key, array in self.state().items()}
        found = {key: np.shape(state[key]) for key in expected if key in state}
        if found != expected:
            raise ValueError(f"state must hold arrays of shapes {expected}; got {found}.")
        self._origin = np.array(state["origin"], np.float64)
        self._sums = np.stack([state["sums"], state["squares"]]).astype(np.float64)
        self.n_samples, self.width = int(state["n_samples"]), 1
        while self.width * self.n_bins < self.n_samples:
            self.width *= 2

    @property
    def n_full(self) -> int:
        """Bins that are full."""
        return self.n_samples // self.width

    def _shift(self) -> np.ndarray:
        """Return the chains' origins less that of the first chain."""
        return self._origin - self._origin[0]

    def _need(self) -> None:
        if not self.n_samples:
            raise ValueError("these bins are empty: add samples first.")

    def bin_means(self) -> np.ndarray:
        """Return the means of the full bins less the first chain's first sample, (n_full, n_chains, ...)."""
        return self._shift() + self._sums[0, : self.n_full] / self.width

    @property
    def mean(self) -> Any:
        """Mean over samples and chains."""
        self._need()
        return (self._origin[0] + (self._shift() + self._sums[0].sum(axis=0) / self.n_samples).mean(axis=0))[()]

    @property
    def variance(self) -> Any:
        """Variance of all samples about the mean of all."""
        self._need()
        means = self._sums[0].sum(axis=0) / self.n_samples
        within = np.maximum(self._sums[1].sum(axis=0) / self.n_samples - means**2, 0.0).mean(axis=0)
        return (within + (self._shift() + means).var(axis=0))[()]

    def ess(self) -> Any:
        """Return the effective number of samples: the variance over that of the mean, from tau_int of the bins."""
        return self._effective(tau_int)

    def _effective(self, time: Callable[[np.ndarray], Any]) -> Any:
        """Return the effective number of samples by the time of the bins."""
        self._need()
        means, n = self.bin_means(), self.n_samples * self.shape[0]
        variance, between = self.variance, means.var(axis=(0, 1))
        fraction = np.where(between > 0, variance, 1.0) / np.where(between > 0, between, 1.0)
        found = fraction * n / (2.0 * self.width * time(means))
        return np.where(between > 0, np.minimum(found, n), n)[()]

    def r_hat(self) -> Any:
        """Return the classic split R-hat: ranks are not known here.

        It is NaN with fewer than 4 samples, 1 where nothing varies, infinite where chains stand still at different
        values.

        References
        ----------
        Gelman et al., Bayesian Data Analysis (2013), eq. 11.4.
        """
        half = self.n_full // 2
        n = half * self.width
        if n < 2:
            return np.full(self.shape[1:], np.nan)[()]
        sums, squares = np.concatenate(self._halves(half), axis=1)
        within = (np.maximum(squares - sums**2 / n, 0.0) / (n - 1)).mean(axis=0)
        between = n * (np.concatenate([self._shift()] * 2) + sums / n).var(axis=0, ddof=1)
        return split_ratio(within, between, n)

    def _halves(self, half: int) -> list[np.ndarray]:
        """Return sums and sums of squares over the first and the last `half` full bins, (2, n_chains, ...) each."""
        return [part.sum(axis=1) for part in (self._sums[:, :half], self._sums[:, self.n_full - half : self.n_full])]

    def drift(self) -> Any:
        """Return by how many of its errors the mean of the later half differs from that of the first.

        It is 0 where nothing varies. The error is that of the differences of 8 chains or more, else from `ess`.
        """
        half, n_chains = self.n_full // 2, self.shape[0]
        if half < 1:
            return np.full(self.shape[1:], np.nan)[()]
        first, later = (sums[0] / (half * self.width) for sums in self._halves(half))
        differences = later - first
        if n_chains >= MANY_CHAINS:
            error = differences.std(axis=0, ddof=1) / np.sqrt(n_chains)
        else:
            error = 2.0 * np.sqrt(self.variance / np.maximum(self.ess() - 1.0, 1.0))
        moved = np.abs(differences.mean(axis=0))
        return (moved / np.where(error > 0, error, np.where(moved > 0, 1e-300, 1.0)))[()]

    def standard_error(self) -> Any:
        """Return the standard error of the mean.

        It is the larger of that from the bins' time, as `tau_of_mean` has it, and, with 8 chains or more, that from the
        spread of the chains' means.
        """
        within = self.variance / np.maximum(self._effective(tau_of_mean) - 1.0, 1.0)
        if self.shape[0] < MANY_CHAINS:
            return np.sqrt(within)
        means = self._shift() + self._sums[0].sum(axis=0) / self.n_samples
        return np.sqrt(np.maximum(within, means.var(axis=0, ddof=1) / self.shape[0]))
