"""Slow, readable twins of variable elimination, and other ways to the same sums. Nothing of fastbm is imported here.

A machine is (weights, bias, units): a symmetric matrix, a vector, and "spin" (-1, +1) or "binary" (0, 1).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

VALUES = {"spin": (-1, 1), "binary": (0, 1)}


class Step(NamedTuple):
    """A unit summed out; tables map the bits of the scope (1: up) to numbers."""

    unit: int
    scope: tuple[int, ...]
    message: dict[tuple[int, ...], float]
    chance: dict[tuple[int, ...], float]
    mean: dict[tuple[int, ...], float]
    variance: dict[tuple[int, ...], float]


def eliminate(weights: np.ndarray, bias: Sequence[float], units: str, beta: float, order: Sequence[int]) -> list[Step]:
    """Sum out units in the given order, in terms of energies relative to all units down.

    A message is log sum exp(-beta E) of what has been summed out, given the scope; a chance is P(unit up | scope), mean
    and variance are those of the energy that has been summed out.
    """
    n = len(bias)
    lo, hi = VALUES[units]
    span = hi - lo
    a = [span * (bias[i] + lo * sum(weights[i][j] for j in range(n))) for i in range(n)]
    place = {unit: k for k, unit in enumerate(order)}
    steps: list[Step] = []
    for unit in order:
        own = [j for j in range(n) if weights[unit][j] != 0 and place[j] > place[unit]]
        children = [step for step in steps if step.scope and step.scope[0] == unit]
        scope = tuple(sorted({*own, *(j for c in children for j in c.scope)} - {unit}, key=lambda j: place[j]))
        tables: tuple[dict, dict, dict, dict] = ({}, {}, {}, {})
        for bits in itertools.product((0, 1), repeat=len(scope)):
            up = dict(zip(scope, bits, strict=True))
            found = []
            for x in (0, 1):
                up[unit] = x
                energy = -x * (a[unit] + sum(span**2 * weights[unit][j] * up[j] for j in own))
                keys = [tuple(up[j] for j in c.scope) for c in children]
                message = -beta * energy + sum(c.message[key] for c, key in zip(children, keys, strict=True))
                mean = energy + sum(c.mean[key] for c, key in zip(children, keys, strict=True))
                found.append((message, mean, sum(c.variance[key] for c, key in zip(children, keys, strict=True))))
            down, high = found
            p = 1 / (1 + math.exp(down[0] - high[0]))
            tables[0][bits] = max(down[0], high[0]) + math.log1p(math.exp(-abs(down[0] - high[0])))
            tables[1][bits] = p
            tables[2][bits] = mean = (1 - p) * down[1] + p * high[1]
            tables[3][bits] = sum(w * (v + (m - mean) ** 2) for w, (_, m, v) in ((1 - p, down), (p, high)))
        steps.append(Step(unit, scope, *tables))
    return steps


def draw(steps: Sequence[Step], words: Iterator[int]) -> list[int]:
    """Draw the bits of all units from the last step to the first, two words each: 53 bits, upper ones first."""
    bits = [0] * len(steps)
    for step in reversed(steps):
        upper, lower = next(words), next(words)
        u = ((upper << 21) | (lower >> 11)) / 2**53
        bits[step.unit] = int(u < step.chance[tuple(bits[j] for j in step.scope)])
    return bits


class Sums(NamedTuple):
    """log Z, P(i up), P(i and j up), <E> and the variance of E."""

    log_z: float
    up: np.ndarray
    pairs: np.ndarray
    energy: float
    energy_variance: float


def enumerate_all(weights: np.ndarray, bias: np.ndarray, units: str, beta: float) -> Sums:
    """Sum over all states at once, in float64."""
    n = len(bias)
    lo, hi = VALUES[units]
    up = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(float)
    states = lo + (hi - lo) * up
    energies = -0.5 * ((states @ weights) * states).sum(axis=1) - states @ bias
    heights = -beta * energies
    log_z = heights.max() + math.log(np.exp(heights - heights.max()).sum())
    p = np.exp(heights - log_z)
    energy = float(p @ energies)
    return Sums(log_z, p @ up, up.T @ (p[:, None] * up), energy, float(p @ (energies - energy) ** 2))


def transfer_log_z(rows: int, columns: int, beta: float, *, wrapped: bool) -> float:
    """log Z of spins on a lattice, J = 1, open from row to row and open or wrapped along the rows, by the transfer
    matrix of whole rows.
    """
    states = 1 - 2 * (np.arange(2**columns)[:, None] >> np.arange(columns) & 1)
    inside = (states[:, :-1] * states[:, 1:]).sum(axis=1) + (states[:, 0] * states[:, -1] if wrapped else 0)
    matrix = np.exp(beta * (states @ states.T - columns))
    weight = np.exp(beta * (inside - columns))
    vector, log = weight.copy(), beta * columns
    for _ in range(rows - 1):
        vector = weight * (matrix @ vector)
        log += math.log(vector.max()) + 2 * beta * columns
        vector /= vector.max()
    return log + math.log(vector.sum())


def believe(
    parents: Sequence[int], couplings: Sequence[float], bias: Sequence[float], beta: float
) -> tuple[float, list[float], list[float]]:
    """Belief propagation for spins on a tree, unit k > 0 being coupled to parents[k] < k by couplings[k].

    Return log Z, <s_k> of all units, and <s_k s_parent> of all but the first.
    """
    n = len(bias)
    fields = [beta * b for b in bias]  # with all that comes from later units
    cavity, log_z = [0.0] * n, 0.0
    for k in range(n - 1, 0, -1):
        j, h = beta * couplings[k], fields[k]
        plus, minus = _log_2cosh(h + j), _log_2cosh(h - j)
        cavity[k] = (plus - minus) / 2
        log_z += (plus + minus) / 2
        fields[parents[k]] += cavity[k]
    log_z += _log_2cosh(fields[0])
    whole = fields[:]  # with what comes from the parent too
    means, products = [math.tanh(fields[0])] * n, [1.0] * n
    for k in range(1, n):
        j, away = beta * couplings[k], whole[parents[k]] - cavity[k]
        logs = {(s, t): j * s * t + fields[k] * s + away * t for s in (-1, 1) for t in (-1, 1)}
        top = max(logs.values())
        total = sum(math.exp(x - top) for x in logs.values())
        p = {key: math.exp(x - top) / total for key, x in logs.items()}
        means[k] = sum(s * w for (s, _), w in p.items())
        products[k] = sum(s * t * w for (s, t), w in p.items())
        whole[k] = fields[k] + (_log_2cosh(away + j) - _log_2cosh(away - j)) / 2
    return log_z, means, products


def _log_2cosh(x: float) -> float:
    return abs(x) + math.log1p(math.exp(-2 * abs(x)))
