"""Clamping is conditioning: clamped units leave the machine, and their pull becomes bias.

Many patterns share the couplings of the free units and differ in bias and offset, so the clamped phase of learning is
the free phase of a conditioned machine, one bias vector per pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from .._base import checks
from ..kernels.functions import LANES, add_log_sums
from .couplings import Couplings
from .units import Units


class Pairwise(Protocol):
    """A pairwise machine, as far as clamping needs to know it."""

    couplings: Couplings
    convention: Units
    n_hidden: int
    offset: float
    names: tuple[Any, ...] | None

    @property
    def n_units(self) -> int:
        """Number of units."""

    @property
    def n_visible(self) -> int:
        """Number of visible units, the first ones."""

    @property
    def flat_bias(self) -> np.ndarray:
        """Biases of all units, (n_units,)."""

    @classmethod
    def trusted(cls, kind: Couplings, bias: np.ndarray, units: Units, n_hidden: int, offset: float) -> Self:
        """Make a machine of parts that are known to be right."""


Machine = TypeVar("Machine", bound=Pairwise)


@dataclass(frozen=True)
class Clamped(Generic[Machine]):
    """The free units of a machine, given patterns on the clamped ones."""

    model: Machine
    indices: np.ndarray  # (k,) clamped units
    free: np.ndarray  # (m,) the others, increasing
    values: np.ndarray  # (n_patterns, k) float64, in the machine's units
    couplings: Couplings  # among the free units
    bias: np.ndarray  # (n_patterns, m)
    offset: np.ndarray  # (n_patterns,)

    @classmethod
    def of(cls, model: Machine, indices: Any, values: Any) -> Clamped[Machine]:
        """Clamp `indices` of `model` to each row of `values`, both checked."""
        units = _check_indices(model, indices)
        patterns = checks.any_array("clamp values", values)
        if patterns.ndim not in (1, 2) or patterns.shape[-1] != len(units):
            raise ValueError(
                f"clamp values must have shape ({len(units)},) or (n_patterns, {len(units)}), one value for "
                "each clamped "
                f"unit; got {patterns.shape}."
            )
        if not patterns.shape[0] and patterns.ndim == 2:
            raise ValueError(f"clamp values must hold at least one pattern; got shape {patterns.shape}.")
        up = model.convention.bits("clamp values", np.atleast_2d(patterns))
        held = model.convention.values(up, np.float64)
        free = np.setdiff1d(np.arange(model.n_units), units)
        whole = np.zeros((len(held), model.n_units))
        whole[:, units] = held
        pull = model.couplings.field(whole)
        bias = model.flat_bias[free] + pull[:, free]
        offset = model.offset - held @ model.flat_bias[units] - 0.5 * (pull[:, units] * held).sum(axis=1)
        return cls(model, units, free, held, model.couplings.restrict(free), bias, offset)

    @property
    def n_patterns(self) -> int:
        """Number of patterns."""
        return len(self.values)

    def machine(self, pattern: int) -> Machine:
        """Return the machine of the free units, given one pattern."""
        n_hidden = int((self.free >= self.model.n_visible).sum())
        left = self.model.trusted(
            self.couplings, self.bias[pattern], self.model.convention, n_hidden, self.offset[pattern]
        )
        if self.model.names is not None:
            left.names = tuple(self.model.names[k] for k in self.free)
        return left

    def log_sum_independent(self, beta: float) -> np.ndarray:
        """Return log sum_h exp(-beta E) of every pattern, for free units that are not coupled to one another."""
        units, found = self.model.convention, -beta * self.offset
        add_log_sums(found, np.ascontiguousarray(self.bias), beta * units.lo, beta * units.hi, np.empty((3, LANES)))
        return found

    def full_states(self, pattern: int, free_values: np.ndarray) -> np.ndarray:
        """Put the free units' values (..., m) back among the clamped ones."""
        whole = np.empty((*free_values.shape[:-1], self.model.n_units), free_values.dtype)
        whole[..., self.free] = free_values
        whole[..., self.indices] = self.values[pattern]
        return whole

    def full_matrix(self, free_matrix: np.ndarray) -> np.ndarray:
        """Put a matrix over the free units back among the clamped ones, whose rows and columns are 0."""
        whole = np.zeros((self.model.n_units, self.model.n_units))
        whole[np.ix_(self.free, self.free)] = free_matrix
        return whole


def fields_of_hidden(model: Pairwise, rows: np.ndarray, room: np.ndarray | None = None) -> np.ndarray:
    """Return the fields of hidden units (m, n_hidden) given rows of visible values, in a machine of two layers.

    They are in `room`, if there is any.
    """
    fields: np.ndarray = np.matmul(rows, model.couplings.arrays[0], out=room)
    fields += model.flat_bias[model.n_visible :]
    return fields


def log_sums_over_hidden(model: Pairwise, rows: np.ndarray, beta: float) -> np.ndarray:
    """Return log sum_h exp(-beta E) of every row of visible values, unchecked, for a machine of two layers."""
    units = model.convention
    found: np.ndarray = beta * (rows @ model.flat_bias[: model.n_visible] - model.offset)
    add_log_sums(found, fields_of_hidden(model, rows), beta * units.lo, beta * units.hi, np.empty((3, LANES)))
    return found


def _check_indices(model: Pairwise, indices: Any) -> np.ndarray:
    units = checks.any_array("clamp indices", indices)
    if units.ndim != 1 or (units.size and units.dtype.kind not in "iu"):
        raise TypeError(f"clamp indices must be a list of whole numbers; got {indices!r}.")
    units = units.astype(np.int64)
    if units.size and not (units.min() >= 0 and units.max() < model.n_units):
        raise ValueError(
            f"clamp indices must be units from 0 to {model.n_units - 1}; got {int(units.min())} to {int(units.max())}."
        )
    repeated = np.flatnonzero(np.bincount(units, minlength=model.n_units) > 1)
    if repeated.size:
        raise ValueError(f"clamp indices must name each unit once; unit {int(repeated[0])} is named twice.")
    return units
