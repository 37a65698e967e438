"""Scores of ranks: what follows from an order of numbers, in one pass."""

from .jit import kernel


@kernel
def spread_scores(values, order, table, scores):
    """Write the score of the mean rank of all numbers equal to it for each number. Mutates `scores` (n,).

    `order` (n,) sorts `values` (n,); `table` (2 n - 1,) holds the scores of ranks 1, 3/2, 2, ..., n.  Cost: one pass.
    """
    n, first = order.shape[0], 0
    last = values[order[0]]
    for k in range(1, n + 1):
        value = values[order[k]] if k < n else last
        if k == n or value != last:
            score = table[first + k - 1]
            for j in range(first, k):
                scores[order[j]] = score
            first, last = k, value
