"""What a machine is learned from: rows of bits, or moments of the visible units alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..model import BoltzmannMachine
from ..moments import Moments, moments_of_rows
from ..rows import Rows
from .gaps import means_of_known
from .moments import PhaseMoments, from_matrix


@dataclass(frozen=True)
class Sample:
    """Rows of bits, or what is known of them without.

    `given` are moments in the units of the machine, where there are no rows; `weights` are those of the rows, all alike
    unless given.
    """

    like: BoltzmannMachine
    up: Rows | None
    given: Moments | None = None
    weights: np.ndarray | None = None

    @classmethod
    def of(cls, like: BoltzmannMachine, data: Mapping[str, Any]) -> Sample:
        """Read what a run keeps: "rows", packed or bits, and, where they have any, their "weights"; or "mean",
        "second_moment" and, where it is known, "n_samples".
        """
        if "rows" in data:
            return cls(like, Rows.of(data["rows"]), weights=data.get("weights"))
        n_samples = int(data["n_samples"]) if "n_samples" in data else None
        return cls(like, None, Moments.trusted(data["mean"], data["second_moment"], n_samples, like.convention))

    @property
    def rows(self) -> Rows:
        """The rows."""
        if self.up is None:
            raise ValueError("data are moments, of which there are no rows.")
        return self.up

    @property
    def has_gaps(self) -> bool:
        """Whether entries of rows are missing."""
        return self.up is not None and not self.up.complete

    @cached_property
    def moments(self) -> Moments:
        """Moments of the visible units, in the units of the machine."""
        if self.given is not None:
            return self.given
        return moments_of_rows(self.rows, self.weights).to_units(self.like.units)

    @property
    def mean(self) -> np.ndarray:
        """Means of the visible units, in the units of the machine, over the rows in which they are known."""
        if self.given is not None:
            return self.given.mean
        if self.has_gaps:
            return self.like.convention.values(means_of_known(self.rows, self.weights), np.float64)
        total = len(self.rows) if self.weights is None else self.weights.sum()
        return self.like.convention.values(self.rows.sums(self.weights) / total, np.float64)

    @property
    def spread(self) -> np.ndarray:
        """Standard deviations of the visible units."""
        units, mean = self.like.convention, self.mean
        return np.sqrt(np.maximum((units.hi - mean) * (mean - units.lo), 0.0))

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, of equal weight or worth as much (Kish, Survey Sampling, 1965); None where moments
        are exact.
        """
        if self.up is None:
            return self.moments.n_samples
        return len(self.up) if self.weights is None else round(self.weights.sum() ** 2 / (self.weights**2).sum())

    def clamped(self) -> PhaseMoments:
        """The clamped phase of a machine without hidden units."""
        return from_matrix(self.like.couplings, self.moments.mean, self.moments.second_moment)
