"""Conditional means and draws of a machine, by summing over all states; imports nothing of fastbm."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np


def conditional(
    weights: np.ndarray, bias: np.ndarray, units: str, held: Mapping[int, float], beta: float = 1.0
) -> dict[tuple[int, ...], float]:
    """P(state | the units in `held` have these values), of all whole states that agree with `held`."""
    n, pair = len(bias), (-1, 1) if units == "spin" else (0, 1)
    log_f = {}
    for state in itertools.product(pair, repeat=n):
        if all(state[i] == value for i, value in held.items()):
            energy = -sum(bias[i] * state[i] for i in range(n))
            energy -= sum(weights[i, j] * state[i] * state[j] for i in range(n) for j in range(i))
            log_f[state] = -beta * energy
    top = max(log_f.values())
    z = sum(math.exp(x - top) for x in log_f.values())
    return {state: math.exp(x - top) / z for state, x in log_f.items()}


def conditional_means(
    weights: np.ndarray, bias: np.ndarray, units: str, held: Mapping[int, float], beta: float = 1.0
) -> np.ndarray:
    """<s_i | held> of all units."""
    found = conditional(weights, bias, units, held, beta)
    return np.array([sum(p * state[i] for state, p in found.items()) for i in range(len(bias))])


def mean_field(
    weights: np.ndarray, bias: np.ndarray, held: Mapping[int, float], beta: float, n_sweeps: int = 5000
) -> np.ndarray:
    """The fixed point of m_i = tanh(beta (sum_j W_ij m_j + b_i)) of spins from m = 0, one unit after the other."""
    m = np.zeros(len(bias))
    for i, value in held.items():
        m[i] = value
    for _ in range(n_sweeps):
        for i in range(len(bias)):
            if i not in held:
                m[i] = math.tanh(beta * (float(weights[i] @ m) + bias[i]))
    return m


def round_trip(
    weights: np.ndarray, bias: np.ndarray, units: str, row: np.ndarray, beta: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of E[v | h] where h is drawn given the row."""
    n_visible = len(row)
    given = {i: float(x) for i, x in enumerate(row)}
    first, second = np.zeros(n_visible), np.zeros(n_visible)
    for state, p in conditional(weights, bias, units, given, beta).items():
        above = {i: float(state[i]) for i in range(n_visible, len(bias))}
        m = conditional_means(weights, bias, units, above, beta)[:n_visible]
        first += p * m
        second += p * m * m
    return first, second - first**2
