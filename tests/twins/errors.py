"""Slow, readable twins of error bars: loops over all states, nothing of fastbm.

A machine is (weights, bias, units): a symmetric matrix, a vector, and "spin" (-1, +1) or "binary" (0, 1); parameters
are one for each of `pairs`, in their order, then the biases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

VALUES = {"spin": (-1, 1), "binary": (0, 1)}
Pairs = Sequence[tuple[int, int]]


def statistics(state: Sequence[int], pairs: Pairs) -> list[int]:
    """s_i s_j of the pairs, then s_i."""
    return [state[i] * state[j] for i, j in pairs] + list(state)


def log_sum(terms: Sequence[float]) -> float:
    """log of the sum of exp of terms."""
    top = max(terms)
    return top + math.log(math.fsum(math.exp(term - top) for term in terms))


def visible_log_p(theta: np.ndarray, pairs: Pairs, n_units: int, n_visible: int, units: str, beta: float) -> np.ndarray:
    """log p(v) of all states of the visible units, in the order of `itertools.product`."""
    theta = list(theta)
    exponents: dict[tuple[int, ...], list[float]] = {}
    for state in itertools.product(VALUES[units], repeat=n_units):
        exponent = beta * math.fsum(t * phi for t, phi in zip(theta, statistics(state, pairs), strict=True))
        exponents.setdefault(state[:n_visible], []).append(exponent)
    sums = [log_sum(terms) for terms in exponents.values()]
    log_z = log_sum(sums)
    return np.array([each - log_z for each in sums])


def covariance(theta: np.ndarray, pairs: Pairs, n_units: int, units: str, beta: float) -> np.ndarray:
    """Cov(phi) over all states, all of them visible."""
    log_p = visible_log_p(theta, pairs, n_units, n_units, units, beta)
    mean, second = 0.0, 0.0
    for log_weight, state in zip(log_p, itertools.product(VALUES[units], repeat=n_units), strict=True):
        phi = np.array(statistics(state, pairs), float)
        mean = mean + math.exp(log_weight) * phi
        second = second + math.exp(log_weight) * np.outer(phi, phi)
    return second - np.outer(mean, mean)


def hessian(function: Callable[[np.ndarray], float], theta: np.ndarray, step: float = 2e-3) -> np.ndarray:
    """Second derivatives by central differences of two steps, extrapolated to an error of the step's fourth power."""

    def plain(h: float) -> np.ndarray:
        found = np.empty((len(theta),) * 2)
        for a, b in itertools.combinations_with_replacement(range(len(theta)), 2):
            total = 0.0
            for x, y in itertools.product((-1, 1), repeat=2):
                moved = np.array(theta, float)
                moved[a] += x * h
                moved[b] += y * h
                total += x * y * function(moved)
            found[a, b] = found[b, a] = total / (4 * h * h)
        return found

    return (4 * plain(step) - plain(2 * step)) / 3


def standard_errors(information: np.ndarray, penalty: np.ndarray, n_rows: int) -> np.ndarray:
    """Square roots of the diagonal of (F + P)^-1 F (F + P)^-1 / n_rows."""
    bread = np.linalg.inv(information + np.diag(penalty))
    return np.sqrt(np.diag(bread @ information @ bread) / n_rows)


def bootstrap(estimates: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, by two passes."""
    mean = [math.fsum(column) / len(column) for column in estimates.T]
    squares = [math.fsum((x - m) ** 2 for x in column) for m, column in zip(mean, estimates.T, strict=True)]
    return np.sqrt(np.array(squares) / (len(estimates) - 1))


def directions_never_seen(mean: Sequence[float], pairs: Pairs, units: str, least: float) -> list[set[int]]:
    """For every state of a unit or a pair that is rarer than `least`: the parameters that its indicator is made of.

    The indicator of a value a of a unit is (s - other) / (a - other), with other the other value; products of two are
    multiplied out.
    """
    n_units = len(mean) - len(pairs)
    values = VALUES[units]
    found = []

    def factor(a: int) -> tuple[float, float]:
        """Constant and slope of the indicator of value a."""
        other = sum(values) - a
        return -other / (a - other), 1 / (a - other)

    for a in values:
        constant, slope = factor(a)
        for i in range(n_units):
            if constant + slope * mean[len(pairs) + i] < least:
                found.append({len(pairs) + i})
    for a, b in itertools.product(values, repeat=2):
        (c, x), (d, y) = factor(a), factor(b)
        for k, (i, j) in enumerate(pairs):
            terms = {k: x * y, len(pairs) + i: x * d, len(pairs) + j: c * y}
            if c * d + sum(t * mean[p] for p, t in terms.items()) < least:
                found.append({p for p, t in terms.items() if t})
    return found
