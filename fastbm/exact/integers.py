"""A machine in 64-bit integers: energies neither drift nor round, and states that tie there tie here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..kernels.exact.integers import round_machine
from ..machine.machine import BoltzmannMachine
from ..machine.units import Units

BITS = 61  # of the sum of all sizes, at most
LARGEST_EXPONENT = 1023  # of a number


@dataclass(frozen=True)
class IntegerMachine:
    """Energies E = base + 2^-exponent (-sum_{i<j} rises_ij x_i x_j - sum_i fields_i x_i), x_i = 1 where unit i is up.

    The integers are those of the user's couplings in their own convention, times span^2 and span. The sum of all their
    sizes is below 2^62, so that no energy overflows; couplings are rounded to 2^-61 of it.
    """

    rises: np.ndarray  # (n, n) int64, symmetric, zero diagonal
    fields: np.ndarray  # (n,) int64
    base: float  # energy with all units down, offset included
    exponent: int

    @classmethod
    def of(cls, model: BoltzmannMachine) -> IntegerMachine:
        """Round a machine's couplings and biases to integers of one scale."""
        bias, units = model.flat_bias, model.convention
        n = len(bias)
        both = np.empty((n + 1, n))
        both[:n], both[n] = model.couplings.matrix(), bias
        sizes, add = np.abs(both), np.add.reduce
        largest = units.span**2 * float(add(sizes[:n], axis=None)) + units.span * float(add(sizes[n]))
        exponent = BITS - min(math.frexp(largest or 1.0)[1], LARGEST_EXPONENT)  # so that 2^61 steps are a number too
        if model.is_layered:
            return _Rounded(both, exponent, units, model.offset)
        return cls(*_round(both, exponent, units, model.offset), exponent)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self.fields)

    def unit(self, beta: float) -> float:
        """Return beta times the energy of one integer step."""
        return math.ldexp(beta, -self.exponent)

    def condition(self, units: np.ndarray, up: np.ndarray) -> tuple[IntegerMachine, np.ndarray, int]:
        """Hold `units` at the bits `up`; return the machine of the others, their indices, and an energy.

        It is the integer energy that the held units add. The base stays that of the whole.
        """
        held = np.flatnonzero(np.isin(np.arange(self.n_units), units[up.astype(bool)]))
        free = np.setdiff1d(np.arange(self.n_units), units)
        added = -int(self.fields[held].sum()) - int(self.rises[np.ix_(held, held)].sum()) // 2
        fields = self.fields[free] + self.rises[np.ix_(free, held)].sum(axis=1)
        rises = np.ascontiguousarray(self.rises[np.ix_(free, free)])
        return IntegerMachine(rises, fields, self.base, self.exponent), free, added


def _round(both: np.ndarray, exponent: int, units: Units, offset: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Return couplings, biases, and the energy with all units down; `both` is (n + 1, n), the biases its last row."""
    whole = np.empty(both.shape, np.int64)
    down = round_machine(both, exponent, units.lo, units.span, whole)
    return whole[:-1], whole[-1], offset + math.ldexp(down, -exponent)


class _Rounded(IntegerMachine):
    """A machine in layers, rounded when that is asked for: forecasts ask for the scale alone."""

    _given: tuple[np.ndarray, int, Units, float]

    def __init__(self, both: np.ndarray, exponent: int, units: Units, offset: float) -> None:
        vars(self).update(exponent=exponent, _given=(both, exponent, units, offset))

    @cached_property
    def _rounded(self) -> tuple[np.ndarray, np.ndarray, float]:
        return _round(*self._given)

    @property
    def rises(self) -> np.ndarray:
        """Couplings."""
        return self._rounded[0]

    @property
    def fields(self) -> np.ndarray:
        """Biases."""
        return self._rounded[1]

    @property
    def base(self) -> float:
        """Energy with all units down."""
        return self._rounded[2]

    @property
    def n_units(self) -> int:
        """Number of units."""
        return len(self._given[0]) - 1
