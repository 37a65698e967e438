"""Scores of ranks, and what is told of chains from them, given an order of numbers."""

import math

import numpy as np

from .jit import apart_borrowing, borrowing

MOST_STEPS = 16  # by which a number is moved whose key was that of larger ones
_W = np.uint64


@apart_borrowing
def spread_scores(ordered, order, table, scores):
    """Write the score of the mean rank of all numbers equal to it for each number. Mutates `scores` (n,).

    `ordered` (n,) are the numbers in order, of which `order` (n,) tells the places; `table` (2 n - 1,) holds the scores
    of ranks 1, 2, ..., n and then of those between them, 3/2, 5/2, ...  Cost: one pass.
    """
    n, first = order.shape[0], 0
    last = ordered[0]
    for k in range(1, n + 1):
        value = ordered[k] if k < n else last
        if k == n or value != last:
            score = table[(first + k - 1) // 2 + (first + k - 1) % 2 * n]
            for j in range(first, k):
                scores[order[j]] = score
            first, last = k, value


@borrowing
def larger_ratio(values, keys, places, table, ordered, sums):
    """Return R-hat of a quantity, the larger of those of ranks and of ranks of distances from the median.

    Mutates all but `table`. `values` (n,) hold the samples of all chains, chain by chain last; the bits of `places` in
    `keys` (n,) int64 are where each is that comes next in order, or nearly so: -1 is returned where they are too wrong.
    `table` is as for `spread_scores`; `ordered` (n + 2,) float64 is room, `sums` (2, n_chains) that of
    `ratio_of_scores`. One sort serves for both, as distances grow to either side of the median.
    Cost: some passes over the values.
    """
    n = values.shape[0]
    ordered[0], ordered[n + 1] = -np.inf, np.inf  # as far from the median as can be
    for j in range(n):
        place = keys[j] & places
        value, k = values[place], j
        while value < ordered[k]:
            if j - k == MOST_STEPS:
                return -1.0
            ordered[k + 1], keys[k] = ordered[k], keys[k - 1]
            k -= 1
        ordered[k + 1], keys[k] = value, place
    spread_scores(ordered[1 : n + 1], keys, table, values)
    found = ratio_of_scores(values, sums)
    _fold(ordered, keys, values)
    if values[0] == values[n - 1]:
        return found
    spread_scores(values, keys, table, ordered[1 : n + 1])
    return max(found, ratio_of_scores(ordered[1 : n + 1], sums))


@apart_borrowing
def _fold(ordered, order, distances):
    """Write distances from the median in order, and their places. Mutates `distances` (n,), `order` (n,); n is even.

    `ordered` (n + 2,) are the numbers in order between -inf and inf, `order` their places, in the lower halves of whose
    words they stay while the upper ones are written. It goes from both ends at once, as a step waits for the one before
    it. Of equal distances those below the median come first.
    """
    n, one, lower = order.shape[0], _W(1), np.int64(0xFFFFFFFF)
    low, high, first, last = _W(n // 2), _W(n // 2 + 1), _W(1), _W(n)
    median = (ordered[low] + ordered[high]) / 2
    for j in range(n // 2):
        below, above = median - ordered[low], ordered[high] - median
        under = _W(below <= above)
        distances[j] = min(below, above)
        order[j] |= (order[high - under * (high - low) - one] & lower) << 32
        low -= under
        high += one - under
        below, above = median - ordered[first], ordered[last] - median
        under = _W(below > above)
        distances[n - 1 - j] = max(below, above)
        order[n - 1 - j] |= (order[last - under * (last - first) - one] & lower) << 32
        first += under
        last -= one - under
    for j in range(n):
        order[j] >>= 32


@apart_borrowing
def ratio_of_scores(scores, sums):
    """Return split R-hat of half-chains, from the mean of their variances and the variance of their means.

    `scores` (n,) are as `larger_ratio` takes values; `sums` (2, n_chains) is room. All is told from a chain's first
    score on, so that one that stands still has a variance of exactly 0.
    """
    n_chains = sums.shape[1]
    n = scores.size // n_chains
    means, within, between, mean, total = sums[0], sums[1], 0.0, 0.0, 0.0
    for c in range(n_chains):
        means[c], within[c] = 0.0, 0.0
    for t in range(n):
        for c in range(n_chains):
            means[c] += scores[t * n_chains + c] - scores[c]
    for c in range(n_chains):
        means[c] /= n
    for t in range(n):
        for c in range(n_chains):
            off = scores[t * n_chains + c] - scores[c] - means[c]
            within[c] += off * off
    for c in range(n_chains):
        means[c] = scores[c] - scores[0] + means[c]
        mean += means[c] / n_chains
        total += within[c]
    for c in range(n_chains):
        between += (means[c] - mean) * (means[c] - mean)
    between *= n / (n_chains - 1)
    total /= (n - 1) * n_chains
    if total > 0.0:
        return math.sqrt(((n - 1) * total + between) / (n * total))
    return np.inf if between > 0.0 else 1.0
