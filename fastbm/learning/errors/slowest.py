"""The autocorrelation time of rows: that of the slowest of units, the number of units up, and leading principal axes.

Whether a series has one is tested first, as the largest of many noisy times is long. Of independent rows the sum of
rho(t) over lags 1 to w has variance w / n for small w, and 1 + 2 sum rho, a spectral density at zero frequency, is a
chi-square over its n / (2 w) degrees of freedom for large ones; that of events which are rare has a longer tail. So a
series counts where, with L = log(number of tests / 0.01) and d its entries about their mean,

    sum_t<=w rho(t) > (2 L w / n)^(1/2) + 2 L w / n + L max d^2 / sum d^2        for some w = 1, 2, 4, ... <= n / 8.

Wolff, Comput. Phys. Commun. 156, 143 (2004), doi:10.1016/S0010-4655(03)00467-3; Laurent and Massart, Ann. Stat. 28,
1302 (2000), lemma 1, doi:10.1214/aos/1015957395.
"""

from __future__ import annotations

import math

import numpy as np

from ..._base.threads import single_threaded_blas
from ...data.rows import NUMBERS, Rows
from ...diagnostics.autocorrelation import autocorrelation, longest_tau

ALPHA = 0.01  # chance that independent rows seem to be like those before them
INDEPENDENT = 0.5  # autocorrelation time of independent rows
ENTRIES, FEWEST, MOST = 1 << 20, 1 << 10, 1 << 14  # of the table that is looked at: in all, and of its rows
STRETCHES = 8
AXES, POWERS = 8, 5
FEWEST_LAGS = 8  # series have so many times as many entries as lags are summed
AT_ONCE = 64  # series
ROUNDING = 1e-12  # of variances: axes beyond the rank of a table are nothing else


def tau_of(rows: Rows) -> float:
    """Return the autocorrelation time of rows, in rows; 1/2 where they cannot be told from independent ones.

    Many rows are looked at twice: as sums over stretches that follow one another, which miss nothing slow, and row by
    row in a few stretches. Missing entries count as the mean of their unit. The cost is that of going through all bits
    once, and of Fourier transforms of 2^20 numbers, or of 2^10 for each unit.
    """
    n_rows, n_units = rows.shape
    most = min(max(ENTRIES // n_units, FEWEST), MOST)
    size = -(-n_rows // most)
    views = [(size, _sums(rows, size, 0, n_rows)[:, None])]
    if size > 1:
        length = most // STRETCHES
        firsts = np.linspace(0, n_rows - length, STRETCHES).astype(np.int64)
        views.append((1, np.stack([_sums(rows, 1, first, first + length) for first in firsts], axis=1)))
    with single_threaded_blas():  # the same bits on any number of threads
        # that sums of independent rows have 1/2 too says nothing of rows
        return INDEPENDENT + max(each * (_slowest(view, len(views)) - INDEPENDENT) for each, view in views)


def _sums(rows: Rows, size: int, first: int, last: int) -> np.ndarray:
    """Return sums over `size` rows each from `first` to before `last`, (m, n_units); missing entries are means."""
    each, means = size * rows.n_units, None if rows.complete else rows.sums() / np.maximum(rows.known_counts(), 1.0)
    last -= (last - first) % size
    found = []
    for some in rows.blocks(max(NUMBERS // each, 1) * each, first, last):
        sums = _added(rows[some], size)
        found.append(sums if means is None else sums - means * _added(rows.known(some), size))
    return np.concatenate(found)


def _added(bits: np.ndarray, size: int) -> np.ndarray:
    sums: np.ndarray = bits.reshape(-1, size, bits.shape[1]).sum(axis=1, dtype=np.uint32)
    return sums.astype(np.float64)


def _slowest(table: np.ndarray, n_views: int) -> float:
    """Return the longest autocorrelation time in a table (m, n_chains, n_units), in its rows; 1/2 if none is seen."""
    n_samples, n_chains, _ = table.shape
    series = _with_axes(table - table.mean(axis=(0, 1)))
    squares = series**2
    total = squares.sum(axis=(0, 1))
    varies = total > ROUNDING * total.max()
    if n_samples < 2 * FEWEST_LAGS or not varies.any():
        return INDEPENDENT
    series, share = series[:, :, varies], squares.max(axis=(0, 1))[varies] / total[varies]
    windows = 1 << np.arange((n_samples // FEWEST_LAGS).bit_length())
    tests = math.log(n_views * series.shape[2] * len(windows) / ALPHA)
    noise = 2.0 * tests * np.cumsum(1.0 / (n_chains * (n_samples - np.arange(1.0, n_samples))))[windows - 1, None]
    slowest = INDEPENDENT
    for k in range(0, series.shape[2], AT_ONCE):
        some = series[:, :, k : k + AT_ONCE]
        sums = np.cumsum(autocorrelation(some)[1 : windows[-1] + 1], axis=0)[windows - 1]
        seen = (sums > np.sqrt(noise) + noise + tests * share[k : k + AT_ONCE]).any(axis=0)
        if seen.any():
            slowest = max(slowest, float(longest_tau(some[:, :, seen]).max()))
    return slowest


def _with_axes(table: np.ndarray) -> np.ndarray:
    """Return a table about its mean with the sum of its columns, and its leading principal components, beside them.

    These come from subspace iteration. Golub and Van Loan, Matrix Computations (2013), section 8.2.
    """
    rows = table.reshape(-1, table.shape[2])
    basis = rows[np.linspace(0, len(rows) - 1, AXES).astype(np.int64)].T
    for _ in range(POWERS):
        basis = rows.T @ (rows @ np.linalg.qr(basis)[0])
    axes = np.linalg.svd(rows @ np.linalg.qr(basis)[0], full_matrices=False)
    found = np.concatenate([rows, rows.sum(axis=1, keepdims=True), axes[0] * axes[1]], axis=1)
    return found.reshape(*table.shape[:2], -1)
