"""Slow, readable twins of the comparison of a machine with data: loops over states, units, pairs and triples."""

from __future__ import annotations

import itertools
import math

import numpy as np


def count_triples(bits: np.ndarray, triples: np.ndarray) -> np.ndarray:
    """Rows of bits (m, n_units) in which all three units of a triple are up."""
    return np.array([sum(int(row[i] and row[j] and row[k]) for row in bits) for i, j, k in triples], np.int64)


def weighted_moments(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """<s_i>, <s_i s_j>, <ds_i ds_j>, <ds_i ds_j ds_k> and P(K) of rows with probabilities `weights`."""
    n = values.shape[1]
    mean = np.array([sum(w * row[i] for w, row in zip(weights, values, strict=True)) for i in range(n)])
    d = values - mean
    pairs, triples = list(itertools.combinations(range(n), 2)), list(itertools.combinations(range(n), 3))
    population = np.zeros(n + 1)
    for w, row in zip(weights, values, strict=True):
        population[sum(x == 1 for x in row)] += w
    return {
        "mean": mean,
        "second_moment": np.array([weights @ (values[:, i] * values[:, j]) for i, j in pairs]),
        "covariance": np.array([weights @ (d[:, i] * d[:, j]) for i, j in pairs]),
        "triple": np.array([weights @ (d[:, i] * d[:, j] * d[:, k]) for i, j, k in triples]),
        "population": population,
    }


def influence_variances(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """Variance of each moment of independent rows: sum over rows of the square of what a row's weight moves it by, by
    the definition of the influence function as the derivative of the moment when a little weight moves to one row.
    """
    step = 1e-6
    base = weighted_moments(values, weights)
    slopes: dict[str, list[np.ndarray]] = {name: [] for name in base}
    for r in range(len(values)):
        for_row = np.zeros(len(values))
        for_row[r] = 1.0
        up = weighted_moments(values, (1 - step) * weights + step * for_row)
        down = weighted_moments(values, (1 + step) * weights - step * for_row)
        for name in base:
            slopes[name].append((up[name] - down[name]) / (2 * step))
    return {name: weights**2 @ np.array(found) ** 2 for name, found in slopes.items()}


def unseen(values: np.ndarray, weights: np.ndarray) -> dict[str, np.ndarray]:
    """n times the variance of each moment for two rows more of every outcome, or joint state, that it tells apart."""
    outcomes, n = np.unique(values), values.shape[1]
    mean, population = weights @ values, weighted_moments(values, weights)["population"]

    def squares(units: tuple[int, ...]) -> float:
        states = itertools.product(outcomes, repeat=len(units))
        return sum(2 * math.prod((x - mean[i]) ** 2 for i, x in zip(units, state, strict=True)) for state in states)

    def of_products(i: int, j: int) -> float:
        product = values[:, i] * values[:, j]
        return sum(2 * (x - weights @ product) ** 2 for x in outcomes)

    pairs = list(itertools.combinations(range(n), 2))
    return {
        "mean": np.array([squares((i,)) for i in range(n)]),
        "second_moment": np.array([of_products(i, j) for i, j in pairs]),
        "covariance": np.array([squares(pair) for pair in pairs]),
        "triple": np.array([squares(triple) for triple in itertools.combinations(range(n), 3)]),
        "population": np.array([2 * (f**2 + (1 - f) ** 2) for f in population]),
    }


def states_of(n: int, lo: int) -> np.ndarray:
    """All 2^n states."""
    return np.array(list(itertools.product((lo, 1), repeat=n)), float)


def visible_probabilities(
    weights: np.ndarray, bias: np.ndarray, lo: int, n_visible: int, beta: float
) -> tuple[np.ndarray, np.ndarray]:
    """All visible states and their probabilities, hidden units summed one state at a time."""
    n = len(bias)
    states = states_of(n, lo)
    p = np.array([math.exp(-beta * (-0.5 * s @ weights @ s - bias @ s)) for s in states])
    p /= p.sum()
    return states[:: 1 << (n - n_visible), :n_visible], p.reshape(1 << n_visible, -1).sum(axis=1)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Jensen-Shannon divergence in nats."""
    total = 0.0
    for a, b in zip(p, q, strict=True):
        m = (a + b) / 2
        total += 0.5 * (a * math.log(a / m) if a else 0.0) + 0.5 * (b * math.log(b / m) if b else 0.0)
    return total


def degenerate_pairs(bits: np.ndarray) -> dict[str, list[tuple[int, int]]]:
    """Pairs of units that change, sorted by which of their four joint states never occur."""
    changing = [i for i in range(bits.shape[1]) if 0 < bits[:, i].sum() < len(bits)]
    found: dict[str, list[tuple[int, int]]] = {"11": [], "00": [], "10": [], "01": [], "same": [], "opposite": []}
    for i, j in itertools.combinations(changing, 2):
        seen = {(int(a), int(b)) for a, b in zip(bits[:, i], bits[:, j], strict=True)}
        if seen == {(0, 0), (1, 1)}:
            found["same"].append((i, j))
        elif seen == {(0, 1), (1, 0)}:
            found["opposite"].append((i, j))
        else:
            for a, b in itertools.product((0, 1), repeat=2):
                if (a, b) not in seen:
                    found[f"{a}{b}"].append((i, j))
    return found
