"""What the tests of missing entries share: rows with gaps, and plain twins of what is known of them."""

from __future__ import annotations

import numpy as np

import fastbm as bm
from tests.support.learning import by_differences
from tests.support.machines import draw, log_joint, parameters


def rows_with_gaps(model: bm.BoltzmannMachine, n_rows: int = 9, *, part: float = 0.3, seed: int = 0) -> np.ndarray:
    """Rows drawn of the machine, of which entries are missing at random; something is known of each."""
    rows = draw(model, n_rows, seed).astype(float)
    generator = np.random.default_rng([seed, 1])
    missing = generator.random(rows.shape) < part
    missing[np.arange(n_rows), generator.integers(model.n_visible, size=n_rows)] = False
    return np.where(missing, np.nan, rows)


def log_p_of_known(
    weights: np.ndarray, bias: np.ndarray, units: str, rows: np.ndarray, beta: float = 1.0
) -> np.ndarray:
    """log p of what is known of each row: all states that agree with it, summed."""
    states, log_p = log_joint(weights, bias, units, beta)
    found = []
    for row in rows:
        known = np.flatnonzero(~np.isnan(row))
        agrees = (states[:, known] == row[known]).all(axis=1)
        found.append(np.logaddexp.reduce(log_p[agrees]))
    return np.array(found)


def moments_of_known(model: bm.BoltzmannMachine, rows: np.ndarray, beta: float) -> tuple[np.ndarray, np.ndarray]:
    """<s_i> and <s_i s_j> given what is known of a row, averaged over rows."""
    states, log_p = log_joint(*parameters(model), model.units, beta)
    mean, second = np.zeros(model.n_units), np.zeros((model.n_units,) * 2)
    for row in rows:
        known = np.flatnonzero(~np.isnan(row))
        p = np.where((states[:, known] == row[known]).all(axis=1), np.exp(log_p), 0.0)
        p /= p.sum() * len(rows)
        mean += p @ states
        second += (states * p[:, None]).T @ states
    return mean, second


def gradient_by_differences(
    model: bm.BoltzmannMachine, rows: np.ndarray, beta: float, l2: float, row_weights: np.ndarray | None = None
) -> np.ndarray:
    """d/dtheta of the penalised mean of log p(known): one entry a coupled pair, then biases."""

    def value(w: np.ndarray, b: np.ndarray) -> float:
        each = log_p_of_known(w, b, model.units, rows, beta)
        return float(np.average(each, weights=row_weights)) - 0.25 * l2 * float((w * w).sum())

    return by_differences(model, value)


def errors_of(run: bm.Run) -> np.ndarray:
    """Standard errors of the couplings of five visible units, and of their biases."""
    return np.concatenate([run.errors["weights"][-1][np.triu_indices(5, 1)], run.errors["bias"][-1]])
