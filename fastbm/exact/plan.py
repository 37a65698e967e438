"""What engines for exact sums offer: a plan, with its cost, whose pieces can be done anywhere and in any order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..halting import Halt, never
from .part import Part


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
    def n_pieces(self) -> int: ...

    @property
    def named_pairs(self) -> np.ndarray | None:
        """(n_pairs, 2) int array, i < j: what `Part.pairs` is about; None where it is a full matrix."""

    @property
    def detail(self) -> dict[str, Any]:
        """What only this engine has to say, once all pieces are done or before."""

    def piece(self, k: int, threads: int, halt: Halt = never) -> Part: ...


class Source(Protocol):
    """Draws independent states from the exact distribution.

    Chain c reads its stream alone, a fixed number of words a draw: how many chains and draws are asked for at a time
    does not change what is drawn.
    """

    forecast: Forecast  # of making its tables
    draw_seconds: float  # about how long one draw takes, on one thread

    def draw(self, streams: np.ndarray, n_draws: int, threads: int, halt: Halt = never) -> np.ndarray:
        """Return bits (n_draws, n_chains, n_units) uint8; mutates `streams` (4, n_chains) uint32. Tables are made on
        the first call; raises `Halted`, with `streams` as before, where a stop is asked for.
        """
