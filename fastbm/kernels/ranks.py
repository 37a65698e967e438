"""Scores of ranks, and what is told of chains from them, given an order of numbers."""

import math

import numpy as np

from .jit import kernel


@kernel
def spread_scores(ordered, order, table, scores):
    """Write the score of the mean rank of all numbers equal to it for each number. Mutates `scores` (n,).

    `ordered` (n,) are the numbers in order, of which `order` (n,) tells the places; `table` (2 n - 1,) holds the scores
    of ranks 1, 3/2, 2, ..., n.  Cost: one pass.
    """
    n, first = order.shape[0], 0
    last = ordered[0]
    for k in range(1, n + 1):
        value = ordered[k] if k < n else last
        if k == n or value != last:
            score = table[first + k - 1]
            for j in range(first, k):
                scores[order[j]] = score
            first, last = k, value


@kernel
def larger_ratios(values, orders, table, n_chains, ratios):
    """Write R-hat of each quantity, the larger of those of ranks and of ranks of distances. Mutates `ratios` (n,).

    `values` (n, size) hold the samples of all chains, chain by chain last; `orders` (n, size) sort them; `table` as for
    `spread_scores`. One sort serves for both, as distances from the median grow to either side of it.
    Cost: some passes over the values.
    """
    size = values.shape[1]
    scores, ordered = np.empty(size), np.empty(size + 2)
    ordered[0], ordered[size + 1] = -np.inf, np.inf  # as far from the median as can be
    for k in range(values.shape[0]):
        for j in range(size):
            ordered[j + 1] = values[k, orders[k, j]]
        spread_scores(ordered[1 : size + 1], orders[k], table, scores)
        ratios[k] = _ratio(scores, n_chains)
        if _spread_distances(ordered, orders[k], table, scores):
            ratios[k] = max(ratios[k], _ratio(scores, n_chains))


@kernel
def _spread_distances(ordered, order, table, scores):
    """Write the scores of the ranks of distances from the median; return whether these differ. Mutates `scores`.

    `ordered` are the numbers in order between -inf and inf. Equal distances are found once they are all past.
    """
    size = order.shape[0]
    low, high = size // 2, size // 2 + 1
    median = (ordered[low] + ordered[high]) / 2
    first, first_low, first_high, last = 0, low, high, -1.0
    for j in range(size + 1):
        below, above = median - ordered[low], ordered[high] - median
        nearer = below <= above
        distance = below if nearer else above
        if distance != last:
            if j - first > 1:
                score = table[first + j - 1]
                for k in range(low, first_low):
                    scores[order[k]] = score
                for k in range(first_high - 1, high - 1):
                    scores[order[k]] = score
            if j == size:
                return first > 0
            first, first_low, first_high, last = j, low, high, distance
        scores[order[(low if nearer else high) - 1]] = table[2 * j]
        low -= 1 if nearer else 0
        high += 0 if nearer else 1
    return first > 0


@kernel
def _ratio(scores, n_chains):
    """Return split R-hat of half-chains, from the mean of their variances and the variance of their means.

    All is told from a chain's first score on, so that one that stands still has a variance of exactly 0.
    """
    n = scores.size // n_chains
    sums, within, between, mean = np.zeros(n_chains), np.zeros(n_chains), 0.0, 0.0
    for t in range(n):
        for c in range(n_chains):
            sums[c] += scores[t * n_chains + c] - scores[c]
    for t in range(n):
        for c in range(n_chains):
            off = scores[t * n_chains + c] - scores[c] - sums[c] / n
            within[c] += off * off
    total = 0.0
    for c in range(n_chains):
        sums[c] = scores[c] - scores[0] + sums[c] / n
        mean += sums[c] / n_chains
        total += within[c]
    for c in range(n_chains):
        between += (sums[c] - mean) * (sums[c] - mean)
    between *= n / (n_chains - 1)
    total /= (n - 1) * n_chains
    if total > 0.0:
        return math.sqrt(((n - 1) * total + between) / (n * total))
    return np.inf if between > 0.0 else 1.0
