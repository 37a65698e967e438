"""How large energies may be: squares of what is averaged must be numbers too, and what is beyond is refused once.

So is what energies leave no digits for: a bias of 1e18 holds its unit, but beside it floats do not tell one of 0.3.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from .machine import BoltzmannMachine

LARGEST = sys.float_info.max
MOST = 1e150  # of energies, of beta and of their product, where these are squared; sums of 10^8 squares are numbers
LOST, PART = 0.01, 1e-6  # of log-odds, and as a part of a unit's own ones, that rounding of energies may take from them
SURE = 0.1 * LOST / sys.float_info.epsilon  # a log Z up to which it takes less than that


def refuse_beyond_range(model: BoltzmannMachine, beta: float, *, energies: float = MOST, odds: float = MOST) -> None:
    """Refuse machines and temperatures whose energies, or these times beta, no float can hold or square.

    And machines of which some units have energies that others' leave no digits for.

    Parameters
    ----------
    energies : float
        The largest energy that may be. Infinite where energies are not squared: of a machine they always are numbers.
    odds : float
        The largest beta, and the largest product of beta and an energy. Infinite where these are not squared.
    """
    varying = 4.0 * model.couplings.absolute_sums().sum() + 2.0 * np.abs(model.flat_bias).sum()
    largest, rounding = varying + abs(model.offset), beta * float(varying) * sys.float_info.epsilon
    if LOST < rounding < LARGEST:
        _refuse_lost(model, beta, rounding)
    if largest <= energies and beta <= odds and beta * float(largest) <= min(odds, LARGEST):
        return
    product = f"beta={beta:g} times energies of up to {largest:.3g}"
    wrong = {
        f"the square of energies of up to {largest:.3g}": largest > energies,
        product: not math.isfinite(beta * float(largest)),
        f"the square of {product}": beta * float(largest) > odds,
        f"the square of beta={beta:g}": beta > odds,
    }
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise ValueError(f"{what} is beyond the largest number; lower beta, or rescale weights and bias.")


def _refuse_lost(model: BoltzmannMachine, beta: float, rounding: float) -> None:
    """Refuse a machine with a unit whose own log-odds are lost in `rounding`, that of the largest energies."""
    odds = beta * model.convention.span * (model.couplings.absolute_sums() + np.abs(model.flat_bias))
    lost = np.flatnonzero((odds > LOST) & (rounding > PART * odds))
    if len(lost):
        unit = int(lost[0])
        raise ValueError(
            f"weights and biases reach so far that energies have no digits left for unit {model.name_of(unit)}: its "
            f"log-odds are {odds[unit]:.3g} at most, and rounding takes {rounding:.2g}. Hold units with clamp= (or "
            f"model.condition) in place of huge weights and biases; {1e3 / beta:.3g} is as good as infinite."
        )
