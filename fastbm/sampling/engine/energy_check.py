"""Energies that are told from what sweeps keep: of all units down, how far they may be off, and a look at one."""

from __future__ import annotations

import numpy as np

from ...machine.couplings import Couplings
from ...machine.units import Units

ENERGY_ERROR = 1e-9  # of sum |W| + sum |b|: the most that an energy told from fields may be off


def size_of(couplings: Couplings, bias: np.ndarray) -> float:
    """Return sum |W| + sum |b|, of the smallest of the biases (1 or n_chains, n_units)."""
    return 0.5 * float(couplings.absolute_sums().sum()) + float(np.abs(bias).sum(axis=1).min())


def energy_all_down(field: np.ndarray, bias: np.ndarray, units: Units) -> np.ndarray:
    """Return energies with all units down, (1 or n_chains,); `field` is what `up_bias` makes of `bias`."""
    lo, total = float(units.lo), 0.0
    if lo:  # a = span (b + lo W 1) is at hand
        total = float(((np.atleast_2d(field)[0] / units.span - bias[0]) / lo).sum())
    found: np.ndarray = -0.5 * lo * lo * total - lo * bias.sum(axis=1)
    return found


def check_energy(told: float, up: np.ndarray, couplings: Couplings, bias: np.ndarray, units: Units) -> None:
    """Hold the energy that was told of a chain against its sum in float64; `up` and `bias` are (n_units,).

    Raises
    ------
    RuntimeError
        If it is off by more than it may be.
    """
    values = units.values(up[None], np.float64)
    full = -0.5 * float((couplings.field(values) * values).sum()) - float(values[0] @ bias)
    if abs(told - full) > ENERGY_ERROR * size_of(couplings, bias[None]):
        raise RuntimeError(
            f"the energy of a chain, {told!r}, is not that of its state, {full!r}: the memory of this machine or "
            "its compiled kernels are damaged. What was committed before is sound; resume the run elsewhere."
        )
