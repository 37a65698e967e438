"""Slow, readable twins of mean field, of the TAP equations, and of belief propagation, in spin units.

Nothing of fastbm is imported here. A machine is a symmetric matrix (zeros are missing couplings) and a vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath
import numpy as np

Messages = dict[tuple[int, int], float]  # (j, i): what unit j puts on unit i


def field(means: Sequence[float], i: int, weights: np.ndarray, bias: Sequence[float]) -> float:
    """b_i + sum_j W_ij m_j."""
    return float(bias[i]) + math.fsum(float(weights[i][j]) * means[j] for j in range(len(means)))


def onsager(means: Sequence[float], i: int, weights: np.ndarray) -> float:
    """sum_j W_ij^2 (1 - m_j^2)."""
    return math.fsum(float(weights[i][j]) ** 2 * (1 - means[j] ** 2) for j in range(len(means)))


# Mean field


def sweep_mean_field(
    means: list[float], weights: np.ndarray, bias: Sequence[float], beta: float, damping: float, least: float = 0.0
) -> float:
    """Set every mean to damping m + (1 - damping) tanh(beta field), in turn, but for changes of up to `least`.

    Mutates `means`; returns the largest change, made or left.
    """
    largest = 0.0
    for i in range(len(means)):
        step = (1 - damping) * (math.tanh(beta * field(means, i, weights, bias)) - means[i])
        largest = max(largest, abs(step))
        if abs(step) > least:
            means[i] += step
    return largest


def mean_field_residual(means: Sequence[float], weights: np.ndarray, bias: Sequence[float], beta: float) -> float:
    """max |tanh(beta field) - m|."""
    return max(abs(math.tanh(beta * field(means, i, weights, bias)) - means[i]) for i in range(len(means)))


def entropy(means: Sequence[float]) -> float:
    """Entropy of independent spins."""
    halves = [(1 + sign * m) / 2 for m in means for sign in (-1, 1)]
    return -math.fsum(p * math.log(p) for p in halves if p > 0)


def mean_field_log_z(means: Sequence[float], weights: np.ndarray, bias: Sequence[float], beta: float) -> float:
    """S(m) - beta E(m)."""
    n = len(means)
    pairs = math.fsum(float(weights[i][j]) * means[i] * means[j] for i in range(n) for j in range(i))
    return entropy(means) + beta * (pairs + math.fsum(float(bias[i]) * means[i] for i in range(n)))


# TAP


def solve_unit(x: float, q: float) -> float:
    """The u with u + q tanh u = x, by bisection."""
    low, high = min(x, 0.0), max(x, 0.0)
    for _ in range(200):
        middle = (low + high) / 2
        if middle + q * math.tanh(middle) < x:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def sweep_tap(means: list[float], weights: np.ndarray, bias: Sequence[float], beta: float, damping: float) -> float:
    """Solve for every mean in turn, the others held. Mutates `means`; returns the largest change."""
    largest = 0.0
    for i in range(len(means)):
        u = solve_unit(beta * field(means, i, weights, bias), beta**2 * onsager(means, i, weights))
        step = (1 - damping) * (math.tanh(u) - means[i])
        largest, means[i] = max(largest, abs(step)), means[i] + step
    return largest


def tap_residual(means: Sequence[float], weights: np.ndarray, bias: Sequence[float], beta: float) -> float:
    """max |tanh(beta field_i - beta^2 m_i sum_j W_ij^2 (1 - m_j^2)) - m_i|."""
    found = (
        math.tanh(beta * field(means, i, weights, bias) - beta**2 * means[i] * onsager(means, i, weights)) - means[i]
        for i in range(len(means))
    )
    return max(map(abs, found))


def tap_log_z(means: Sequence[float], weights: np.ndarray, bias: Sequence[float], beta: float) -> float:
    """Mean field's log Z plus beta^2 / 4 sum_ij W_ij^2 (1 - m_i^2) (1 - m_j^2)."""
    pairs = math.fsum((1 - means[i] ** 2) * onsager(means, i, weights) for i in range(len(means)))
    return mean_field_log_z(means, weights, bias, beta) + beta**2 / 4 * pairs


# Beliefs


def neighbours(weights: np.ndarray, i: int) -> list[int]:
    return [j for j in range(len(weights)) if weights[i][j] != 0.0]


def atanh_product(x: float, y: float) -> float:
    """atanh(tanh x tanh y), with 50 digits beyond what x and y make of 1."""
    with mpmath.workdps(60 + int(2 * min(abs(x), abs(y)))):
        return float(mpmath.atanh(mpmath.tanh(x) * mpmath.tanh(y)))


def sweep_beliefs(
    messages: Messages, weights: np.ndarray, bias: Sequence[float], beta: float, order: Sequence[int], damping: float
) -> float:
    """Send the messages of all units in turn. Mutates `messages`; the largest |new - old| / (1 + |new|)."""
    largest = 0.0
    for i in order:
        total = beta * float(bias[i]) + sum(messages[j, i] for j in neighbours(weights, i))
        for j in neighbours(weights, i):
            new = atanh_product(beta * float(weights[i][j]), total - messages[j, i])
            largest = max(largest, abs(new - messages[i, j]) / (1 + abs(new)))
            messages[i, j] = damping * messages[i, j] + (1 - damping) * new
    return largest


def bethe_log_z(messages: Messages, weights: np.ndarray, bias: Sequence[float], beta: float) -> float:
    """sum_i log Z_i - sum over edges of log Z_ij, by sums over the states of one and of two spins."""
    n = len(weights)
    total = [beta * float(bias[i]) + sum(messages[j, i] for j in neighbours(weights, i)) for i in range(n)]

    def cavity(i: int, j: int) -> float:
        return total[i] - messages[j, i]

    def p(i: int, j: int, s: int) -> float:
        return math.exp(cavity(i, j) * s) / (2 * math.cosh(cavity(i, j)))

    log_z = 0.0
    for i in range(n):
        ways = 0.0
        for s in (-1, 1):
            product = math.exp(beta * float(bias[i]) * s)
            for j in neighbours(weights, i):
                product *= sum(math.exp(beta * float(weights[i][j]) * s * t) * p(j, i, t) for t in (-1, 1))
            ways += product
        log_z += math.log(ways)
        for j in neighbours(weights, i):
            if j < i:
                pairs = [(s, t) for s in (-1, 1) for t in (-1, 1)]
                bond = beta * float(weights[i][j])
                log_z -= math.log(sum(math.exp(bond * s * t) * p(i, j, s) * p(j, i, t) for s, t in pairs))
    return log_z


def tree_log_z(weights: np.ndarray, bias: Sequence[float], beta: float) -> float:
    """log Z of a forest, leaf after leaf summed out into its only neighbour's field."""
    edges = {i: {j: beta * float(weights[i][j]) for j in neighbours(weights, i)} for i in range(len(weights))}
    fields = [mpmath.mpf(beta * float(b)) for b in bias]
    leaves = [i for i in edges if len(edges[i]) <= 1]
    log_z = mpmath.mpf(0)
    with mpmath.workdps(50):
        while leaves:
            i = leaves.pop()
            if i not in edges:
                continue
            if not edges[i]:
                log_z += mpmath.log(2 * mpmath.cosh(fields[i]))
            else:
                ((j, bond),) = edges[i].items()
                up, down = mpmath.cosh(fields[i] + bond), mpmath.cosh(fields[i] - bond)
                log_z += mpmath.log(4 * up * down) / 2
                fields[j] += mpmath.log(up / down) / 2
                del edges[j][i]
                if len(edges[j]) <= 1:
                    leaves.append(j)
            del edges[i]
        return float(log_z)


def ring_log_z(n: int, coupling: float, bias: float, beta: float) -> float:
    """n times the log of the transfer matrix's largest eigenvalue: what Bethe makes of a uniform ring."""
    pairs = [[math.exp(beta * (coupling * s * t + bias * (s + t) / 2)) for t in (-1, 1)] for s in (-1, 1)]
    return n * math.log(max(np.linalg.eigvalsh(np.array(pairs))))
