"""Slow twins of the sums and draws on one side of a layered machine; nothing of fastbm is used here."""

from __future__ import annotations

import itertools
import math

import numpy as np


def log_f(bits, weights, bias_kept, bias_summed, base_kept, base_summed, t):
    """log of f_0^(1 - t) f^t of kept bits, the other units summed out; `weights` (n_kept, n_summed)."""
    total = 0.0
    for j, x in enumerate(bits):
        total += x * ((1.0 - t) * base_kept[j] + t * bias_kept[j])
    for i in range(len(bias_summed)):
        field = bias_summed[i] + sum(x * weights[j][i] for j, x in enumerate(bits))
        odds = (1.0 - t) * base_summed[i] + t * field
        total += max(odds, 0.0) + math.log1p(math.exp(-abs(odds)))
    return total


def distribution(weights, bias_kept, bias_summed, base_kept, base_summed, t):
    """Probabilities of all states of the kept units, bit j of a state's number being unit j, and log of their sum."""
    states = [bits[::-1] for bits in itertools.product((0, 1), repeat=len(bias_kept))]
    logs = np.array([log_f(bits, weights, bias_kept, bias_summed, base_kept, base_summed, t) for bits in states])
    top = logs.max()
    log_z = top + math.log(np.exp(logs - top).sum())
    return np.exp(logs - log_z), log_z


def log_q(bits, visited, rates):
    """log of the density of draws that flip every unit of a state visited with one of the rates."""
    total = 0.0
    for state in visited:
        distance = sum(a != b for a, b in zip(bits, state, strict=True))
        total += sum(r**distance * (1.0 - r) ** (len(bits) - distance) for r in rates)
    return math.log(total / (len(visited) * len(rates)))
