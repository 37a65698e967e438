"""Belief propagation and Bethe's approximation: exact on trees.

Messages are cavity fields u_(j -> i) = atanh(tanh(beta W_ij) tanh(beta b_j + sum_(k != i) u_(k -> j))), as in
`fastbm.kernels.inference.bethe`. Covariances by linear response: the inverse of the second derivatives of Bethe's free
energy in the means, where that is well conditioned, else (and on trees, where it is exact at any coupling) the
derivatives of all messages, propagated as the messages are.

Yedidia, Freeman and Weiss, IEEE Trans. Inf. Theory 51, 2282 (2005), doi:10.1109/TIT.2005.850085; Welling and Teh,
Neural Comput. 16, 197 (2004), doi:10.1162/08997660460734056.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np

from ..._base.options import Least, options
from ..._base.threads import fan_out
from ...kernels.inference.bethe import bethe_log_z, sweep_beliefs, total_fields
from ...machine.couplings.protocol import DENSE_LIMIT
from ...machine.machine import BoltzmannMachine
from ..result import Inference
from .bethe_response import Beliefs, Graph, bethe_covariance
from .iterate import Iterated, moments as moments_of, of_entropy, settle, starting_means, warn_unsettled

LANES = 8  # starts that are worked on together
NEARLY_NOTHING = 0.01  # means of the first start: from 0 itself a fixed point that is unstable would not be left
MOST_NUMBERS = 1 << 26  # messages that are worked on together
AT_ONCE = 1 << 22  # messages that are sent between two looks for a stop
DAMPINGS = ((0.0, 0.2), (0.5, 0.3), (0.9, 0.5))  # damping, and the part of the sweeps it is given, one after the other


class BetheEquations:
    """The equations of belief propagation, with the messages of several starts in lanes.

    Parameters
    ----------
    graph : Graph
    means : (n_lanes, n_units) array
        A message starts as that of a unit of such a mean.
    """

    def __init__(self, graph: Graph, means: np.ndarray) -> None:
        self._graph = graph
        start = graph.couplings[:, None] * means.T[graph.indices]
        self._messages = np.ascontiguousarray(start)

    @property
    def values(self) -> np.ndarray:
        """The messages, (n_lanes, n_slots)."""
        return self._messages.T

    def valid(self, values: np.ndarray) -> np.ndarray:
        """Return which lanes hold valid messages: none is stronger than its coupling."""
        found: np.ndarray = (np.abs(values) <= np.abs(self._graph.couplings) * (1 + 1e-12)).all(axis=1)
        return found

    def refresh(self) -> None:
        """Do nothing: nothing is derived from the messages and kept."""

    def sweep(self, damping: float, least: np.ndarray) -> np.ndarray:
        """Send all messages, from the leaves to the roots of the order or back, in turn."""
        return np.maximum(
            self._send(self._messages, self._graph.order, damping),
            self._send(self._messages, self._graph.order[::-1], damping),
        )

    def _send(self, messages: np.ndarray, order: np.ndarray, damping: float) -> np.ndarray:
        """Send all messages in turn, some at a time, so that a stop is never far."""
        g, change = self._graph, np.zeros(messages.shape[1])
        n_sent = np.cumsum(np.diff(g.indptr)[order]) * messages.shape[1]
        cuts = np.flatnonzero(np.diff(n_sent // AT_ONCE)) + 1
        for part in np.split(order, cuts):
            part = np.ascontiguousarray(part)
            np.maximum(change, sweep_beliefs(messages, g.fields, g.whole, part, damping), out=change)
        return change

    def residual(self) -> np.ndarray:
        """Return the largest change that one more sweep makes without damping, per lane."""
        return self._send(self._messages.copy(), self._graph.order, 0.0)

    def log_z(self) -> np.ndarray:
        """Return Bethe's log Z of every lane, without offset."""
        g = self._graph
        totals = np.empty((len(g.fields), self._messages.shape[1]))
        total_fields(self._messages, g.fields, g.indptr, totals)
        found = np.zeros(self._messages.shape[1])
        bethe_log_z(self._messages, g.fields, totals, g.indices, g.whole, found)
        return found + len(g.fields) * np.log(2.0)


@options
class Bethe(Iterated):
    """Propagate beliefs from several starts; the converged one of the highest log Z is kept.

    Parameters
    ----------
    n_starts : int
        One from messages that are nearly 0, the others random. A tree has a single solution and needs one.
    tolerance : float
        Largest change of a message u that one more sweep would make, divided by 1 + |u|.
    damping : float
        Part of the old message that is kept at each step, from 0 to below 1; raised, to 0.5 and then to 0.9, where
        messages do not settle. Not used on trees.
    max_sweeps : int
        Each goes through all messages forth and back.

    Notes
    -----
    `log_z` is no bound; on trees everything is exact. Solutions of frustrated loops may be far off; of up to 14 units,
    or as many on one side of a layered machine, all states are counted, and more than a nat from them has not
    converged. `covariance` is the linear response as it comes: its diagonal, unlike that of `second_moment`, is not the
    exact one where there are loops. For sparse machines of more than 16,384 units both hold the coupled pairs only, as
    the beliefs of the pairs give them.
    """

    name: ClassVar[str] = "bethe"

    max_sweeps: Annotated[int, Least(1)] = 1_000

    def run(self, model: BoltzmannMachine, *, beta: float, moments: bool, seed: int, threads: int) -> Inference:
        """Infer log Z and moments; moments are in the machine's units."""
        spin = model.to_units("spin")
        graph = Graph(spin, beta)
        n_starts = 1 if graph.is_forest else self.n_starts
        starts = starting_means(spin.n_units, n_starts, seed, first=NEARLY_NOTHING)
        lanes = max(1, min(LANES, MOST_NUMBERS // max(len(graph.couplings), 1)))

        def run(first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
            return _run(BetheEquations(graph, starts[first : first + lanes]), self, graph.is_forest)

        parts = fan_out(run, range(0, n_starts, lanes), threads)
        log_z, residual = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
        solved = residual <= self.tolerance
        best = int(np.argmax(np.where(solved, log_z, -np.inf))) if solved.any() else int(np.argmin(residual))
        n_sweeps = max(part[3] for part in parts)
        if not solved.any():
            warn_unsettled("bethe", float(residual[best]), n_sweeps, "Raise max_sweeps or damping.")
        beliefs = Beliefs.of(graph, parts[best // lanes][2][:, best % lanes])
        m, couplings = np.tanh(beliefs.totals), spin.couplings.csr()[2]
        energy = spin.offset - float(spin.flat_bias @ m) - 0.5 * float(couplings @ np.tanh(beliefs.pair_arguments))
        found: dict[str, Any] = {"log_z": float(log_z[best]) - beta * spin.offset, "energy": energy}
        if moments:
            full = spin.n_units <= DENSE_LIMIT
            covariance = bethe_covariance(graph, beliefs, threads) if full else beliefs.pair_covariances()
            found |= moments_of(model, "bethe", m, covariance)
        result = Inference(
            "bethe",
            **found,
            entropy=found["log_z"] + beta * energy,
            converged=bool(solved.any()),
            detail={
                "residual": float(residual[best]),
                "n_sweeps": n_sweeps,
                "starts converged": int(solved.sum()),
                "n_starts": n_starts,
                "log_z of all starts": log_z - beta * spin.offset,
                "tree": graph.is_forest,
            },
        )
        return of_entropy(result, spin.n_units, beta)


def _run(
    equations: BetheEquations, settings: Iterated, is_forest: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return log Z, residuals and messages of some starts, and the number of sweeps."""
    n_sweeps = 0
    for damping, part in ((0.0, 1.0),) if is_forest else DAMPINGS:
        change, more = settle(
            equations,
            tolerance=0.1 * settings.tolerance,
            damping=max(damping, 0.0 if is_forest else settings.damping),
            max_sweeps=max(1, round(part * settings.max_sweeps)),
        )
        n_sweeps += more
        if np.all(change <= 0.1 * settings.tolerance):
            break
    return equations.log_z(), equations.residual(), np.array(equations.values.T), n_sweeps
