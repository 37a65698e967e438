"""The autocorrelation time of rows: that of the slowest of units, the number of units up, and leading principal axes.

Whether a series has one is tested first, as the largest of many noisy times is long. Of independent rows the sum of
rho(t) over lags 1 to w has variance w / n for small w, and 1 + 2 sum rho, a spectral density at zero frequency, is a
chi-square over its n / (2 w) degrees of freedom for large ones; that of events which are rare has a longer tail. So a
series counts where, with L = log(number of tests / 0.01) and d its entries about their mean,

    sum_t<=w rho(t) > (2 L w / n)^(1/2) + 2 L w / n + L max d^2 / sum d^2        for some w = 1, 2, 4, ... <= n / 8.

Sums over k rows, of variance S where rows have V, have a time tau of their own; that of rows is tau S / (k V).

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
ENTRIES, FEWEST, MOST = 1 << 18, 1 << 10, 1 << 12  # of the table that is looked at: in all, and of its rows
STRETCHES = 8
AXES, POWERS = 8, 5
FEWEST_LAGS = 8  # series have so many times as many entries as lags are summed
AT_ONCE = 64  # series
ROUNDING = 1e-12  # of variances: axes beyond the rank of a table are nothing else


def tau_of(rows: Rows) -> float:
    """Return the autocorrelation time of rows, in rows; 1/2 where they cannot be told from independent ones.

    Many rows are looked at twice: as sums over stretches that follow one another, which miss nothing slow, and row by
    row in a few stretches. Missing entries count as the mean of their unit. The cost is that of going through all bits
    once, and of Fourier transforms of 2^18 numbers, or of 2^10 for each unit, twice.
    """
    n_rows, n_units = rows.shape
    most = min(max(ENTRIES // n_units, FEWEST), MOST)
    size = -(-n_rows // most)
    with single_threaded_blas():  # the same bits on any number of threads
        if size == 1:
            return _slowest(_sums(rows, 1, 0, n_rows)[0][:, None])
        length = most // STRETCHES
        firsts = np.linspace(0, n_rows - length, STRETCHES).astype(np.int64)
        of_stretches = _slowest(np.stack([_sums(rows, 1, k, k + length)[0] for k in firsts], axis=1))
        sums, some_rows = _sums(rows, size, 0, n_rows)
        return max(of_stretches, _slowest(sums[:, None], some_rows[:, None], size))


def _sums(rows: Rows, size: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sums over `size` rows each from `first` to before `last`, (m, n_units), and the first row of each.

    Missing entries are means.
    """
    each, means = size * rows.n_units, None if rows.complete else rows.sums() / np.maximum(rows.known_counts(), 1.0)
    last -= (last - first) % size
    found = []
    for some in rows.blocks(max(NUMBERS // each, 1) * each, first, last):
        parts = _added(rows[some], size)
        if means is not None:
            parts = parts - means * _added(rows.known(some), size)
        found.append(parts)
    sums, singles = np.concatenate(found, axis=1)
    return sums, singles


def _added(bits: np.ndarray, size: int) -> np.ndarray:
    """Return sums over every `size` rows, and the first of them, (2, m, n_units)."""
    groups = bits.reshape(-1, size, bits.shape[1])
    return np.stack([groups.sum(axis=1, dtype=np.uint32), groups[:, 0]]).astype(np.float64)


def _slowest(table: np.ndarray, some_rows: np.ndarray | None = None, size: int = 1) -> float:
    """Return the longest autocorrelation time in a table (m, n_chains, n_units), in rows; 1/2 if none is seen.

    It is of rows, or of sums over `size` of them; `some_rows` (m, n_chains, n_units) tell how these scatter.
    """
    n_samples, n_chains, _ = table.shape
    table = _centred(table)
    axes = _axes(table)
    series = _series(table, axes)
    squares = series**2
    total = squares.sum(axis=(0, 1))
    varies = total > ROUNDING * total.max()
    if n_samples < 2 * FEWEST_LAGS or not varies.any():
        return INDEPENDENT
    series, share = series[:, :, varies], squares.max(axis=(0, 1))[varies] / total[varies]
    factor = np.ones(series.shape[2])
    if some_rows is not None:  # a sum of like rows scatters by `size` times what one of independent rows does
        of_rows = size * (_series(_centred(some_rows), axes)[:, :, varies] ** 2).sum(axis=(0, 1))
        factor = np.minimum(total[varies] / np.maximum(of_rows, ROUNDING * total[varies]), size)
    windows = 1 << np.arange((n_samples // FEWEST_LAGS).bit_length())
    tests = math.log(2 * series.shape[2] * len(windows) / ALPHA)  # of sums and of rows
    noise = 2.0 * tests * np.cumsum(1.0 / (n_chains * (n_samples - np.arange(1.0, n_samples))))[windows - 1, None]
    slowest = INDEPENDENT
    for k in range(0, series.shape[2], AT_ONCE):
        some = series[:, :, k : k + AT_ONCE]
        sums = np.cumsum(autocorrelation(some)[1 : windows[-1] + 1], axis=0)[windows - 1]
        seen = (sums > np.sqrt(noise) + noise + tests * share[k : k + AT_ONCE]).any(axis=0)
        if seen.any():
            slowest = max(slowest, float((longest_tau(some[:, :, seen]) * factor[k : k + AT_ONCE][seen]).max()))
    return slowest


def _centred(table: np.ndarray) -> np.ndarray:
    found: np.ndarray = table - table.mean(axis=(0, 1))
    return found


def _axes(table: np.ndarray) -> np.ndarray:
    """Return the leading principal axes of a table about its mean, (n_units, AXES), by subspace iteration.

    Golub and Van Loan, Matrix Computations (2013), section 8.2.
    """
    rows = table.reshape(-1, table.shape[2])
    basis = rows[np.linspace(0, len(rows) - 1, AXES).astype(np.int64)].T
    for _ in range(POWERS):
        basis = rows.T @ (rows @ np.linalg.qr(basis)[0])
    basis = np.linalg.qr(basis)[0]
    found: np.ndarray = basis @ np.linalg.svd(rows @ basis, full_matrices=False)[2].T
    return found


def _series(table: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Return a table with the sum of its columns, and its components along axes, beside them."""
    return np.concatenate([table, table.sum(axis=2, keepdims=True), table @ axes], axis=2)
