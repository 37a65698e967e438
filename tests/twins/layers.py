"""Slow, readable twins of the kernels that sum over layers and draw from them.

Nothing of fastbm is imported here. A setting's bits are those of its number, bit i for unit i.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tests.twins import reference


def bits(number: int, n_units: int) -> list[int]:
    """The bits of a setting."""
    return [number >> i & 1 for i in range(n_units)]


def gaps(number: int, weights: Sequence[Sequence[float]], base: Sequence[float], lo: float, hi: float) -> list[float]:
    """base_j + sum_i v_i weights_ij, where v_i is `hi` if bit i of `number` is set and `lo` if not."""
    values = [hi if bit else lo for bit in bits(number, len(weights))]
    return [math.fsum([b, *(v * row[j] for v, row in zip(values, weights, strict=True))]) for j, b in enumerate(base)]


def log_product(high: Sequence[float], low: Sequence[float]) -> float:
    """log of the product of high_s + low_s."""
    return math.fsum(math.log(p + q) for p, q in zip(high, low, strict=True))


def log_steep(odds: Sequence[float], share: float) -> float:
    """sum of share x + log(1 + exp(x))."""
    return share * math.fsum(odds) + reference.sum_softplus(odds)


def conditionals(gaps: Sequence[float], beta: float, share: float) -> tuple[list[float], float, float]:
    """P(up) of units with energies -gap (x + share), x = 0 or 1, and the mean and variance of their energy."""
    up = [reference.sigmoid(beta * gap) for gap in gaps]
    mean = -math.fsum(gap * (p + share) for gap, p in zip(gaps, up, strict=True))
    spread = math.fsum(gap**2 * p * reference.sigmoid(-beta * gap) for gap, p in zip(gaps, up, strict=True))
    return up, mean, spread


def uniform(words: Iterator[int]) -> float:
    """The number of [0, 1) with the first 53 bits of two words."""
    first, second = next(words), next(words)
    return ((first << 32 | second) >> 11) / 2**53


def draw(
    words: Iterator[int], weights: Sequence[float], odds_of: Sequence[Sequence[float]], n_enumerated: int
) -> list[int]:
    """Draw a state of the enumerated units by its weight, then the others by their log-odds given it."""
    target, total, number = uniform(words) * math.fsum(weights), 0.0, -1
    for weight in weights:
        number, total = number + 1, total + weight
        if total > target:
            break
    return bits(number, n_enumerated) + [int(uniform(words) < reference.sigmoid(x)) for x in odds_of[number]]
