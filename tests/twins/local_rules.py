"""Slow twins of the convex local rules: one row, one unit, one term at a time."""

from __future__ import annotations

import math

import numpy as np


def exponent(weights: np.ndarray, bias: np.ndarray, row: np.ndarray, i: int, units: str, beta: float) -> float:
    """log p(what unit i is) - log p(what it is not), given the others: beta times the energy it costs to flip it."""
    other = -row[i] if units == "spin" else 1 - row[i]
    field = bias[i] + sum(weights[i, j] * row[j] for j in range(len(bias)) if j != i)
    return float(beta * (row[i] - other) * field)


def objective(
    rule: str,
    weights: np.ndarray,
    bias: np.ndarray,
    rows: np.ndarray,
    units: str,
    *,
    beta: float = 1.0,
    row_weights: np.ndarray | None = None,
    l2: float = 0.0,
    l2_bias: float = 0.0,
    l1: float = 0.0,
) -> float:
    """The objective of a rule with its penalties, each pair counted once."""
    n, shares = len(bias), np.ones(len(rows)) if row_weights is None else np.asarray(row_weights, float)
    shares = shares / shares.sum()
    total = 0.0
    for i in range(n):
        losses = 0.0
        for row, share in zip(np.asarray(rows, float), shares, strict=True):
            u = exponent(weights, bias, row, i, units, beta)
            losses += share * (math.log1p(math.exp(-u)) if rule == "pseudolikelihood" else math.exp(-u / 2))
        total += math.log(losses) if rule == "log-rise" else losses
    for i in range(n):
        total += 0.5 * l2_bias * bias[i] ** 2
        for j in range(i):
            total += 0.5 * l2 * weights[i, j] ** 2 + l1 * abs(weights[i, j])
    return total


def flow(weights: np.ndarray, bias: np.ndarray, rows: np.ndarray, units: str, *, beta: float = 1.0) -> float:
    """Minimum probability flow: mean over rows of sum over flips of exp(beta (E - E_flipped) / 2)."""

    def energy(state: np.ndarray) -> float:
        pairs = sum(weights[i, j] * state[i] * state[j] for i in range(len(bias)) for j in range(i))
        return float(-pairs - bias @ state)

    total = 0.0
    for row in np.asarray(rows, float):
        for i in range(len(bias)):
            flipped = row.copy()
            flipped[i] = -row[i] if units == "spin" else 1 - row[i]
            total += math.exp(beta * (energy(row) - energy(flipped)) / 2)
    return total / len(rows)
