"""Slow, readable twins of the statistics of chains.

Nothing of fastbm is imported here. A chain is a list of floats; chains are a list of chains, or of equal length the
columns of an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist, fmean, median, variance

import numpy as np

Chains = Sequence[Sequence[float]]


# Ranks (Vehtari et al. 2021)


def split(chains: Chains) -> list[list[float]]:
    """First halves, then last halves."""
    half = len(chains[0]) // 2
    return [list(chain[:half]) for chain in chains] + [list(chain[len(chain) - half :]) for chain in chains]


def normal_scores(chains: Chains) -> list[list[float]]:
    """Blom's scores of the mean ranks of all values."""
    values = sorted(x for chain in chains for x in chain)
    n = len(values)
    places: dict[float, list[int]] = {}
    for k, x in enumerate(values):
        places.setdefault(x, []).append(k + 1)
    score = {x: NormalDist().inv_cdf((fmean(ranks) - 3 / 8) / (n + 1 / 4)) for x, ranks in places.items()}
    return [[score[x] for x in chain] for chain in chains]


def classic_r_hat(chains: Chains) -> float:
    """Gelman and Rubin's ratio, chains as they are; 1 or infinity where they stand still."""
    n = len(chains[0])
    if all(len(set(chain)) == 1 for chain in chains):
        return 1.0 if len({chain[0] for chain in chains}) == 1 else math.inf
    within = fmean(variance(chain) for chain in chains)
    between = n * variance([fmean(chain) for chain in chains])
    return math.sqrt(((n - 1) * within + between) / (n * within))


def r_hat(chains: Chains) -> float:
    """Rank-normalised split R-hat; distances from the median count where they are not all the same."""
    halves = split(chains)
    middle = median([x for chain in halves for x in chain])
    folded = [[abs(x - middle) for x in chain] for chain in halves]
    parts = (halves, folded) if len({x for chain in folded for x in chain}) > 1 else (halves,)
    return max(classic_r_hat(normal_scores(part)) for part in parts)


def ess_of(chains: Chains) -> float:
    """Effective samples by Geyer's initial monotone sequence, every lag by its own sum; all where nothing varies."""
    m, n = len(chains), len(chains[0])
    if len({x for chain in chains for x in chain}) == 1:
        return m * n
    means = [fmean(chain) for chain in chains]

    def covariance(lag: int) -> float:
        sums = [
            sum((x - mean) * (y - mean) for x, y in zip(chain[: n - lag], chain[lag:], strict=True)) / n
            for chain, mean in zip(chains, means, strict=True)
        ]
        return fmean(sums)

    within = covariance(0) * n / (n - 1)
    total = covariance(0) + variance(means)

    def rho(lag: int) -> float:
        return 1.0 - (within - covariance(lag)) / total if lag else 1.0

    pairs = [rho(0) + rho(1)]
    while pairs[-1] > 0 and 2 * len(pairs) + 1 <= n - 2:
        pairs.append(rho(2 * len(pairs)) + rho(2 * len(pairs) + 1))
    last = len(pairs) - 1
    tau = -1.0 + sum(2.0 * min(pairs[: j + 1]) for j in range(last))
    if rho(2 * last) > 0 or pairs[last] >= 0:
        tau += rho(2 * last)
    return m * n / max(tau, 1.0 / math.log10(m * n))


def ess_bulk(chains: Chains) -> float:
    """Of the normal scores of the halves."""
    return ess_of(normal_scores(split(chains)))


def ess_tail(chains: Chains) -> float:
    """Of being below the 5 % and the 95 % quantile, the smaller one."""
    values = np.array([x for chain in chains for x in chain])
    found = []
    for q in np.quantile(values, [0.05, 0.95]):
        found.append(ess_of(split([[float(x <= q) for x in chain] for chain in chains])))
    return min(found)


# Bins


def binned(chain: Sequence[float], n_bins: int) -> tuple[int, list[float], list[float]]:
    """Width, sums and squares of bins of values less the first, doubled one sample at a time."""
    width, sums, squares = 1, [0.0] * n_bins, [0.0] * n_bins
    for filled, x in enumerate(chain):
        if filled == n_bins * width:
            sums = [sums[k] + sums[k + 1] for k in range(0, n_bins, 2)] + [0.0] * (n_bins // 2)
            squares = [squares[k] + squares[k + 1] for k in range(0, n_bins, 2)] + [0.0] * (n_bins // 2)
            width *= 2
        y = x - chain[0]
        sums[filled // width] += y
        squares[filled // width] += y * y
    return width, sums, squares


def window_means(series: np.ndarray, t: int, n_bins: int) -> np.ndarray:
    """Means of the bins of the rows (t/8, t/4], (t/4, t/2] and (t/2, t] of a series, less its first row."""
    windows = [series[t // 8 : t // 4], series[t // 4 : t // 2], series[t // 2 : t]]
    return np.array([[part.mean(axis=0) for part in np.split(window, n_bins)] for window in windows]) - series[0]


# Errors of functions of averages


def jackknife(
    function: Callable[[np.ndarray], float], samples: np.ndarray, blocks: Sequence[Sequence[int]]
) -> tuple[float, float, float]:
    """Value, error and value without bias, from blocks (lists of rows) of any sizes, by pseudo-values."""
    whole, n, g = function(samples), len(samples), len(blocks)
    parts = [function(np.array([x for t, x in enumerate(samples) if t not in set(block)])) for block in blocks]
    h = [n / len(block) for block in blocks]
    mean = g * whole - sum((1 - 1 / h_j) * part for h_j, part in zip(h, parts, strict=True))
    pseudo = [h_j * whole - (h_j - 1) * part for h_j, part in zip(h, parts, strict=True)]
    square = sum((p - mean) ** 2 / (h_j - 1) for p, h_j in zip(pseudo, h, strict=True)) / g
    return whole, math.sqrt(square), mean
