"""Convergence of chains told from the ranks of their values: R-hat, effective samples of the bulk and of the tails.

Ranks are the same under any increasing transformation, exist where moments do not, and ties share their mean rank, so
that magnetisations of few values are served as well as energies.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Anal. 16, 667 (2021), doi:10.1214/20-BA1221.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from .._base.arrays import empty
from .._base.threads import fan_out
from ..kernels.ranks import larger_ratio, ratio_of_scores, spread_scores
from .autocorrelation import finite

R_HAT_LIMIT = 1.05  # chains whose R-hat is above it are said not to have converged
TAILS = (0.05, 0.95)
SMALLEST_SPREAD = 1e-15  # values that differ by less do not vary
MANY = 4096  # numbers, from which on it pays to sort keys of them
CHUNK = 1 << 13  # of them
TOGETHER = 8  # quantities that a thread looks at, which lie in one cache line; fewer where they are many numbers
CODES = 1 << 18  # numbers of quantities of few values that are looked at together
LITTLE = 1e-3  # of the sum of squares, below which their difference from those of means is not exact enough
WORTH_THREADS = 1 << 17  # numbers, from which on threads look at some quantities each


def split_chains(values: np.ndarray) -> np.ndarray:
    """Return both halves of every chain as chains of their own; of an odd number the middle sample is left out."""
    half = len(values) // 2
    return np.concatenate([values[:half], values[len(values) - half :]], axis=1)


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Return Blom's normal scores of the ranks among all samples of all chains: Phi^-1((rank - 3/8) / (size + 1/4)).

    Equal values share their mean rank.
    """
    columns = _columns(values)
    scores = np.empty(columns.shape)
    for column, order, found in zip(columns, np.argsort(columns, axis=1), scores, strict=True):
        spread_scores(column[order], order, _scores_of(len(column)), found)
    return scores.T.reshape(values.shape)


def _columns(values: np.ndarray) -> np.ndarray:
    """Return the samples of all chains of each quantity, (n_quantities, n_samples * n_chains)."""
    return np.ascontiguousarray(values.reshape(values.shape[0] * values.shape[1], -1).T)


@lru_cache(maxsize=4)
def _scores_of(size: int) -> np.ndarray:
    """Return the scores of ranks 1, 2, ..., `size`, then of those between them, 3/2, 5/2, ..."""
    from scipy.special import ndtri

    twice = np.arange(2 * size - 1)
    found: np.ndarray = ndtri((1.0 + np.concatenate([twice[::2], twice[1::2]]) / 2 - 0.375) / (size + 0.25))
    return found


def split_ratio(within: np.ndarray, between: np.ndarray, n: int) -> Any:
    """Return R-hat of half-chains of n samples.

    It follows from the mean of their variances and n times the variance of their means.
    """
    varies = within > 0
    ratio = np.where(varies, ((n - 1) * within + between) / (n * np.where(varies, within, 1.0)), 1.0)
    return np.sqrt(np.where(~varies & (between > 0), np.inf, ratio))


def plain_r_hat(values: np.ndarray) -> float:
    """Return split R-hat of the values themselves, (n_samples, n_chains), in a pass over them; 1 of fewer than four."""
    if len(values) < 4:
        return 1.0
    halves = split_chains(values)
    between = len(halves) * halves.mean(axis=0).var(ddof=1)
    return float(split_ratio(halves.var(axis=0, ddof=1).mean(), between, len(halves)))


def r_hat(values: Any) -> Any:
    """Return rank-normalised split R-hat: 1 where chains agree with one another and with themselves.

    The larger of two: of the values' ranks (do the chains have the same location?) and of the ranks of their distances
    from the median (the same spread?).

    Parameters
    ----------
    values : (n_samples, n_chains, ...) array
        At least 4 samples; one chain is compared with itself.

    Returns
    -------
    float or (...) array
        NaN with fewer than 4 samples; 1 where values do not vary; infinite where chains stand still at different
        values.

    Notes
    -----
    Equal to ArviZ's `rhat(method="rank")` for two chains or more that vary. ArviZ gives NaN for a single chain and
    where nothing varies; where every chain stands still, infinity or a huge number and a warning of a division by 0.

    References
    ----------
    Vehtari et al., Bayesian Anal. 16, 667 (2021), sec. 4, doi:10.1214/20-BA1221.
    """
    array = finite(values)
    if len(array) < 4:
        return np.full(array.shape[2:], np.nan)[()]
    halves = split_chains(array)
    found = [_larger_ratio(column, halves.shape[1]) for column in _columns(halves)]
    return np.reshape(found, array.shape[2:])[()]


def largest_r_hats(series: Sequence[np.ndarray], threads: int) -> list[float]:
    """Return the largest `r_hat` of all quantities of each array; 0 where there are fewer than 4 samples."""
    cuts = [_few(one.reshape(*one.shape[:2], -1)) if len(one) >= 4 else [] for one in series]
    together = threads if sum(part.size for parts in cuts for part in parts) >= WORTH_THREADS else 1
    found = iter(fan_out(_largest, [part for parts in cuts for part in parts], together))
    return [max((next(found) for _ in parts), default=0.0) for parts in cuts]


def _few(values: np.ndarray) -> list[np.ndarray]:
    few = min(max(1, WORTH_THREADS // (values.shape[0] * values.shape[1])), TOGETHER)
    return [values[..., k : k + few] for k in range(0, values.shape[2], few)]


def _largest(values: np.ndarray) -> float:
    halves = split_chains(finite(values))
    return max(_larger_ratio(column, halves.shape[1]) for column in _columns(halves))


def _larger_ratio(values: np.ndarray, n_chains: int) -> float:
    """Return R-hat of the samples of half-chains, chain by chain last. Mutates `values`."""
    size = len(values)
    room = np.empty(size + 2), np.empty((2, n_chains))
    n_bits, found = size.bit_length(), -1.0
    if size >= MANY:
        found = float(larger_ratio(values, _sorted_keys(values, n_bits), (1 << n_bits) - 1, _scores_of(size), *room))
    if found < 0.0:  # or numbers far closer to one another than the largest is to the smallest
        found = float(larger_ratio(values, np.argsort(values), -1, _scores_of(size), *room))
    return found


def _sorted_keys(values: np.ndarray, n_bits: int) -> np.ndarray:
    """Return keys that are sorted as numbers are, as far as their bits go, with places in the lowest `n_bits`.

    Bits of floats, of negative ones but the sign turned round, are in the order of the numbers. To sort keys takes less
    than half of the time of sorting places by numbers.
    """
    bits = values.view(np.int64)
    keys = bits >> 63
    keys &= np.iinfo(np.int64).max
    keys ^= bits
    keys -= keys.min()
    words = keys.view(np.uint64)
    words >>= np.uint64(max(0, int(words.max()).bit_length() + n_bits - 64))
    words <<= np.uint64(n_bits)
    places = np.arange(min(len(words), CHUNK), dtype=np.uint64)
    for first in range(0, len(words), CHUNK):  # fresh memory takes longer than all of this
        some = words[first : first + CHUNK]
        some |= places[: len(some)] + np.uint64(first)
    words.sort()
    return keys


def r_hat_of_codes(codes: np.ndarray, values: np.ndarray) -> float:
    """Return `r_hat` of `values[codes]`, (n_samples, n_chains), at least 4 samples, without sorting these.

    `codes` are whole numbers from 0 on. Where they are fewer than the samples it takes a fraction of the time.
    """
    halves = split_chains(codes)
    size, flat, room = halves.size, halves.ravel(), np.empty((2, halves.shape[1]))
    counts = np.bincount(flat, minlength=len(values))
    scores, kinds, sizes = _scores_of_codes(values, counts)
    own = scores[flat]
    found = float(ratio_of_scores(own, room))
    median = kinds[np.searchsorted(np.cumsum(sizes), [size // 2 - 1, size // 2], side="right")].sum() / 2
    scores, _, sizes = _scores_of_codes(np.abs(values - median), counts)
    if sizes.max() == size:
        return found
    return max(found, float(ratio_of_scores(np.take(scores, flat, out=own, mode="clip"), room)))


def _scores_of_codes(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores of the mean ranks of values that are there so often; the distinct ones, and how often these are."""
    order, scores = np.argsort(values), np.empty(len(counts))
    ordered = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    sizes = np.add.reduceat(counts[order], starts)
    ends = np.cumsum(sizes)
    size, twice = int(ends[-1]), 2 * ends - sizes - 1  # which has no meaning where there is none
    own = np.take(_scores_of(size), twice // 2 + twice % 2 * size, mode="clip")
    scores[order] = own.repeat(np.concatenate([starts[1:], [len(values)]]) - starts)
    return scores, ordered[starts], sizes


def r_hats_of_codes(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return `r_hat_of_codes` of several quantities at once, (n_samples, n_chains, n_quantities).

    NumPy goes through all of them in each step, so that threads wait for each other less; one alone takes longer here.
    """
    n, n_chains = codes.shape[:2]
    kinds, kind = np.unique(values, return_inverse=True)
    quantities, few = np.moveaxis(codes, 2, 0), max(1, CODES // (n * n_chains))
    found, shape = [], (min(few, len(quantities)), n - n % 2, n_chains)
    room = empty(shape, np.int64), empty(shape, np.float64)
    for k in range(0, len(quantities), few):
        some = quantities[k : k + few]
        own, scores = (one[: len(some)] for one in room)
        np.take(kind, np.delete(some, n // 2, axis=1) if n % 2 else some, out=own, mode="clip")
        found.append(_ratios_of_kinds(own, kinds, scores))
    return np.concatenate(found)


def _ratios_of_kinds(codes: np.ndarray, kinds: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Return R-hat of `kinds[codes]`, (n_quantities, n_samples, n_chains), of an even number of samples.

    Kinds increase. Mutates `codes` and `room`, of their shape.
    """
    n_quantities, size = len(codes), codes[0].size
    codes += len(kinds) * np.arange(n_quantities)[:, None, None]
    counts = np.bincount(codes.ravel(), minlength=n_quantities * len(kinds)).reshape(n_quantities, -1)
    ends = counts.cumsum(axis=1)
    found = _ratios_of_scores(_scores_between(ends - counts, ends, size), counts, codes, room)
    below, above = ((ends <= k).sum(axis=1) for k in (size // 2 - 1, size // 2))
    distances = np.abs(kinds - (kinds[below] + kinds[above])[:, None] / 2)
    order = distances.argsort(axis=1)
    distances, sizes = (np.take_along_axis(one, order, axis=1) for one in (distances, counts))
    ends, change = sizes.cumsum(axis=1), distances[:, 1:] != distances[:, :-1]
    starts = np.where(np.pad(change, ((0, 0), (1, 0)), constant_values=True), ends - sizes, 0)
    starts = np.maximum.accumulate(starts, axis=1)
    ends = np.where(np.pad(change, ((0, 0), (0, 1)), constant_values=True), ends, size)
    ends = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    scores = np.empty(counts.shape)
    np.put_along_axis(scores, order, _scores_between(starts, ends, size), axis=1)
    is_one = (ends - starts).max(axis=1) == size  # distance alone, of which chains tell nothing
    larger: np.ndarray = np.where(is_one, found, np.maximum(found, _ratios_of_scores(scores, counts, codes, room)))
    return larger


def _scores_between(starts: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """Return the scores of the mean of ranks `starts` + 1 to `ends`, of any where there is none."""
    twice = starts + ends - 1
    found: np.ndarray = np.take(_scores_of(size), twice // 2 + twice % 2 * size, mode="clip")
    return found


def _ratios_of_scores(scores: np.ndarray, counts: np.ndarray, codes: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Return R-hat of `scores.flat[codes]`, (n_quantities, n_samples, n_chains), which are there so often."""
    n_quantities, n_samples, n_chains = codes.shape
    n = n_samples // 2
    own = np.take(scores, codes, out=room, mode="clip").reshape(n_quantities, 2, n, n_chains)
    means, squares = own.mean(axis=2), (counts * scores**2).sum(axis=1)
    within = squares - n * (means**2).sum(axis=(1, 2))
    for k in np.flatnonzero(within <= LITTLE * squares):
        first = own[k, :, :1]  # so that chains that stand still vary by exactly 0
        off = (own[k] - first).mean(axis=1)
        within[k], means[k] = ((own[k] - first - off[:, None]) ** 2).sum(), first[:, 0] - first[0, 0, 0] + off
    means = means.reshape(n_quantities, -1)
    return np.asarray(split_ratio(within / ((n - 1) * means.shape[1]), n * means.var(axis=1, ddof=1), n))


def ess_bulk(values: Any) -> Any:
    """Return the effective number of samples of the bulk, from the autocorrelation of the normal scores of the ranks.

    Parameters
    ----------
    values : (n_samples, n_chains, ...) array
        At least 4 samples.

    Returns
    -------
    float or (...) array
        NaN with fewer than 4 samples; all samples where values do not vary.

    References
    ----------
    Vehtari et al., Bayesian Anal. 16, 667 (2021), secs. 3.2 and 4.1, doi:10.1214/20-BA1221.
    """
    array = finite(values)
    if len(array) < 4:
        return np.full(array.shape[2:], np.nan)[()]
    return _effective(normal_scores(split_chains(array)))[()]


def ess_tail(values: Any) -> Any:
    """Return the effective number of samples of the tails: the smaller of those for the 5 % and the 95 % quantile.

    Parameters
    ----------
    values : (n_samples, n_chains, ...) array
        At least 4 samples.

    Returns
    -------
    float or (...) array
        NaN with fewer than 4 samples; all samples where a quantile is the largest value.

    References
    ----------
    Vehtari et al., Bayesian Anal. 16, 667 (2021), sec. 4.3, doi:10.1214/20-BA1221.
    """
    array = finite(values)
    if len(array) < 4:
        return np.full(array.shape[2:], np.nan)[()]
    below = [split_chains((array <= q).astype(np.float64)) for q in np.quantile(array, TAILS, axis=(0, 1))]
    return np.minimum(*[_effective(part) for part in below])[()]


def _correlations(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlation at every lag of chains that may disagree, (n_samples, ...), and where it is defined, (...)."""
    from scipy.fft import irfft, next_fast_len, rfft

    n = len(chains)
    means = chains.mean(axis=0)
    size = next_fast_len(2 * n)
    spectrum = rfft(chains - means, size, axis=0)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)  # of all chains, so that one series is turned back
    covariance = irfft(power, size, axis=0)[:n] / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + means.var(axis=0, ddof=1)
    varies = np.ptp(chains, axis=(0, 1)) >= SMALLEST_SPREAD
    return 1.0 - (within - covariance) / np.where(varies, total, 1.0), varies


def _effective(chains: np.ndarray) -> np.ndarray:
    """Effective samples of chains by Geyer's initial monotone sequence.

    Correlations of neighbouring lags are added in pairs, from lags 0 and 1 on, up to the first pair that is not
    positive; no pair may be larger than the one before it. The first lag that is left out counts once if it is
    positive. The integrated time is kept above 1 / log10(samples), so that alternating chains gain no more than that.
    """
    rho, varies = _correlations(chains)
    n, n_all = len(rho), chains.shape[0] * chains.shape[1]
    rho[0] = 1.0
    end = 2 + 2 * max(0, (n - 3) // 2)  # the last lag, n - 1, and an odd one before it are never looked at
    even, pairs = rho[0:end:2], rho[0:end:2] + rho[1:end:2]
    ends = pairs <= 0
    ends[-1] = True
    last = ends.argmax(axis=0)[None]
    places = np.arange(len(pairs)).reshape((-1,) + (1,) * (pairs.ndim - 1))
    total = np.where(places < last, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0)
    extra, pair = (np.take_along_axis(part, last, axis=0)[0] for part in (even, pairs))
    tau = 2.0 * total - 1.0 + np.where((extra > 0) | (pair >= 0), extra, 0.0)
    return np.where(varies, n_all / np.maximum(tau, 1.0 / np.log10(n_all)), n_all)
