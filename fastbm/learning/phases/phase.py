"""The base of the clamped and the free phase, and the clamped phase of many rows, a part of them at a time.

Rows are taken in parts so that memory does not grow with their number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.rows import Rows
from ...machine.machine import BoltzmannMachine
from ..moments import PhaseMoments
from ..training_set import values_of
from .noise import MomentNoise

OWN_CHAINS = ("gibbs", "restarted", "annealed", "tempering")  # free phases whose chains owe nothing to the rows
SAMPLED = np.float32  # precision of moments where sampling noise is far above it
PART_NUMBERS = 1 << 21  # values of units of a part


@dataclass(frozen=True)
class PhaseSettings:
    """Settings of a run that its phases need.

    `n_sweeps` free sweeps an update, `clamped_sweeps` sweeps of a row's hidden units, `n_chains` free chains, or
    ladders of `n_betas` replicas.
    """

    beta: float
    seed: int
    threads: int
    n_chains: int
    n_sweeps: int
    clamped_sweeps: int
    batch_size: int
    wants_log_z: bool
    n_betas: int = 10


class Phase:
    """The base of phases: moments of a machine under one condition.

    A phase that samples keeps chains between calls.
    """

    name: str
    noise: MomentNoise | None = None  # takes in the states that moments are averages of, where chains are its own
    row_weights: np.ndarray | None = None  # of the rows that the next call is told, where they do not count alike

    def __init__(self, settings: Any) -> None:
        self.settings: PhaseSettings = settings

    def prepare(self, model: BoltzmannMachine) -> None:
        """Make the chains, so that the run's first checkpoint holds them."""

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments of `model`; `rows` is the mini-batch, which free phases may ignore."""
        raise NotImplementedError

    def samples(self) -> np.ndarray | None:
        """Return packed states of the phase's chains, or None where none persist."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue the phase bit for bit."""
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""


def parts_of(rows: Rows, n_units: int, chosen: np.ndarray | None = None) -> list[slice | np.ndarray]:
    """Return all rows in slices, or those `chosen` in pieces, of limited memory.

    A part has at most `PART_NUMBERS` numbers, `n_units` a row.
    """
    step = max(PART_NUMBERS // n_units, 1)
    if chosen is None:
        return list(rows.blocks(step * rows.n_units))
    return [chosen[first : first + step] for first in range(0, len(chosen), step)]


def clamped_moments(
    phase: Phase,
    model: BoltzmannMachine,
    rows: Rows,
    parts: Iterable[slice | np.ndarray],
    dtype: type,
    shares: np.ndarray | None = None,
) -> PhaseMoments:
    """Return moments averaged over the rows in all parts, which count alike or by their `shares`."""
    found: PhaseMoments | None = None
    total = 0.0
    for some in parts:
        phase.row_weights = here = None if shares is None else shares[some]
        values = values_of(model.convention, rows, some, dtype)
        part, weight = phase.moments(model, values), float(len(values) if here is None else here.sum())
        found = part if found is None else _joined(found, part, total, weight)
        total += weight
    assert found is not None
    return found


def _joined(first: PhaseMoments, second: PhaseMoments, of_first: float, of_second: float) -> PhaseMoments:
    a = of_first / (of_first + of_second)
    b = 1.0 - a
    log_z = None if first.log_z is None or second.log_z is None else a * first.log_z + b * second.log_z
    pairs = tuple(a * one + b * other for one, other in zip(first.pairs, second.pairs, strict=True))
    return PhaseMoments(a * first.mean + b * second.mean, pairs, log_z)
