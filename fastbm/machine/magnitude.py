"""How large energies may be: squares of what is averaged must be numbers too, and what is beyond is refused once."""

from __future__ import annotations

import math
import sys

import numpy as np

from .machine import BoltzmannMachine

LARGEST = sys.float_info.max
MOST = 1e150  # of energies, of beta and of their product, where these are squared; sums of 10^8 squares are numbers


def refuse_beyond_range(model: BoltzmannMachine, beta: float, *, energies: float = MOST, odds: float = MOST) -> None:
    """Refuse machines and temperatures whose energies, or these times beta, no float can hold or square.

    Parameters
    ----------
    energies : float
        The largest energy that may be. Infinite where energies are not squared: of a machine they always are numbers.
    odds : float
        The largest beta, and the largest product of beta and an energy. Infinite where these are not squared.
    """
    largest = 4.0 * model.couplings.absolute_sums().sum() + 2.0 * np.abs(model.flat_bias).sum() + abs(model.offset)
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
