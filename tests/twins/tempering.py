"""Slow, readable twins of what the estimators over many temperatures compute. Nothing here knows of fastbm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import mpmath

Rows = Sequence[Sequence[float]]


def bennett_difference(low: Sequence[float], high: Sequence[float]) -> float:
    """log Z' - log Z from u = (beta' - beta) E at beta (`low`) and at beta' (`high`), by halving an interval."""

    def excess(delta: float) -> mpmath.mpf:
        up = mpmath.fsum(1 / (1 + mpmath.exp(mpmath.mpf(u) + delta)) for u in low) / len(low)
        down = mpmath.fsum(1 / (1 + mpmath.exp(-mpmath.mpf(u) - delta)) for u in high) / len(high)
        return up - down

    left, right = -max([*low, *high]) - 1.0, -min([*low, *high]) + 1.0
    while right - left > 1e-14 * max(1.0, abs(left), abs(right)):
        middle = (left + right) / 2
        if middle in (left, right):
            break
        left, right = (middle, right) if excess(middle) > 0 else (left, middle)
    return (left + right) / 2


def bennett_log_z(betas: Sequence[float], energies: Rows) -> list[float]:
    """log Z of every level over that of the first; `energies` holds the samples of each level."""
    log_z = [0.0]
    for k, (one, other) in enumerate(itertools.pairwise(betas)):
        step = other - one
        delta = bennett_difference([step * e for e in energies[k]], [step * e for e in energies[k + 1]])
        log_z.append(log_z[-1] + delta)
    return log_z


def multistate_log_z(betas: Sequence[float], energies: Rows) -> list[float]:
    """log Z of all levels over that of the first: the multistate equations, iterated until they hold."""
    log_z = [0.0] * len(betas)
    sizes = [len(level) for level in energies]
    pooled = [e for level in energies for e in level]
    for _ in range(10_000):
        mixed = [
            math.log(math.fsum(n * math.exp(-b * e - z) for n, b, z in zip(sizes, betas, log_z, strict=True)))
            for e in pooled
        ]
        found = [math.log(math.fsum(math.exp(-b * e - m) for e, m in zip(pooled, mixed, strict=True))) for b in betas]
        found = [z - found[0] for z in found]
        change = max(abs(a - b) for a, b in zip(found, log_z, strict=True))
        log_z = found
        if change < 1e-13:
            break
    return log_z


def hermite_log_z(betas: Sequence[float], energies: Rows) -> list[float]:
    """log Z over that of the first level: minus the integral of the cubics through mean energies and their slopes."""
    mean = [math.fsum(level) / len(level) for level in energies]
    slope = [-math.fsum((e - m) ** 2 for e in level) / len(level) for level, m in zip(energies, mean, strict=True)]
    log_z = [0.0]
    for k, (one, other) in enumerate(itertools.pairwise(betas)):
        h, a, b = other - one, mean[k], mean[k + 1]
        c, d = slope[k] * h, slope[k + 1] * h
        cubic = [a, c, 3 * (b - a) - 2 * c - d, 2 * (a - b) + c + d]  # in x = (beta - one) / h
        log_z.append(log_z[-1] - h * math.fsum(coefficient / (p + 1) for p, coefficient in enumerate(cubic)))
    return log_z


def kaufman_log_z(rows: int, columns: int, beta: float) -> float:
    """log Z of the periodic Ising lattice, with 50 digits.

    Kaufman, Phys. Rev. 76, 1232 (1949): Z = 1/2 (2 sinh 2 beta)^(rows columns / 2) (prod 2 cosh(rows g_odd / 2) + prod
    2 sinh(rows g_odd / 2) + prod 2 cosh(rows g_even / 2) + prod 2 sinh(rows g_even / 2)).
    """
    with mpmath.workdps(50 + rows * columns // 100):
        b = mpmath.mpf(beta)
        gamma = [2 * b + mpmath.log(mpmath.tanh(b))]
        for k in range(1, 2 * columns):
            gamma.append(mpmath.acosh(mpmath.cosh(2 * b) * mpmath.coth(2 * b) - mpmath.cos(mpmath.pi * k / columns)))
        total = mpmath.mpf(0)
        for function, first in ((mpmath.cosh, 1), (mpmath.sinh, 1), (mpmath.cosh, 0), (mpmath.sinh, 0)):
            total += mpmath.fprod(2 * function(rows * g / 2) for g in gamma[first::2])
        return float(rows * columns * mpmath.log(2 * mpmath.sinh(2 * b)) / 2 + mpmath.log(total / 2))


def three_pattern_log_z(patterns: Sequence[Sequence[int]], beta: float) -> float:
    """log Z of the Hopfield machine W_ij = sum_mu x_i x_j / n (no self-coupling) of three patterns.

    In the gauge of the first pattern its energy depends on the sums of the spins of four classes of units, those that
    share their two other entries.
    """
    first, second, third = patterns
    n = len(first)
    classes: dict[tuple[int, int], int] = {}
    for a, b, c in zip(first, second, third, strict=True):
        classes[a * b, a * c] = classes.get((a * b, a * c), 0) + 1
    signs = [(1, *pair) for pair in classes]
    levels = [
        [
            (2 * up - size, math.lgamma(size + 1) - math.lgamma(up + 1) - math.lgamma(size - up + 1))
            for up in range(size + 1)
        ]
        for size in classes.values()
    ]
    largest, total = -math.inf, 0.0
    for states in itertools.product(*levels[:-1]):
        known = math.fsum(log for _, log in states)
        overlaps = [sum(sign[mu] * m for sign, (m, _) in zip(signs, states, strict=False)) for mu in range(3)]
        last = signs[-1]
        for m, log in levels[-1]:
            square = sum((overlaps[mu] + last[mu] * m) ** 2 for mu in range(3))
            term = known + log + beta * (square / n - 3) / 2
            if term > largest:
                total, largest = total * math.exp(largest - term) + 1.0, term
            else:
                total += math.exp(term - largest)
    return largest + math.log(total)
