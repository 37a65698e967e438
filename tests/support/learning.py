"""What the tests of learning share: rows to learn, parameters as vectors, and the gradient by differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import fastbm as bm
from fastbm.learning.settings import FitSettings
from fastbm.runs.fit.task import FitTask
from tests.support.machines import log_likelihood, parameters

STEP = 1e-4


def some_rows(model: bm.BoltzmannMachine, n_rows: int = 9, seed: int = 0) -> np.ndarray:
    lo = -1 if model.units == "spin" else 0
    return np.where(np.random.default_rng(seed).random((n_rows, model.n_visible)) < 0.6, 1, lo)


def gradient_by_differences(
    model: bm.BoltzmannMachine, rows: np.ndarray, beta: float, l2: float, l2_bias: float
) -> np.ndarray:
    """d/dtheta of the penalised mean log-likelihood: one entry a coupled pair (W_ij and W_ji together), then biases."""

    def value(w: np.ndarray, b: np.ndarray) -> float:
        penalty = 0.25 * l2 * float((w * w).sum()) + 0.5 * l2_bias * (b @ b)
        return log_likelihood(w, b, model.units, rows, beta) - penalty

    return by_differences(model, value)


def by_differences(model: bm.BoltzmannMachine, value: Callable[[np.ndarray, np.ndarray], float]) -> np.ndarray:
    """The slope at `model` of a function of the matrix of couplings and the biases, in the order of `as_vector`."""
    weights, bias = parameters(model)
    pairs = coupled_pairs(model)

    def at(theta: np.ndarray) -> float:
        w = np.zeros_like(weights)
        for (i, j), x in zip(pairs, theta, strict=False):
            w[i, j] = w[j, i] = x
        return value(w, theta[len(pairs) :])

    theta = np.concatenate([[weights[i, j] for i, j in pairs], bias])
    moves = STEP * np.eye(len(theta))
    return np.array([(at(theta + move) - at(theta - move)) / (2 * STEP) for move in moves])


def coupled_pairs(model: bm.BoltzmannMachine) -> list[tuple[int, int]]:
    """The pairs i < j that the layout couples."""
    if model.couplings.kind == "sparse":
        return [(int(i), int(j)) for i, j in zip(*np.nonzero(np.triu(model.weights.toarray())), strict=True)]
    sizes = model.couplings.sizes
    if len(sizes) == 1:
        return [(i, j) for i in range(model.n_units) for j in range(i + 1, model.n_units)]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    layers = [range(a, b) for a, b in zip(starts, ends, strict=True)]
    return [(i, j) for here, there in itertools.pairwise(layers) for i in here for j in there]


def as_vector(model: bm.BoltzmannMachine) -> np.ndarray:
    weights, bias = parameters(model)
    return np.concatenate([[weights[i, j] for i, j in coupled_pairs(model)], bias])


def fit_task(model: bm.BoltzmannMachine, rows: np.ndarray, *, threads: int = 1, **changes: Any) -> FitTask:
    settings = {
        "method": "exact", "clamped": "exact", "free": "exact", "optimizer": "l-bfgs", "beta": 1.0, "epochs": 5,
        "learning_rate": 0.1, "momentum": 0.0, "batch_size": len(rows), "n_chains": 8, "n_sweeps": 1,
        "clamped_sweeps": 2, "l2": 0.0, "l2_bias": 0.0, "tolerance": 1e-6, "seed": 0, "weights_every": 1,
        "samples_every": 0, "monitor_every": 1, "evaluate": "auto",
    }  # fmt: skip
    return FitTask(
        model, {"rows": (rows == 1).astype(np.uint8)}, FitSettings(**settings | changes), classify=None, threads=threads
    )
