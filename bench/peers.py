"""Plain Numba peers: what a careful user writes in an afternoon, one chain or one state after the other."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse
from numba import njit


@njit(nogil=True, error_model="numpy")
def _sweep_chains(weights, bias, beta, states, n_sweeps, metropolis, seed):
    """Sweep every chain in turn, with cached fields of spins. Mutates `states` (n_chains, n_units) of -1.0 and 1.0."""
    np.random.seed(seed)
    n = len(bias)
    for c in range(len(states)):
        state = states[c]
        field = weights @ state + bias
        for _ in range(n_sweeps):
            for i in range(n):
                if metropolis:
                    cost = 2.0 * state[i] * field[i]
                    flip = cost <= 0.0 or np.random.random() < math.exp(-beta * cost)
                else:
                    flip = np.random.random() >= 1.0 / (1.0 + math.exp(-2.0 * beta * state[i] * field[i]))
                if flip:
                    state[i] = -state[i]
                    for j in range(n):
                        field[j] += 2.0 * state[i] * weights[i, j]


@njit(nogil=True, error_model="numpy")
def _sweep_neighbours(indptr, indices, values, bias, beta, states, n_sweeps, metropolis, seed):
    """Sweep every chain in turn, fields summed from the neighbours. Mutates `states` (n_chains, n_units)."""
    np.random.seed(seed)
    for c in range(len(states)):
        state = states[c]
        for _ in range(n_sweeps):
            for i in range(len(bias)):
                field = bias[i]
                for k in range(indptr[i], indptr[i + 1]):
                    field += values[k] * state[indices[k]]
                if metropolis:
                    cost = 2.0 * beta * state[i] * field
                    if cost <= 0.0 or np.random.random() < math.exp(-cost):
                        state[i] = -state[i]
                else:
                    state[i] = 1.0 if np.random.random() < 1.0 / (1.0 + math.exp(-2.0 * beta * field)) else -1.0


def sweep(
    model: Any, n_chains: int, n_sweeps: int, rule: str, threads: int, seed: int = 1, beta: float = 1.0
) -> np.ndarray:
    """Final states (n_chains, n_units) of spins that started at random."""
    states = np.random.default_rng(seed).choice([-1.0, 1.0], (n_chains, model.n_units))
    parts, metropolis = np.array_split(states, threads), rule == "metropolis"
    neighbours = scipy.sparse.issparse(model.weights)
    kernel = _sweep_neighbours if neighbours else _sweep_chains
    weights = (model.weights.indptr, model.weights.indices, model.weights.data) if neighbours else (model.weights,)

    def run(k: int) -> None:
        kernel(*weights, model.bias, beta, parts[k], n_sweeps, metropolis, seed + k)

    _on_threads(run, threads)
    return states


def persistent_chains(
    rows: np.ndarray, n_steps: int, n_chains: int, rate: float, threads: int, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias of spins, learned from rows (m, n_units) by chains that go on for a sweep a step."""
    n = rows.shape[1]
    mean, second = rows.mean(axis=0), rows.T @ rows / len(rows)
    states = np.random.default_rng(seed).choice([-1.0, 1.0], (n_chains, n))
    parts = np.array_split(states, threads)
    weights, bias = np.zeros((n, n)), np.arctanh(mean)

    def run(k: int) -> None:
        _sweep_chains(weights, bias, 1.0, parts[k], 1, False, seed + step * threads + k)

    for step in range(n_steps):
        _on_threads(run, threads)
        falling = rate / (1.0 + 9.0 * step / n_steps)
        weights += falling * (second - states.T @ states / n_chains)
        np.fill_diagonal(weights, 0.0)
        bias += falling * (mean - states.mean(axis=0))
    return weights, bias


@njit(nogil=True, error_model="numpy")
def _gray_slice(weights, bias, first, last, moments):  # noqa: C901 - written as its peers write it
    """Sums over steps `first` to `last` of the Gray code, relative to exp(top): weights, spins, pairs."""
    n = len(bias)
    state = np.empty(n)
    code = first ^ (first >> 1)
    for i in range(n):
        state[i] = 1.0 if code >> i & 1 else -1.0
    field = weights @ state + bias
    height = 0.0
    for i in range(n):
        height += 0.5 * state[i] * (field[i] + bias[i])
    top, total = height, 0.0
    mean, pairs = np.zeros(n), np.zeros((n, n))
    for step in range(first, last):
        if step > first:
            i = 0
            while not step >> i & 1:
                i += 1
            height -= 2.0 * state[i] * field[i]
            state[i] = -state[i]
            for j in range(n):
                field[j] += 2.0 * state[i] * weights[i, j]
        if height > top + 30.0:
            factor = math.exp(top - height)
            total, top = total * factor, height
            mean *= factor
            pairs *= factor
        weight = math.exp(height - top)
        total += weight
        if moments:
            for i in range(n):
                scaled = weight * state[i]
                mean[i] += scaled
                for j in range(n):
                    pairs[i, j] += scaled * state[j]
    return top, total, mean, pairs


def enumerate_gray(model: Any, moments: bool, threads: int) -> tuple[float, np.ndarray, np.ndarray]:
    """log Z, means and second moments of spins at beta = 1."""
    size = 1 << model.n_units

    def run(k: int) -> tuple:
        return _gray_slice(model.weights, model.bias, k * size // threads, (k + 1) * size // threads, moments)

    parts = _on_threads(run, threads)
    top = max(part[0] for part in parts)
    factors = [math.exp(part[0] - top) for part in parts]
    total, mean, pairs = (sum(f * part[k] for f, part in zip(factors, parts, strict=True)) for k in (1, 2, 3))
    return top + math.log(total), mean / total, pairs / total


def _on_threads(function: Any, threads: int) -> list:
    if threads == 1:
        return [function(0)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, range(threads)))
