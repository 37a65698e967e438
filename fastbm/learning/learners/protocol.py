"""The protocol of learners, which move the parameters epoch by epoch."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..moments import Parameters
from ..monitor.moment_test import Verdict


class Driver(Protocol):
    """The protocol of a learner, which moves `parameters` epoch by epoch.

    Attributes
    ----------
    metric_names : tuple of str
        What an epoch's row of metrics holds.
    done : bool
        Whether there is nothing left to gain.
    converged : bool or None
        Whether the aim was reached, as far as that was looked at.
    verdict : Verdict or None
        Of a test of moments, where there was one.
    chain_noise : float
        The part of the last epoch's moment noise that is the chains'.
    """

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of an epoch's metrics."""

    @property
    def parameters(self) -> Parameters:
        """The parameters as they are learned so far."""

    @property
    def done(self) -> bool:
        """Whether there is nothing left to gain."""

    @property
    def converged(self) -> bool | None:
        """Whether learning converged; None where that was not tested."""

    @property
    def verdict(self) -> Verdict | None:
        """The last test of moments, where there was one."""

    @property
    def chain_noise(self) -> float:
        """The chains' part of the last epoch's moment noise."""

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do (a part of) an epoch; return its row of metrics when it is over, and nothing before."""

    def judge(self, number: int) -> None:
        """Test whether learning converged, after its last epoch `number`, where that is not known yet."""

    def samples(self) -> np.ndarray | None:
        """Return packed states of free chains that persist, where there are any."""

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that continue learning bit for bit."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Restore what `state` returned."""
