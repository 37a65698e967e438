"""The training set, rows of bits or moments of the visible units alone, and the machine that learning starts from.

Rows are handed to phases as values, NaN where an entry is missing: such units are clamped in some rows and free in
others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._base import checks, rng
from ..data.datasets import n_worth
from ..data.moments import Moments, moments_of_rows
from ..data.rows import Rows
from ..machine.machine import BoltzmannMachine
from ..machine.units import Units
from .errors.statistics import Statistics, never_seen
from .identifiability import EXACT_ROWS, ROUNDING, describe_degenerate, describe_few, edges_among
from .moments import Parameters, PhaseMoments, from_matrix
from .settings import FitSettings

UNBOUNDED = ("exact", "monte-carlo")  # methods whose parameters follow the data to infinity
LAYOUTS = ("restricted", "general", "deep")


def check_hidden(n_hidden: Any) -> tuple[int, ...]:
    """Check the number of hidden units, one number or one for each layer; return those of the layers."""
    if not isinstance(n_hidden, (list, tuple, np.ndarray)):
        n = checks.whole("n_hidden", n_hidden)
        return (n,) if n else ()
    if not len(n_hidden):
        raise ValueError("n_hidden must hold the size of at least one layer; got an empty list. Use 0 for none.")
    return tuple(checks.whole(f"n_hidden[{k}]", size, least=1) for k, size in enumerate(n_hidden))


def start_machine(
    p: np.ndarray, n_hidden: Any, layout: str | None, units: str, seed: int, beta: float = 1.0, *, scale: float = 0.01
) -> BoltzmannMachine:
    """Return the machine that learning starts from.

    Its biases give the visible units their means at `beta`, its couplings to hidden ones are small and random.

    `p` (n_visible,) are the parts of rows in which units are up, above 0 and below 1; `n_hidden` one number, or one for
    each layer.
    Hinton, A practical guide to training restricted Boltzmann machines (2012), sect. 8,
    doi:10.1007/978-3-642-35289-8_32.
    """
    sizes = check_hidden(n_hidden)
    layout = _check_layout(layout, sizes)
    n_visible = len(p)
    bias, scale = np.concatenate([np.log(p / (1 - p)), np.zeros(sum(sizes))]) / beta, scale / beta
    generator = rng.keyed(seed, rng.MODEL)
    if layout != "general":
        blocks = [generator.normal(scale=scale, size=size) for size in itertools.pairwise((n_visible, *sizes))]
        return BoltzmannMachine(blocks, bias, units="binary").to_units(units)
    n = len(bias)
    upper = np.triu(generator.normal(scale=scale, size=(n, n)), 1)
    upper[:n_visible, :n_visible] = 0.0
    return BoltzmannMachine(upper + upper.T, bias, units="binary", n_hidden=n - n_visible).to_units(units)


def _check_layout(layout: str | None, sizes: tuple[int, ...]) -> str:
    if layout is None:
        return ("general", "restricted", "deep")[min(len(sizes), 2)]
    checks.choice("layout", layout, LAYOUTS)
    if not sizes and layout != "deep":
        raise ValueError(
            f"layout={layout!r} says how hidden units are coupled, and n_hidden is 0. Raise n_hidden, or leave layout "
            "out."
        )
    if (layout == "deep") != (len(sizes) > 1):
        raise ValueError(
            f'layout="deep" and n_hidden with several layers, such as [500, 250], go together; got layout={layout!r} '
            f"with {len(sizes)} hidden layers. Leave layout out."
        )
    return layout


def smoothed_means(up: Rows | np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the fraction of rows, by weight, in which each unit is up, over the rows in which it is known.

    One row more, half up, keeps it from 0 and 1.
    """
    up = Rows.of(up)
    scale = 1.0 if weights is None else len(up) / weights.sum()
    means: np.ndarray = (up.sums(weights) * scale + 0.5) / (up.known_counts(weights) * scale + 1.0)
    return means


def values_of(units: Units, rows: Rows, which: slice | np.ndarray, dtype: type = np.float64) -> np.ndarray:
    """Return the values of some rows, NaN where an entry is missing."""
    found = units.values(rows[which], dtype)
    if not rows.complete:
        found[rows.known(which) == 0] = np.nan
    return found


def means_of_known(rows: Rows, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the fraction of the rows that know it in which each unit is up, by weight; 1/2 where it is never known."""
    counts = rows.known_counts(weights)
    seen = counts > 0
    found: np.ndarray = np.where(seen, rows.sums(weights) / np.where(seen, counts, 1.0), 0.5)
    return found


@dataclass(frozen=True)
class Sample:
    """The training set: rows of bits, or moments in their place.

    `given` are moments in the units of the machine, where there are no rows; `weights` are those of the rows, all alike
    unless given.
    """

    like: BoltzmannMachine
    up: Rows | None
    given: Moments | None = None
    weights: np.ndarray | None = None

    @classmethod
    def of(cls, like: BoltzmannMachine, data: Mapping[str, Any]) -> Sample:
        """Make a training set of the arrays that a run keeps.

        These are "rows", packed or bits, and, where they have any, their "weights"; or "mean", "second_moment" and,
        where it is known, "n_samples".
        """
        if "rows" in data:
            return cls(like, Rows.of(data["rows"]), weights=data.get("weights"))
        n_samples = int(data["n_samples"]) if "n_samples" in data else None
        return cls(like, None, Moments.trusted(data["mean"], data["second_moment"], n_samples, like.convention))

    @property
    def rows(self) -> Rows:
        """The rows; raises ValueError where data are moments."""
        if self.up is None:
            raise ValueError("data are moments, of which there are no rows.")
        return self.up

    @property
    def has_gaps(self) -> bool:
        """Whether entries of rows are missing."""
        return self.up is not None and not self.up.complete

    @property
    def known_part(self) -> float:
        """About the part of all pairs of visible units of which rows know both."""
        if self.up is None or self.up.complete:
            return 1.0
        total = len(self.up) if self.weights is None else self.weights.sum()
        return float(np.mean(self.up.known_counts(self.weights) / total)) ** 2

    def by_moments(self, settings: FitSettings) -> bool:
        """Return whether the rule learns from whole rows, and asks for nothing but their first and second moments."""
        s = settings
        if self.up is None or self.has_gaps or self.like.n_hidden:
            return False
        if s.optimizer in ("none", "l-bfgs"):  # formulas and exact sums; local rules have no phases
            return s.optimizer == "none" or s.clamped != "none"
        return s.batch_size == len(self.up) and s.free != "contrastive"

    def mean_log_factor(self, model: BoltzmannMachine, beta: float) -> float:
        """Return the mean of -beta E over the data, from their moments alone."""
        data, couplings = self.clamped(), model.couplings
        pairs = couplings.to_vector(couplings.arrays) @ couplings.to_vector(data.pairs)
        return beta * float(pairs + model.flat_bias @ data.mean - model.offset)

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
        """Number of rows, or of as many of equal weight as they are worth; None where moments are exact."""
        if self.up is None:
            return self.moments.n_samples
        return len(self.up) if self.weights is None else n_worth(self.weights)

    def describe_endless(self, settings: FitSettings) -> list[str]:
        """Return a line for each property of the data that sends parameters to infinity which no penalty holds.

        Of a machine with hidden units these are its biases, and couplings between visible units.
        """
        return describe_degenerate(
            self._seen,
            edges=edges_among(self.like.couplings, self.like.n_visible),
            couplings_held=settings.l1 > 0 or settings.l2 > 0,
            biases_held=settings.l2_bias > 0,
            names=self.like.names,
        )

    def open_parameters(self, settings: FitSettings) -> Parameters:
        """Return which parameters run to infinity, bool, as pairs or units never take a state, and no penalty holds.

        Where entries are missing none is known to do so.
        """
        like, statistics = self.like, Statistics(self.like)
        if self.has_gaps:
            return statistics.parameters(np.zeros(len(statistics), bool))
        data = self._seen if isinstance(self._seen, Moments) else moments_of_rows(self._seen).to_units(like.units)
        mean = np.concatenate([data.mean, np.full(like.n_hidden, (like.convention.lo + like.convention.hi) / 2)])
        second = np.outer(mean, mean)
        second[: like.n_visible, : like.n_visible] = data.second_moment
        held = {"weights_held": settings.l1 > 0 or settings.l2 > 0, "bias_held": settings.l2_bias > 0}
        vector = statistics.vector(Parameters(like.couplings.pick(second), mean))
        least = ROUNDING / (data.n_samples or EXACT_ROWS)
        return statistics.parameters(never_seen(statistics, vector, like.convention, least, **held))

    def has_no_optimum(self, settings: FitSettings) -> bool:
        """Return whether the likelihood is known to grow for ever."""
        return any(one.any() for one in self.open_parameters(settings).arrays)

    def is_followed(self, settings: FitSettings) -> bool:
        """Return whether the rule follows such data to infinity; steps with hidden units end long before."""
        return settings.method in UNBOUNDED and not (self.like.n_hidden and settings.optimizer != "l-bfgs")

    def describe(self, settings: FitSettings) -> list[str]:
        """Return a line for each property of the data by which the rule leaves parameters infinite or open."""
        if not self.is_followed(settings):
            return []
        lines = self.describe_endless(settings)
        if self.like.n_hidden or settings.l2:
            return lines
        n_rows = self.moments.n_samples if self.up is None else len(self.up.of_weight(self.weights)[0])
        return lines + ([] if n_rows is None else describe_few(n_rows, self.like.n_visible))

    @property
    def _seen(self) -> Rows | Moments:
        return self.moments if self.up is None else self.up.of_weight(self.weights)[0]

    def clamped(self) -> PhaseMoments:
        """Return moments of the clamped phase of a machine without hidden units."""
        return from_matrix(self.like.couplings, self.moments.mean, self.moments.second_moment)
