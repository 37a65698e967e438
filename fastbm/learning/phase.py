"""What the clamped and the free phase have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model import BoltzmannMachine
from .moments import PhaseMoments
from .noise import MomentNoise

OWN_CHAINS = ("gibbs", "restarted", "annealed", "tempering")  # free phases whose chains owe nothing to the rows
SAMPLED = np.float32  # precision of moments where sampling noise is far above it


@dataclass(frozen=True)
class PhaseSettings:
    """What phases need to know of the run.

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
    """Moments of a machine under one condition. A phase that samples keeps chains between calls."""

    name: str
    noise: MomentNoise | None = None  # takes in the states that moments are averages of, where chains are its own
    row_weights: np.ndarray | None = None  # of the rows that the next call is told, where they do not count alike

    def __init__(self, settings: Any) -> None:
        self.settings: PhaseSettings = settings

    def prepare(self, model: BoltzmannMachine) -> None:
        """Make the chains, so that the run's first checkpoint holds them."""

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Moments of `model`; `rows` is the mini-batch, which free phases may ignore."""
        raise NotImplementedError

    def samples(self) -> np.ndarray | None:
        """Packed states of the phase's chains, where it has any that persist."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """All that is needed to go on, bit for bit."""
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
