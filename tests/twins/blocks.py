"""Slow, readable twins of the kernels that sum in three blocks and draw from them.

Nothing of fastbm is imported here. Energies are Python ints; a setting's bits are those of its number, bit i for unit
i; heights are told in units of 2^61 steps, and exponentials are taken with 50 digits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import mpmath
import numpy as np

from tests.twins import reference

STEPS = 2**61
FLUSHED = 700
Matrix = Sequence[Sequence[float]]


def bits(number: int, n_units: int) -> list[int]:
    """The bits of a setting."""
    return [number >> i & 1 for i in range(n_units)]


def energy(rises: Sequence[Sequence[int]], fields: Sequence[int], x: Sequence[int]) -> int:
    """-sum_{i<j} rises_ij x_i x_j - sum_i fields_i x_i."""
    pairs = sum(int(rises[i][j]) * x[i] * x[j] for i, j in itertools.combinations(range(len(x)), 2))
    return -pairs - sum(int(f) * bit for f, bit in zip(fields, x, strict=True))


def own_energies(rises: Sequence[Sequence[int]], fields: Sequence[int], units: Sequence[int]) -> list[int]:
    """The energy of every setting of some units, all others down."""
    own = [[rises[i][j] for j in units] for i in units]
    return [energy(own, [fields[i] for i in units], bits(k, len(units))) for k in range(2 ** len(units))]


def fields_of(rises: Sequence[Sequence[int]], units: Sequence[int], others: Sequence[int]) -> list[list[int]]:
    """What every setting of some units adds to the fields of the others."""
    settings = [bits(k, len(units)) for k in range(2 ** len(units))]
    return [[sum(x * int(rises[i][j]) for x, i in zip(s, units, strict=True)) for j in others] for s in settings]


def across(rises: Sequence[Sequence[int]], rows: Sequence[int], cols: Sequence[int]) -> list[list[int]]:
    """-sum of the couplings between units of the rows and units of the columns that are up."""
    pulls = fields_of(rises, rows, cols)
    settings = [bits(k, len(cols)) for k in range(2 ** len(cols))]
    return [[-sum(f * x for f, x in zip(pull, s, strict=True)) for s in settings] for pull in pulls]


def energies_of_blocks(
    rises: Sequence[Sequence[int]], fields: Sequence[int], sizes: Sequence[int]
) -> list[list[list[int]]]:
    """The energies of F (a by b, with a's own), G (b by c, with b's own) and H (a by c, with c's own)."""
    a, b, c = (list(range(sum(sizes[:k]), sum(sizes[: k + 1]))) for k in range(3))
    own_a, own_b, own_c = (own_energies(rises, fields, block) for block in (a, b, c))
    f = [[own + e for e in row] for own, row in zip(own_a, across(rises, a, b), strict=True)]
    g = [[own + e for e in row] for own, row in zip(own_b, across(rises, b, c), strict=True)]
    h = [[own + e for own, e in zip(own_c, row, strict=True)] for row in across(rises, a, c)]
    return [f, g, h]


def lowest(table: Sequence[Sequence[int]]) -> int:
    """The lowest entry."""
    return min(min(row) for row in table)


def heights(table: Sequence[Sequence[int]]) -> list[list[float]]:
    """Energies above the lowest."""
    least = lowest(table)
    return [[(e - least) / STEPS for e in row] for row in table]


def weight(height: float, beta: float, tilt: float = 0.0, centre: float = 0.0) -> float:
    """exp(-beta h) (1 + tilt (h - centre)); 0 where the exponent is beyond 700."""
    if beta * height >= FLUSHED:
        return 0.0
    with mpmath.workdps(reference.DIGITS):
        return float(mpmath.exp(-mpmath.mpf(beta) * height) * (1 + mpmath.mpf(tilt) * (mpmath.mpf(height) - centre)))


def multiply(left: Matrix, right: Matrix) -> list[list[float]]:
    """left @ right."""
    return [
        [math.fsum(x * y for x, y in zip(row, col, strict=True)) for col in zip(*right, strict=True)] for row in left
    ]


def weigh(product: Matrix, table: Matrix, heights: Matrix) -> tuple[list[list[float]], list[list[float]]]:
    """Sums of w = product * table: by row, with each unit of the columns up and whole; by column, of w, w h, w h^2."""
    w = [[p * t for p, t in zip(*rows, strict=True)] for rows in zip(product, table, strict=True)]
    n_cols = len(w[0])
    units = range(n_cols.bit_length() - 1)
    by_row = [
        [math.fsum(x for k, x in enumerate(row) if k >> unit & 1) for unit in units] + [math.fsum(row)] for row in w
    ]
    by_col = [
        [math.fsum(row[k] * high[k] ** power for row, high in zip(w, heights, strict=True)) for k in range(n_cols)]
        for power in range(3)
    ]
    return by_row, by_col


def covary(products: Sequence[Matrix], table: Matrix, heights: Matrix) -> list[list[float]]:
    """By column: sums of table * half of plus and minus, and of table * half of plus less minus * h."""
    plus, minus = products
    places = list(np.ndindex(len(table), len(table[0])))
    both, one = ([0.0] * len(table[0]) for _ in range(2))
    for r, c in places:
        both[c] += table[r][c] * (plus[r][c] + minus[r][c]) / 2
        one[c] += table[r][c] * (plus[r][c] - minus[r][c]) / 2 * heights[r][c]
    return [both, one]


def pairs_up(weights: Matrix) -> np.ndarray:
    """P(i and j up) of the units of the rows and then those of the columns, from joint weights."""
    n_rows, n_cols = (size.bit_length() - 1 for size in np.shape(weights))
    total = math.fsum(itertools.chain.from_iterable(weights))
    found = np.zeros((n_rows + n_cols, n_rows + n_cols))
    for (r, row), (c, _) in itertools.product(enumerate(weights), enumerate(weights[0])):
        x = np.array(bits(r, n_rows) + bits(c, n_cols))
        found += row[c] / total * np.outer(x, x)
    return found


def descend(rises: Sequence[Sequence[int]], fields: Sequence[int], n_starts: int) -> tuple[int, list[list[int]]]:
    """The lowest energy that steepest descents reach (at most that of all units down), and where each ends."""
    n = len(fields)
    least, ends = 0, []
    for start in range(n_starts):
        x = [((start * n + i + 1) * 0x9E3779B97F4A7C15 % 2**64) >> 40 & 1 for i in range(n)]
        while True:
            now = energy(rises, fields, x)
            changes = [energy(rises, fields, [*x[:i], 1 - x[i], *x[i + 1 :]]) - now for i in range(n)]
            steepest = min(range(n), key=changes.__getitem__)
            if changes[steepest] >= 0:
                break
            x[steepest] = 1 - x[steepest]
        least = min(least, now)
        ends.append(x)
    return least, ends


# Draws


def uniform(words: Iterator[int]) -> float:
    """(k + 1/2) / 2^53, k the first 53 bits of two words."""
    high, low = next(words), next(words)
    return ((high << 32 | low) >> 11) / 2**53


def find(cumulative: Sequence[float], level: float) -> int:
    """The first index above `level`; beyond the end, the last of some weight."""
    steps = [high > low for low, high in itertools.pairwise([0.0, *cumulative])]
    above = [k for k, x in enumerate(cumulative) if x > level]
    return above[0] if above else max(k for k, step in enumerate(steps) if step)


def draw(u: Sequence[float], f: Matrix, g: Matrix, h: Matrix) -> tuple[int, int, int]:
    """The setting of a, b and c that three uniform numbers stand for."""
    joint = [[p * t for p, t in zip(*rows, strict=True)] for rows in zip(multiply(f, g), h, strict=True)]
    by_a = _cumulate(map(sum, joint))
    a = find(by_a, u[0] * by_a[-1])
    by_c = _cumulate(joint[a])
    c = find(by_c, u[1] * by_c[-1])
    by_b = _cumulate(f[a][b] * g[b][c] for b in range(len(g)))
    return a, find(by_b, u[2] * by_b[-1]), c


def _cumulate(weights: Iterator[float] | Sequence[float]) -> list[float]:
    return list(itertools.accumulate(weights))


# Sums over all states, for machines whose energies are whole multiples of a power of two: they do not round


class Plain(NamedTuple):
    """Averages in float64, P(up) of units and pairs; energies and weights in the order of `reference.all_states`."""

    log_z: float
    up: np.ndarray
    pairs: np.ndarray
    energy: float
    energy_variance: float
    weights: np.ndarray


def sum_all(weights: np.ndarray, bias: np.ndarray, units: str, beta: float, offset: float = 0.0) -> Plain:
    """Sum over all states, one NumPy expression a formula."""
    n = len(bias)
    x = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)
    lo, hi = reference.VALUES[units]
    s = lo + (hi - lo) * x
    energies = offset - 0.5 * ((s @ weights) * s).sum(axis=1) - s @ bias
    least = energies.min()
    w = np.exp(-beta * (energies - least))
    z = math.fsum(w)
    p = w / z
    mean = math.fsum(p * (energies - least))
    variance = math.fsum(p * (energies - least - mean) ** 2)
    return Plain(math.log(z) - beta * least, p @ x, (x * p[:, None]).T @ x, least + mean, variance, p)
