"""Slow, readable twins of moments and of the closed forms that turn them into couplings; nothing of fastbm is used.

Spins at beta = 1 throughout: P(s) ~ exp(1/2 s^T W s + b^T s).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import atanh, exp, log, sqrt

import numpy as np


def distribution(weights: np.ndarray, bias: np.ndarray) -> tuple[dict[tuple[int, ...], float], float]:
    """The probability of every state, and log Z."""
    n = len(bias)
    exponents = {}
    for state in itertools.product((-1, 1), repeat=n):
        pairs = sum(weights[i, j] * state[i] * state[j] for i in range(n) for j in range(i))
        exponents[state] = pairs + sum(bias[i] * state[i] for i in range(n))
    log_z = float(np.logaddexp.reduce(list(exponents.values())))
    return {state: exp(x - log_z) for state, x in exponents.items()}, log_z


def moments(table: dict[tuple[int, ...], float]) -> tuple[np.ndarray, np.ndarray]:
    """<s_i> and <s_i s_j> of a table of probabilities."""
    n = len(next(iter(table)))
    mean = [sum(p * s[i] for s, p in table.items()) for i in range(n)]
    second = [[sum(p * s[i] * s[j] for s, p in table.items()) for j in range(n)] for i in range(n)]
    return np.array(mean), np.array(second)


def flip(table: dict[tuple[int, ...], float], eps: float) -> dict[tuple[int, ...], float]:
    """The table after each spin has been flipped with probability `eps`."""
    found = dict.fromkeys(table, 0.0)
    for state, p in table.items():
        for signs in itertools.product((1, -1), repeat=len(state)):
            chance = np.prod([eps if sign < 0 else 1 - eps for sign in signs])
            found[tuple(s * sign for s, sign in zip(state, signs, strict=True))] += p * float(chance)
    return found


def average(rows: Sequence[Sequence[float]], weights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Weighted means and second moments of rows."""
    n, total = len(rows[0]), sum(weights)
    mean = [sum(w * row[i] for row, w in zip(rows, weights, strict=True)) / total for i in range(n)]
    second = [
        [sum(w * row[i] * row[j] for row, w in zip(rows, weights, strict=True)) / total for j in range(n)]
        for i in range(n)
    ]
    return np.array(mean), np.array(second)


def entropy(mean: Sequence[float]) -> float:
    """Of independent spins."""
    return -sum(p * log(p) for m in mean for p in ((1 + m) / 2, (1 - m) / 2))


def pair_entropy(mean_i: float, mean_j: float, second: float) -> float:
    """Of the four states of two spins."""
    cells = [(1 + s * mean_i + t * mean_j + s * t * second) / 4 for s in (1, -1) for t in (1, -1)]
    return -sum(p * log(p) for p in cells)


def entropy_of_pairs(mean: np.ndarray, second: np.ndarray) -> float:
    """S(m) + sum_(i<j) (S_ij - S_i - S_j)."""
    n = len(mean)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    excess = sum(pair_entropy(mean[i], mean[j], second[i, j]) - entropy([mean[i], mean[j]]) for i, j in pairs)
    return entropy(mean) + excess


def entropy_of_expansion(mean: np.ndarray, second: np.ndarray) -> float:
    """Pairs, and rings of units, less the rings of two."""
    n = len(mean)
    size = [sqrt(1 - m * m) for m in mean]
    c = np.array([[1.0 if i == j else (second[i, j] - mean[i] * mean[j]) / size[i] / size[j] for j in range(n)]
                  for i in range(n)])  # fmt: skip
    rings = 0.5 * log(float(np.linalg.det(c)))
    twos = sum(0.5 * log(1 - c[i, j] ** 2) for i in range(n) for j in range(i))
    return entropy_of_pairs(mean, second) + rings - twos


def of_entropy(
    function: Callable[[np.ndarray, np.ndarray], float], mean: np.ndarray, second: np.ndarray, step: float = 1e-4
) -> tuple[np.ndarray, np.ndarray, float]:
    """W = -dS/d<s_i s_j>, b = -dS/d<s_i> by differences, and log Z = S + sum W <s s> + sum b <s>."""
    n = len(mean)
    weights, bias = np.zeros((n, n)), np.zeros(n)
    for i in range(n):
        values = []
        for h in (step, -step):
            moved = mean.copy()
            moved[i] += h
            values.append(function(moved, second))
        bias[i] = -(values[0] - values[1]) / (2 * step)
        for j in range(i):
            values = []
            for h in (step, -step):
                turned = second.copy()
                turned[i, j] = turned[j, i] = second[i, j] + h
                values.append(function(mean, turned))
            weights[i, j] = weights[j, i] = -(values[0] - values[1]) / (2 * step)
    pairs = sum(weights[i, j] * second[i, j] for i in range(n) for j in range(i))
    return weights, bias, function(mean, second) + pairs + float(bias @ mean)


def independent_pair(mean: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Each pair as if it were alone."""
    return of_entropy(entropy_of_pairs, mean, second)


def sessak_monasson(mean: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The expansion in small correlations."""
    return of_entropy(entropy_of_expansion, mean, second)


def naive_mean_field(mean: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """With the diagonal of W in biases and log Z, though W is returned without it."""
    n = len(mean)
    inverse = np.linalg.inv(second - np.outer(mean, mean))
    w = [[(1 / (1 - mean[i] ** 2) if i == j else 0.0) - inverse[i, j] for j in range(n)] for i in range(n)]
    bias = [atanh(mean[i]) - sum(w[i][j] * mean[j] for j in range(n)) for i in range(n)]
    energy = -sum(0.5 * w[i][j] * mean[i] * mean[j] for i in range(n) for j in range(n))
    energy -= sum(bias[i] * mean[i] for i in range(n))
    return np.array(w) - np.diag(np.diagonal(w)), np.array(bias), entropy(mean) - energy


def tap(mean: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The root of 2 m_i m_j W^2 + W + (C^-1)_ij = 0 that is nearest to 0."""
    n = len(mean)
    inverse = np.linalg.inv(second - np.outer(mean, mean))
    w = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j:
                w[i, j] = min(np.roots([2 * mean[i] * mean[j], 1.0, inverse[i, j]]), key=abs)
    free = [1 - m * m for m in mean]
    bias, log_z = np.zeros(n), entropy(mean)
    for i in range(n):
        reaction = mean[i] * sum(w[i, j] ** 2 * free[j] for j in range(n))
        bias[i] = atanh(mean[i]) - sum(w[i, j] * mean[j] for j in range(n)) + reaction
        log_z += bias[i] * mean[i]
        log_z += sum(w[i, j] * mean[i] * mean[j] + 0.5 * w[i, j] ** 2 * free[i] * free[j] for j in range(i))
    return w, bias, log_z


def bethe(mean: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Ricci-Tersenghi's closed form for W, and the cavity form of the biases."""
    n = len(mean)
    inverse = np.linalg.inv(second - np.outer(mean, mean))
    w, bias = np.zeros((n, n)), np.array([atanh(m) for m in mean])
    log_z = entropy(mean)
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            a, product = inverse[i, j], mean[i] * mean[j]
            root = sqrt(1 + 4 * (1 - mean[i] ** 2) * (1 - mean[j] ** 2) * a * a)
            other = sqrt((root - 2 * product * a) ** 2 - 4 * a * a)
            w[i, j] = -atanh(root / (2 * a) - product - other / (2 * a))
            t = np.tanh(w[i, j])
            gap = (1 - t * t) ** 2 - 4 * t * (mean[i] - mean[j] * t) * (mean[j] - mean[i] * t)
            cavity = (1 - t * t - sqrt(gap)) / (2 * t * (mean[i] - mean[j] * t))
            bias[i] -= atanh(t * cavity)
            if j < i:
                pair = product + (1 - root) / (2 * a)
                log_z += pair_entropy(mean[i], mean[j], pair) - entropy([mean[i], mean[j]]) + w[i, j] * pair
    return w, bias, log_z + float(bias @ mean)
