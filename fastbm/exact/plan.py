"""What engines for exact sums offer: a plan with its cost, whose pieces can be done anywhere and in any order.

A piece is a mixture component: its weight is its share of Z, and averages of the whole are averages over the pieces.
Costs are forecast from `Speeds`, how fast this machine does what exact sums are made of.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._base.halting import Halt, never


@dataclass(frozen=True)
class Part:
    """The sum over some states, and averages over them.

    Attributes
    ----------
    log_z : float
        log sum exp(-beta E), offset included; -inf where nothing is left of the piece.
    energy, energy_variance : float or None
        <E> and <E^2> - <E>^2.
    up : (n_units,) array or None
        P(i up).
    pairs : (n_units, n_units) or (n_pairs,) array or None
        P(i and j up), symmetric with `up` on its diagonal; or of the pairs that the sum names.
    distribution : (2^m,) array or None
        Probabilities of the settings of m chosen units, bit l of the index for the l-th of them.
    lowest : (n_lowest, 2) int64 array or None
        The states of lowest energy, in order: their energies in integer steps, and their numbers, bit i for unit i up.
        A piece of fewer states ends with rows of the largest integer.
    """

    log_z: float
    energy: float | None = None
    energy_variance: float | None = None
    up: np.ndarray | None = None
    pairs: np.ndarray | None = None
    distribution: np.ndarray | None = None
    lowest: np.ndarray | None = None


def combine(parts: Sequence[Part]) -> Part:
    """Put pieces together, in their order; what one of them lacks the whole lacks."""
    log_zs = np.array([part.log_z for part in parts])
    top = float(log_zs.max())
    if not math.isfinite(top) or len(parts) == 1:
        return parts[int(log_zs.argmax())]
    weights = np.exp(log_zs - top)
    total = float(weights.sum())
    shares = [(float(w), part) for w, part in zip(weights / total, parts, strict=True) if w > 0.0]
    energy = _average(shares, "energy")
    variance = _average(shares, "energy_variance")
    if energy is not None and variance is not None:
        energy, variance = float(energy), float(variance)
        gaps = [(w, part.energy - energy) for w, part in shares if part.energy is not None]
        variance = min(variance + sum(w * gap * gap for w, gap in gaps), sys.float_info.max)
    up, pairs, distribution = (_average(shares, name) for name in ("up", "pairs", "distribution"))
    return Part(top + math.log(total), energy, variance, up, pairs, distribution, _join_lowest(parts))


def first_states(rows: np.ndarray, n_lowest: int) -> np.ndarray:
    """Return the first of some states (n, 2), by energy and then by number."""
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))[:n_lowest]]


def _join_lowest(parts: Sequence[Part]) -> np.ndarray | None:
    lists = [part.lowest for part in parts if part.lowest is not None]
    return first_states(np.concatenate(lists), len(lists[0])) if len(lists) == len(parts) else None


def _average(shares: list[tuple[float, Part]], name: str) -> Any:
    values = [(w, getattr(part, name)) for w, part in shares]
    if any(value is None for _, value in values):
        return None
    total = values[0][0] * values[0][1]
    for w, value in values[1:]:
        total += w * value
    return total


@dataclass(frozen=True)
class Wanted:
    """What a sum is to give besides log Z.

    Attributes
    ----------
    moments : bool
        P(i up), P(i and j up) and <E>.
    energy_variance : bool
        The variance of E too; only with `moments`.
    pairs : (n_pairs, 2) int array or None
        Pairs of units (i < j) that a sum which gives only some pairs shall give besides those that are coupled.
    """

    moments: bool = True
    energy_variance: bool = True
    pairs: np.ndarray | None = None


@dataclass(frozen=True)
class Forecast:
    """Cost of a plan.

    Attributes
    ----------
    seconds : float
        On the threads it was asked for; inf where it cannot be done.
    n_bytes : float
        Most memory that is held at a time.
    size : str
        What it costs in its own terms, such as "2^40 states" or "width 12"; for messages.
    """

    seconds: float
    n_bytes: float
    size: str


class Sum(Protocol):
    """A sum over all states of a machine at one temperature, planned; cheap to make, and can be pickled.

    `piece` raises `Halted` where a stop is asked for; what it computed is lost then. It depends on nothing but `k`:
    not on the threads, nor on what was done before.
    """

    name: str
    forecast: Forecast

    @property
    def n_pieces(self) -> int:
        """Number of pieces."""

    @property
    def named_pairs(self) -> np.ndarray | None:
        """(n_pairs, 2) int array, i < j: what `Part.pairs` is about; None where it is a full matrix."""

    @property
    def detail(self) -> dict[str, Any]:
        """What only this engine has to say, once all pieces are done or before."""

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part:
        """Compute piece `k`."""


class Source(Protocol):
    """Draws independent states from the exact distribution.

    Chain c reads its stream alone, a fixed number of words a draw: how many chains and draws are asked for at a time
    does not change what is drawn.
    """

    forecast: Forecast  # of making its tables
    draw_seconds: float  # about how long one draw takes, on one thread

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        """Return bits (n_draws, n_chains, n_units) uint8; mutates `streams` (4, n_chains) uint32.

        Tables are made on the first call; raises `Halted`, with `streams` as before, where a stop is asked for.
        """


@dataclass(frozen=True)
class Speeds:
    """How fast this machine does what exact sums are made of, in seconds on one thread.

    Attributes
    ----------
    gray_state : float
        One state of the Gray code, moments included.
    product_term : float
        One multiplication and addition of a large matrix product in float64.
    table_entry : float
        One entry of a table of exponentials, weighed and folded.
    layer_term : float
        One factor of a sum over a layer.
    message_entry : float
        One entry of a message of variable elimination.
    """

    gray_state: float = 1.5e-9
    product_term: float = 3e-11
    table_entry: float = 3e-9
    layer_term: float = 3e-10
    message_entry: float = 4e-9
