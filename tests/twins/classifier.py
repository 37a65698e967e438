"""The calibration of scores and the one-shot rule on held-out rows, one number at a time; imports nothing of fastbm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def calibration_loss(
    scores: np.ndarray, labels: Sequence[int], prior: Sequence[float], offsets: Sequence[float], scale: float
) -> float:
    """The mean of -log P(label | scores) with classes weighted as in the prior, without any ridge."""
    counts = [list(labels).count(k) for k in range(scores.shape[1])]
    total = 0.0
    for row, label in zip(scores, labels, strict=True):
        logits = [scale * (s + c) + math.log(p) for s, c, p in zip(row, offsets, prior, strict=True)]
        top = max(logits)
        log_sum = top + math.log(sum(math.exp(x - top) for x in logits))
        total += prior[label] / counts[label] * (log_sum - logits[label])
    return total


def log_p(row: np.ndarray, weights: np.ndarray, bias: np.ndarray, units: str, n_hidden: int, beta: float) -> float:
    """log p of a row of visible units, by summing over all states."""
    values = (-1, 1) if units == "spin" else (0, 1)
    n, n_visible = len(bias), len(bias) - n_hidden
    log_all, log_row = -math.inf, -math.inf
    for code in range(2**n):
        state = np.array([values[(code >> i) & 1] for i in range(n)], float)
        value = beta * (0.5 * state @ weights @ state + bias @ state)
        log_all = np.logaddexp(log_all, value)
        if all(state[:n_visible] == row):
            log_row = np.logaddexp(log_row, value)
    return float(log_row - log_all)
