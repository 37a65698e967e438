"""Means, pairs and their linear response from the messages of belief propagation, on its graph.

With D_i = 1 - m_i^2 and r_ij the correlation coefficient of a coupled pair under its belief, the inverse of the
covariances is D^-1/2 M D^-1/2 with M_ij = -r_ij / (1 - r_ij^2) and M_ii = 1 + sum_j r_ij^2 / (1 - r_ij^2): that of two
units where there are but two. Welling and Teh, Neural Comput. 16, 197 (2004), doi:10.1162/08997660460734056.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.inference.bethe import (
    message_slopes,
    pair_arguments,
    reverse_slots,
    sweep_susceptibilities,
    total_fields,
)
from ...machine.machine import BoltzmannMachine
from .response import invert, sech

LANES = 64  # units whose responses are propagated together
STRONGEST = 1.0 - 1e-6  # r_ij^2 above which M holds numbers too large to be inverted, and responses are propagated
MOST_SWEEPS = 1000
TOLERANCE = 1e-13
LARGEST = 1e12  # responses of this size do not come back


class Graph:
    """The rows of the symmetric matrix of couplings, times beta.

    With them go the reverse of each slot and an order of units in which a tree is done in one sweep forth and back.
    """

    def __init__(self, spin: BoltzmannMachine, beta: float) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

        self.indptr, self.indices, values = spin.couplings.csr()
        self.couplings, self.fields = beta * values, beta * spin.flat_bias
        self.reverse = np.empty(len(values), np.int64)
        reverse_slots(self.indptr, self.indices, self.reverse)
        shape = (spin.n_units, spin.n_units)
        links = csr_array((np.ones(len(values), np.int8), self.indices, self.indptr.astype(np.int32)), shape=shape)
        self.order = reverse_cuthill_mckee(links, symmetric_mode=True).astype(np.int32)
        n_parts = connected_components(links, directed=False, return_labels=False)
        self.is_forest = len(values) // 2 == spin.n_units - n_parts

    @property
    def whole(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The graph as arrays for kernels."""
        return self.indptr, self.reverse, self.couplings


@dataclass(frozen=True)
class Beliefs:
    """Beliefs, the means and pair distributions that the messages of one lane give.

    These are total fields, atanh m (n_units,); atanh <s_i s_j> of every slot; and the messages.
    """

    graph: Graph
    messages: np.ndarray
    totals: np.ndarray
    pair_arguments: np.ndarray

    @classmethod
    def of(cls, graph: Graph, messages: np.ndarray) -> Beliefs:
        """Return the beliefs of messages (n_slots,)."""
        messages = np.ascontiguousarray(messages)
        totals = np.empty((len(graph.fields), 1))
        total_fields(messages[:, None], graph.fields, graph.indptr, totals)
        arguments = np.empty(len(messages))
        pair_arguments(messages, totals[:, 0].copy(), graph.indices, graph.whole, arguments)
        return cls(graph, messages, totals[:, 0].copy(), arguments)

    @property
    def rows(self) -> np.ndarray:
        """Row of every slot, which is its unit."""
        return np.repeat(np.arange(len(self.totals), dtype=np.int32), np.diff(self.graph.indptr))

    def covariances(self) -> np.ndarray:
        """Return <s_i s_j> - m_i m_j of every slot."""
        m = np.tanh(self.totals)
        found: np.ndarray = np.tanh(self.pair_arguments) - m[self.rows] * m[self.graph.indices]
        return found

    def pair_covariances(self) -> Any:
        """Return covariances of coupled pairs and the diagonal, as a scipy.sparse.csr_array."""
        from scipy.sparse import csr_array

        n = len(self.totals)
        own = np.arange(n, dtype=np.int32)
        rows, columns = np.concatenate([self.rows, own]), np.concatenate([self.graph.indices, own])
        data = np.concatenate([self.covariances(), sech(self.totals) ** 2])
        found = csr_array((data, (rows, columns)), shape=(n, n))
        found.sort_indices()
        return found

    def slopes(self) -> np.ndarray:
        """Return du/dc of the message from the row of every slot."""
        found = np.empty(len(self.messages))
        message_slopes(self.messages, self.totals, (self.graph.indptr, self.graph.couplings), found)
        return found


def bethe_covariance(graph: Graph, beliefs: Beliefs, threads: int = 1) -> np.ndarray | None:
    """Return the whole matrix of covariances; None where the response diverges."""
    slopes = beliefs.slopes()
    # the square of r_ij is the product of the slopes of both messages: no cancellation
    square = np.clip(slopes * slopes[graph.reverse], 0.0, 1.0)
    if graph.is_forest or square.max(initial=0.0) > STRONGEST:
        return _propagated(graph, beliefs, slopes)
    n, rows, root = len(beliefs.totals), beliefs.rows, sech(beliefs.totals)
    matrix = np.zeros((n, n))
    matrix[rows, graph.indices] = -np.copysign(np.sqrt(square), graph.couplings) / (1.0 - square)
    matrix[np.arange(n), np.arange(n)] = 1.0 + np.bincount(rows, weights=square / (1.0 - square), minlength=n)
    inverse = invert(matrix, threads)
    return None if inverse is None else inverse * root[:, None] * root[None, :]


def _propagated(graph: Graph, beliefs: Beliefs, slopes: np.ndarray) -> np.ndarray | None:
    """Return the covariances by propagation of responses, some units at a time.

    None where responses do not settle, or a variance is negative.
    """
    n, back = len(beliefs.totals), graph.order[::-1].copy()
    slots, variance = (graph.indptr, graph.reverse), sech(beliefs.totals) ** 2
    covariance = np.empty((n, n))
    for first in range(0, n, LANES):
        lanes = min(LANES, n - first)
        responses, means = np.zeros((len(slopes), lanes)), np.zeros((n, lanes))
        settled = False
        for _ in range(MOST_SWEEPS):
            change = sweep_susceptibilities(responses, means, slopes, slots, graph.order, first)
            change = max(change, sweep_susceptibilities(responses, means, slopes, slots, back, first))
            largest = float(np.abs(means).max())
            settled = change <= TOLERANCE * (1.0 + largest)
            if settled or not largest < LARGEST:
                break
        if not settled:
            return None
        covariance[:, first : first + lanes] = variance[:, None] * means
    if not np.isfinite(covariance).all() or np.any(np.diagonal(covariance) < 0.0):
        return None
    return 0.5 * (covariance + covariance.T)
