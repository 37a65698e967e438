"""A machine in 64-bit integers: energies neither drift nor round, and states that tie there tie here."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..kernels.exact.integers import round_machine
from ..machine.machine import BoltzmannMachine


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
        both, whole = np.empty((n + 1, n)), np.empty((n + 1, n), np.int64)
        both[:n], both[n] = model.couplings.matrix(), bias
        sizes, add = np.abs(both), np.add.reduce
        largest = units.span**2 * float(add(sizes[:n], axis=None)) + units.span * float(add(sizes[n]))
        down, exponent = round_machine(both, largest, units.lo, units.span, whole)
        return cls(whole[:n], whole[n], model.offset + math.ldexp(down, -exponent), exponent)

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
