"""A machine in terms of units that are up.

With x = 1 where a unit is up and 0 where it is down, P(up) = sigmoid(beta (A x + a)) with A = span^2 W and
a = span (b + lo W 1), span = hi - lo; and E = E(all down) - 1/2 x^T A x - a^T x.
"""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from .._base.threads import single_threaded_blas
from .couplings.protocol import Couplings
from .units import Units

MANY = 256  # units, from which on threads of BLAS may do a product, and go on turning for 50 ms beside our own


def up_form(couplings: Couplings, bias: np.ndarray, units: Units) -> tuple[Couplings, np.ndarray]:
    """Return couplings A and biases a in terms of units that are up; `bias` is (n_units,) or (n_chains, n_units)."""
    if units.lo == 0:  # binary units are 1 where they are up
        return couplings, bias
    return couplings.scaled(units.span**2), up_bias(couplings, bias, units)


def up_bias(couplings: Couplings, bias: np.ndarray, units: Units) -> np.ndarray:
    """Return the biases of `up_form` alone."""
    if units.lo == 0:
        return bias
    with single_threaded_blas() if couplings.n_units >= MANY else nullcontext():
        pull = couplings.field(np.ones((1, couplings.n_units)))[0]
    found: np.ndarray = units.span * (bias + units.lo * pull)
    return found
