"""The verdict of a run when learning is over: whether it converged, and what speaks against it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._base.streams import Stream
from .learners.protocol import Driver
from .monitor.chains import R_HAT_OF_CHAINS
from .monitor.divergence import Watch
from .monitor.early_stopping import Stopping

UNKNOWN = -1
THOUGH = -2  # not converged, though moments passed their test
GROUP = "verdict"
STREAMS = {
    f"{GROUP}/converged": Stream("<i8"),  # 1, 0, UNKNOWN, or THOUGH
    f"{GROUP}/largest_z": Stream("<f8"),  # of the differences of moments in units of their noise
    f"{GROUP}/statistic": Stream("<i8"),  # whose it is, pairs first, or UNKNOWN
    f"{GROUP}/chain_noise": Stream("<f8"),  # above what `until` asks for, else nan
    f"{GROUP}/likelihoods": Stream(
        "<f8", (3,)
    ),  # the last, the best and the independent machine's, where it diverged; or the latter
}


class Verdict(NamedTuple):
    """The verdict of a run when learning is over, one row of its streams."""

    converged: bool | None
    largest_z: float
    statistic: int
    chain_noise: float
    likelihoods: np.ndarray
    passed: bool  # moments, where learning has not converged all the same

    @property
    def diverged(self) -> bool:
        """Whether rows are far less likely than under independent units, or learning lost what it had gained.

        The machine that is kept is the best that was looked at.
        """
        return not np.isnan(self.likelihoods[0])

    @property
    def idle(self) -> bool:
        """Whether hidden units do nothing: rows are no likelier than under independent units."""
        return not self.diverged and not np.isnan(self.likelihoods[2])


def rows(
    driver: Driver,
    stopping: Stopping,
    astray: tuple[float, float, float] | None,
    r_hat: float,
    idle: Watch | None,
    endless: bool = False,
) -> dict[str, np.ndarray]:
    """Return the rows of the verdict's streams.

    `astray` are the last likelihood, the best, and that of independent units, where learning diverged; `idle` is given
    where hidden units do nothing, `r_hat` is that of the free chains, `endless` says that the data have no finite
    optimum.
    """
    converged, found = driver.converged, driver.verdict
    doubtful = converged and (r_hat > R_HAT_OF_CHAINS or endless)
    if astray is not None or stopping.hopeless or idle is not None or doubtful:
        converged = False
    no = THOUGH if found is not None and found.passed else 0
    likelihoods = [np.nan, np.nan, np.nan if idle is None else idle.independent]
    if astray is not None:
        likelihoods = [*astray]
    values = (
        UNKNOWN if converged is None else 1 if converged else no,
        np.nan if found is None else found.largest_z,
        UNKNOWN if found is None else found.number,
        stopping.noise if stopping.hopeless else np.nan,
        likelihoods,
    )
    return {name: np.array([value]) for name, value in zip(STREAMS, values, strict=True)}


def read(columns: dict[str, np.ndarray]) -> Verdict:
    """Read a verdict from what `rows` returned; the streams by their full names."""
    converged, z, statistic, noise, likelihoods = (columns[name][-1] for name in STREAMS)
    return Verdict(
        None if converged == UNKNOWN else bool(converged == 1),
        float(z),
        int(statistic),
        float(noise),
        likelihoods,
        bool(converged == THOUGH),
    )
