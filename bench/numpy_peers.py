"""Minimal NumPy peers: the formula of each method, vectorised, and nothing else."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.optimize import minimize

ROWS = 512  # settings of the high units that are summed at a time


def sweep(model: Any, states: np.ndarray, n_sweeps: int, rule: str, seed: int = 1) -> np.ndarray:
    """Sweep spins (n_chains, n_units) at beta = 1, all chains at once, with cached fields."""
    generator = np.random.default_rng(seed)
    states = states.astype(float)
    weights, fields = model.weights, states @ model.weights + model.bias
    for _ in range(n_sweeps):
        for i, uniforms in enumerate(generator.random((model.n_units, len(states)))):
            log_odds = -2.0 * states[:, i] * fields[:, i]
            chance = np.exp(np.minimum(log_odds, 0.0)) if rule == "metropolis" else sigmoid(log_odds)
            chosen = np.flatnonzero(uniforms < chance)
            states[chosen, i] *= -1.0
            fields[chosen] += 2.0 * states[chosen, i, None] * weights[i]
    return states


class Checkerboard:
    """Spins on a lattice of two colours, all chains at once in float32: a colour knows only the other one."""

    def __init__(self, model: Any, colours: tuple[np.ndarray, np.ndarray], n_chains: int, seed: int = 1) -> None:
        self._generator = np.random.default_rng(seed)
        self._colours, place = colours, np.empty(model.n_units, np.int64)
        for sites in colours:
            place[sites] = np.arange(len(sites))
        degree = np.diff(model.weights.indptr)
        assert (degree == degree[0]).all()
        neighbours = place[model.weights.indices.reshape(-1, degree[0])]
        values = model.weights.data.astype(np.float32).reshape(-1, degree[0], 1)
        self._graph = [(neighbours[sites], values[sites]) for sites in colours]
        half = np.float32([-1, 1])
        self._spins = [self._generator.choice(half, (len(sites), n_chains)) for sites in colours]

    def sweep(self, n_sweeps: int, rule: str, beta: float) -> np.ndarray:
        """Sweep all chains; a copy of their states (n_chains, n_units)."""
        for _ in range(n_sweeps):
            for colour in (0, 1):
                for first in range(0, len(self._spins[colour]), ROWS):
                    self._update(colour, slice(first, first + ROWS), rule, np.float32(2 * beta))
        states = np.empty((self._spins[0].shape[1], sum(map(len, self._colours))), np.int8)
        for sites, spins in zip(self._colours, self._spins, strict=True):
            states[:, sites] = spins.T
        return states

    def _update(self, colour: int, rows: slice, rule: str, scale: np.float32) -> None:
        """Update some rows of one colour; so few that they stay in the cache."""
        spins, others = self._spins[colour][rows], self._spins[1 - colour]
        neighbours, values = (part[rows] for part in self._graph[colour])
        field = values[:, 0] * others[neighbours[:, 0]]
        for k in range(1, neighbours.shape[1]):
            field += values[:, k] * others[neighbours[:, k]]
        uniforms = self._generator.random(field.shape, dtype=np.float32)
        if rule == "metropolis":
            spins[uniforms < np.exp(-scale * spins * field)] *= -1
        else:
            spins[:] = np.where(uniforms < sigmoid(scale * field), np.float32(1), np.float32(-1))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def block_gibbs(
    weights: Any, visible_bias: Any, hidden_bias: Any, n_chains: int, n_sweeps: int, seed: int = 1
) -> np.ndarray:
    """Sweep a restricted machine of binary units in float32; states (n_chains, n_visible + n_hidden)."""
    generator = np.random.default_rng(seed)
    weights, visible_bias, hidden_bias = (np.asarray(a, np.float32) for a in (weights, visible_bias, hidden_bias))
    hidden = generator.integers(0, 2, (n_chains, len(hidden_bias))).astype(np.float32)
    for _ in range(n_sweeps):
        visible = draw(generator, hidden @ weights.T + visible_bias)
        hidden = draw(generator, visible @ weights + hidden_bias)
    return np.concatenate([visible, hidden], axis=1)


def draw(generator: np.random.Generator, log_odds: np.ndarray) -> np.ndarray:
    """Bits that are up with the given log-odds."""
    return (generator.random(log_odds.shape, dtype=np.float32) < sigmoid(log_odds)).astype(np.float32)


def enumerate_blocked(weights: np.ndarray, bias: np.ndarray, moments: bool) -> tuple[float, Any, Any]:
    """log Z, means and second moments of spins at beta = 1.

    Exponents of all settings of the high units against all of the low ones are one matrix product, `ROWS` at a time.
    """
    n, k = len(bias), len(bias) // 2
    low, high = spins(k), spins(n - k)
    halves = ((low, weights[:k, :k], bias[:k]), (high, weights[k:, k:], bias[k:]))
    within = [((0.5 * s @ w + b) * s).sum(axis=1) for s, w, b in halves]
    top = within[0].max() + within[1].max() + np.abs(weights[k:, :k]).sum()
    left = np.column_stack([high @ weights[k:, :k], np.ones(len(high)), within[1] - top])
    right = np.column_stack([low, within[0], np.ones(len(low))]).T.copy()
    sums = np.column_stack([low, np.ones(len(low))])
    total, low_weights, by_high = 0.0, np.zeros(len(low)), np.zeros((len(high), k + 1))
    for first in range(0, len(high), ROWS):
        block = left[first : first + ROWS] @ right
        np.exp(block, out=block)
        if moments:
            low_weights += block.sum(axis=0)
            by_high[first : first + ROWS] = block @ sums
        else:
            total += block.sum()
    if not moments:
        return top + math.log(total), None, None
    total = low_weights.sum()
    mean = np.concatenate([low_weights @ low, by_high[:, k] @ high]) / total
    second = np.empty((n, n))
    second[:k, :k] = (low * low_weights[:, None]).T @ low
    second[k:, k:] = (high * by_high[:, k:]).T @ high
    second[k:, :k] = high.T @ by_high[:, :k]
    second[:k, k:] = second[k:, :k].T
    return top + math.log(total), mean, second / total


def sum_hidden(weights: np.ndarray, visible_bias: np.ndarray, hidden_bias: np.ndarray) -> float:
    """log Z of a restricted machine of binary units at beta = 1, over all states of its hidden ones."""
    n = len(hidden_bias)
    terms = np.empty(1 << n)
    for first in range(0, 1 << n, ROWS):
        hidden = ((np.arange(first, first + ROWS)[:, None] >> np.arange(n)) & 1).astype(float)
        fields = hidden @ weights.T + visible_bias
        terms[first : first + ROWS] = np.logaddexp(0.0, fields).sum(axis=1) + hidden @ hidden_bias
    top = terms.max()
    return float(top + math.log(np.exp(terms - top).sum()))


def spins(n: int) -> np.ndarray:
    """All states of n spins, (2^n, n)."""
    return 2.0 * ((np.arange(1 << n)[:, None] >> np.arange(n)) & 1) - 1.0


def anneal(
    weights: Any, visible_bias: Any, hidden_bias: Any, n_chains: int, n_betas: int, seed: int = 1
) -> tuple[float, float]:
    """log Z of a restricted machine and its error, by annealed importance sampling with hidden units summed out.

    The path raises the couplings and hidden biases from nothing: log f_t(v) = b v + sum_j log(1 + exp(t (c + v W)_j)).
    """
    generator = np.random.default_rng(seed)
    weights, bias, hidden_bias = (np.asarray(a, np.float32) for a in (weights, visible_bias, hidden_bias))
    visible = draw(generator, np.broadcast_to(bias, (n_chains, len(bias))))
    log_w = np.zeros(n_chains)
    path = np.linspace(0, 1, n_betas, dtype=np.float32)
    for before, after in itertools.pairwise(path):
        fields = visible @ weights + hidden_bias
        rises = np.exp(after * fields)
        log_w += np.log((1 + rises) / (1 + np.exp(before * fields))).sum(axis=1)
        hidden = (generator.random(fields.shape, dtype=np.float32) < rises / (1 + rises)).astype(np.float32)
        visible = draw(generator, after * (hidden @ weights.T) + bias)
    w = np.exp(log_w - log_w.max())
    log_z0 = float(np.logaddexp(0, visible_bias).sum()) + len(hidden_bias) * math.log(2)
    return log_z0 + log_w.max() + math.log(w.mean()), float(w.std(ddof=1) / math.sqrt(n_chains) / w.mean())


def mean_field(
    weights: np.ndarray, bias: np.ndarray, n_starts: int, tolerance: float, seed: int = 1
) -> tuple[float, np.ndarray, np.ndarray]:
    """The best bound on log Z of spins at beta = 1, its means, and covariances by linear response; damped updates."""
    means = np.random.default_rng(seed).uniform(-1, 1, (len(bias), n_starts))
    residual = np.inf
    while residual > tolerance:
        update = np.tanh(weights @ means + bias[:, None])
        residual = np.abs(update - means).max()
        means = 0.5 * (means + update)
    up = (1 + means) / 2
    entropy = -(up * np.log(up) + (1 - up) * np.log1p(-up)).sum(axis=0)
    bounds = entropy + ((0.5 * weights @ means + bias[:, None]) * means).sum(axis=0)
    best = means[:, bounds.argmax()]
    return float(bounds.max()), best, np.linalg.inv(np.diag(1 / (1 - best**2)) - weights)


class Contrastive:
    """Persistent contrastive divergence on a restricted machine of binary units, in float32."""

    def __init__(self, rows: np.ndarray, n_hidden: int, batch_size: int, learning_rate: float, seed: int = 1) -> None:
        self._generator = np.random.default_rng(seed)
        self._rows, self._batch_size, self._rate = rows.astype(np.float32), batch_size, np.float32(learning_rate)
        self.weights = self._generator.normal(scale=0.01, size=(rows.shape[1], n_hidden)).astype(np.float32)
        self.visible_bias, self.hidden_bias = np.zeros(rows.shape[1], np.float32), np.zeros(n_hidden, np.float32)
        self._chains = draw(self._generator, np.zeros((batch_size, n_hidden), np.float32))

    def epoch(self) -> None:
        """Go through the rows once, in whole mini-batches."""
        order = self._generator.permutation(len(self._rows))
        rate = self._rate / self._batch_size
        for first in range(0, len(order) - self._batch_size + 1, self._batch_size):
            visible = self._rows[order[first : first + self._batch_size]]
            hidden = sigmoid(visible @ self.weights + self.hidden_bias)
            free_visible = draw(self._generator, self._chains @ self.weights.T + self.visible_bias)
            free_hidden = sigmoid(free_visible @ self.weights + self.hidden_bias)
            uniforms = self._generator.random(free_hidden.shape, dtype=np.float32)
            self._chains = (uniforms < free_hidden).astype(np.float32)
            self.weights += rate * (visible.T @ hidden - free_visible.T @ free_hidden)
            self.visible_bias += rate * (visible.sum(axis=0) - free_visible.sum(axis=0))
            self.hidden_bias += rate * (hidden.sum(axis=0) - free_hidden.sum(axis=0))


def maximum_likelihood(rows: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights, bias and mean log-likelihood of spins, by SciPy's L-BFGS on exact sums."""
    n = rows.shape[1]
    pairs = np.triu_indices(n, 1)
    target = np.concatenate([(rows.T @ rows / len(rows))[pairs], rows.mean(axis=0)])

    def parts(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        weights = np.zeros((n, n))
        weights[pairs] = x[:-n]
        return weights + weights.T, x[-n:]

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        log_z, mean, second = enumerate_blocked(*parts(x), True)
        return log_z - target @ x, np.concatenate([second[pairs], mean]) - target

    options = {"gtol": tolerance, "ftol": 0.0, "maxiter": 500}
    found = minimize(loss, np.zeros(len(target)), jac=True, method="L-BFGS-B", options=options)
    return *parts(found.x), -float(found.fun)
