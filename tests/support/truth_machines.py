"""Machines that mislead estimators, small enough to be summed, and their exact values; nothing of fastbm is used here.

All sums are in float64 over whole tables: 2^n states, or 2^h states of the hidden layer where the visible units are
independent given these.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np


class Nasty(NamedTuple):
    """A machine: a symmetric matrix, or the one block of a restricted machine; biases, visible ones first."""

    weights: np.ndarray
    bias: np.ndarray
    units: str = "spin"
    beta: float = 1.0

    @property
    def is_restricted(self) -> bool:
        return len(self.weights) != len(self.bias)

    @property
    def is_even(self) -> bool:
        """Whether a flip of all spins changes nothing, so that all means are 0."""
        return self.units == "spin" and not self.bias.any()


class Exact(NamedTuple):
    """What every estimator is held against; `order` is the mean of |m|, m the mean of the units."""

    log_z: float
    energy: float
    mean: np.ndarray
    order: float


def _pairs(n: int, coupling: float) -> np.ndarray:
    return coupling * (1.0 - np.eye(n))


def _hopfield(patterns: np.ndarray, coupling: float) -> np.ndarray:
    weights = coupling * patterns.T @ patterns
    np.fill_diagonal(weights, 0.0)
    return weights


def _torus(rows: int, columns: int) -> np.ndarray:
    weights = np.zeros((rows * columns,) * 2)
    for a in range(rows):
        for b in range(columns):
            for other in ((a + 1) % rows * columns + b, a * columns + (b + 1) % columns):
                weights[a * columns + b, other] = weights[other, a * columns + b] = 1.0
    return weights


def _normal(n: int, scale: float, seed: int) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).normal(scale=scale, size=(n, n)), 1)
    return upper + upper.T


def _frozen() -> Nasty:
    return Nasty(_normal(8, 0.4, 1), np.array([12.0, *np.zeros(7)]))


def _restricted() -> Nasty:
    generator = np.random.default_rng(2)
    block, bias = generator.normal(scale=3.0, size=(6, 4)), generator.normal(scale=2.0, size=10)
    return Nasty(block, bias, "binary")


PATTERNS = np.array([[1, 1, 1, 1, 1, -1, -1, -1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1, 1, -1]], float)
MACHINES: dict[str, Nasty] = {
    "two valleys": Nasty(_pairs(10, 0.5), np.full(10, 0.03)),
    "ferromagnet": Nasty(_pairs(8, 0.8), np.zeros(8)),
    "two patterns": Nasty(_hopfield(PATTERNS, 0.4), np.zeros(10)),
    "frustrated": Nasty(_pairs(9, -0.7), np.zeros(9)),
    "critical": Nasty(_torus(3, 4), np.zeros(12), beta=0.4407),
    "glass": Nasty(_normal(12, 12**-0.5, 3), np.zeros(12), beta=2.0),
    "rare state": Nasty(np.zeros((4, 4)), np.full(4, -9.0), "binary"),
    "two units": Nasty(_pairs(2, 1.0), np.array([0.3, -0.2])),
    "frozen unit": _frozen(),
    "strong biases": Nasty(_normal(10, 1.5, 4), np.full(10, -4.0), "binary"),
    "restricted": _restricted(),
    "hidden valley": Nasty(np.full((60, 1), 5.0), np.array([*np.full(60, -1.0), -210.0]), "binary"),
}


def _states(n: int, units: str) -> np.ndarray:
    up = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1
    return up.astype(float) if units == "binary" else 2.0 * up - 1.0


@functools.cache
def exact(name: str) -> Exact:
    """Sum a machine."""
    machine = MACHINES[name]
    return _exact_restricted(machine) if machine.is_restricted else _exact_dense(machine)


def _exact_dense(machine: Nasty) -> Exact:
    states = _states(len(machine.bias), machine.units)
    energies = -0.5 * ((states @ machine.weights) * states).sum(axis=1) - states @ machine.bias
    log_z = np.logaddexp.reduce(-machine.beta * energies)
    p = np.exp(-machine.beta * energies - log_z)
    return Exact(float(log_z), float(p @ energies), p @ states, float(p @ np.abs(states.mean(axis=1))))


def _exact_restricted(machine: Nasty) -> Exact:
    """By the states h of the hidden layer; given h every binary visible unit i is up with log-odds b_i + (W h)_i.

    The mean of the units is at least 0, so `order` is its mean.
    """
    n_visible, n_hidden = machine.weights.shape
    assert (machine.units, machine.beta) == ("binary", 1.0)
    hidden = _states(n_hidden, "binary")
    fields = hidden @ machine.weights.T + machine.bias[:n_visible]
    own = hidden @ machine.bias[n_visible:]
    log_p = own + np.logaddexp(0.0, fields).sum(axis=1)
    log_z = np.logaddexp.reduce(log_p)
    p, up = np.exp(log_p - log_z), np.exp(fields - np.logaddexp(0.0, fields))
    mean = np.concatenate([p @ up, p @ hidden])
    return Exact(float(log_z), float(-p @ (own + (up * fields).sum(axis=1))), mean, float(mean.mean()))
