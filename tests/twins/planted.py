"""Slow twins of what a comparison of learning rules measures: all states of a few spins, one after the other."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

Matrix = Any


def states(n: int) -> list[tuple[int, ...]]:
    return list(itertools.product((-1, 1), repeat=n))


def log_weight(state: tuple[int, ...], weights: Matrix, bias: Matrix) -> float:
    """-E of spins, each pair counted once."""
    n = len(state)
    pairs = sum(weights[i][j] * state[i] * state[j] for i in range(n) for j in range(i + 1, n))
    return float(pairs + sum(b * s for b, s in zip(bias, state, strict=True)))


def visible_distribution(weights: Matrix, bias: Matrix, n_visible: int) -> dict[tuple[int, ...], float]:
    """The probability of every state of the visible units, at beta = 1."""
    found: dict[tuple[int, ...], float] = {}
    for state in states(len(bias)):
        visible = state[:n_visible]
        found[visible] = found.get(visible, 0.0) + math.exp(log_weight(state, weights, bias))
    z = sum(found.values())
    return {state: value / z for state, value in found.items()}


def gamma(learned: Matrix, planted: Matrix) -> float:
    """sqrt(sum (J - J*)^2 / sum J*^2) over pairs."""
    n = len(planted)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    off = sum((learned[i][j] - planted[i][j]) ** 2 for i, j in pairs)
    return math.sqrt(off / sum(planted[i][j] ** 2 for i, j in pairs))


def moments(p: dict[tuple[int, ...], float]) -> tuple[list[float], list[float]]:
    """Means and second moments of pairs i < j."""
    n = len(next(iter(p)))
    mean = [sum(q * state[i] for state, q in p.items()) for i in range(n)]
    pairs = [sum(q * s[i] * s[j] for s, q in p.items()) for i in range(n) for j in range(i + 1, n)]
    return mean, pairs


def root_mean_square(one: list[float], other: list[float]) -> float:
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) / len(one))


def log_likelihood(p: dict[tuple[int, ...], float], up: np.ndarray) -> float:
    """Mean log-probability of rows of bits."""
    return sum(math.log(p[tuple(2 * int(bit) - 1 for bit in row)]) for row in up) / len(up)
