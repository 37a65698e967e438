"""What the tests of classifiers share: rows of classes, and the one-shot rule by hand."""

from __future__ import annotations

import numpy as np


def blobs(n_rows: int, n_units: int, seed: int = 0, flip: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Noisy copies of three random patterns."""
    generator = np.random.default_rng(seed)
    patterns = generator.integers(0, 2, (3, n_units))
    labels = np.arange(n_rows) % 3
    return patterns[labels] ^ (generator.random((n_rows, n_units)) < flip), labels


def by_hand(rows: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray, float, float]:
    """W with its diagonal, b, log Z and the entropy of a class of spins, one entry at a time."""
    n = rows.shape[1]
    m = [(1 - 2 * eps) * float(np.mean(rows[:, i])) for i in range(n)]
    covariance = np.empty((n, n))
    for i, j in np.ndindex(n, n):
        second = 1.0 if i == j else (1 - 2 * eps) ** 2 * float(np.mean(rows[:, i] * rows[:, j]))
        covariance[i, j] = second - m[i] * m[j]
    w = np.diag([1 / (1 - x * x) for x in m]) - np.linalg.inv(covariance)
    b = np.array([np.arctanh(m[i]) - sum(w[i, j] * m[j] for j in range(n)) for i in range(n)])
    entropy = -sum(p * np.log(p) for x in m for p in ((1 + x) / 2, (1 - x) / 2))
    return w, b, float(entropy + 0.5 * np.dot(m, w @ m) + b @ m), float(entropy)
