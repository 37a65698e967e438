"""Couplings pair by pair, as if there were no other units.

From the four cells of a pair, P(s, s') = ((1 + s m_i) (1 + s' m_j) + s s' C_ij) / 4: W_ij = 1/4 log(P(++) P(--) /
(P(+-) P(-+))), and a bias b_i(j) = 1/4 log(P(++) P(+-) / (P(-+) P(--))) for each partner. Each partner adds what it
changes: b_i = atanh m_i + sum_j (b_i(j) - atanh m_i). Both are derivatives of the entropy S(m) - sum_(i<j) I_ij with
the pairs' mutual information I_ij, which gives log Z. Exact for two units. Roudi, Aurell and Hertz, Front. Comput.
Neurosci. 3:22 (2009), doi:10.3389/neuro.10.022.2009.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .covariances import Couplings, entropy, refuse_pairs, symmetric

SMALLEST_CELL = 1e-12  # four times the probability below which a cell is nothing but rounding
SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1))


def couple(mean: np.ndarray, covariance: np.ndarray, method: str = "independent-pair") -> Couplings:
    """Return the couplings and biases of spins with these moments; `method` is named in errors."""
    n = len(mean)
    weights, fields = np.zeros((n, n)), np.zeros((n, n))
    for s, t, cell in _cells(mean, covariance):
        refuse_pairs(method, cell < SMALLEST_CELL, f"the probability of ({_word(s)}, {_word(t)}) is not above 0")
    for s, t, cell in _cells(mean, covariance):  # each holds that of (t, s) too
        np.log(cell, out=cell)
        weights += s * t * cell
        fields += s * cell
    fields = fields / 4.0 - np.arctanh(mean)[:, None]
    np.fill_diagonal(fields, 0.0)
    return Couplings(symmetric(weights) / 4.0, np.arctanh(mean) + fields.sum(axis=1))


def log_z(mean: np.ndarray, covariance: np.ndarray, found: Couplings) -> float:
    """Return the log Z that follows from the entropy of pairs."""
    information = 0.0
    for s, t, cell in _cells(mean, covariance):
        alone = np.outer(1.0 + s * mean, 1.0 + t * mean)
        information += float((cell * np.log(cell / alone)).sum()) / 8.0  # a quarter, and each pair stands there twice
    return entropy(mean) - information + minus_energy(mean, covariance, found)


def minus_energy(mean: np.ndarray, covariance: np.ndarray, found: Couplings) -> float:
    """Return sum_(i<j) W_ij <s_i s_j> + b^T m."""
    return float(0.5 * (found.weights * covariance).sum() + (0.5 * found.weights @ mean + found.bias) @ mean)


def _cells(mean: np.ndarray, covariance: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield signs s, t, and four times the probabilities of these; the diagonal is that of independent units."""
    for s, t in SIGNS:
        cell = np.outer(1.0 + s * mean, 1.0 + t * mean)
        alone = np.diagonal(cell).copy()
        cell += s * t * covariance
        np.fill_diagonal(cell, alone)
        yield s, t, cell


def _word(sign: int) -> str:
    return "up" if sign > 0 else "down"
