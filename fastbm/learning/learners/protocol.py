"""What every driver can do: drivers are what moves parameters, epoch by epoch."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..moments import Parameters
from ..monitor.moment_test import Verdict


class Driver(Protocol):
    """Moves `parameters`, epoch by epoch.

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
    def metric_names(self) -> tuple[str, ...]: ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def done(self) -> bool: ...

    @property
    def converged(self) -> bool | None: ...

    @property
    def verdict(self) -> Verdict | None: ...

    @property
    def chain_noise(self) -> float: ...

    def epoch(self, number: int) -> list[dict[str, float]]:
        """Do (a part of) an epoch; return its row of metrics when it is over, and nothing before."""

    def judge(self, number: int) -> None:
        """Look whether the aim was reached, as learning is over after `number` epochs, where that takes a look."""

    def samples(self) -> np.ndarray | None:
        """Return packed states of free chains that persist, where there are any."""

    def state(self) -> dict[str, np.ndarray]:
        """Return all that is needed to go on, bit for bit."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to what `state` returned."""
