"""What samples that are all alike leave open: states that were not seen, by Laplace's rule of succession."""

from __future__ import annotations

import math

import numpy as np

from ..model import BoltzmannMachine


def laplace_error(ess: float) -> float:
    """The standard error of a probability of which nothing was seen in `ess` samples."""
    p = 1.0 / (ess + 2.0)
    return math.sqrt(p * (1.0 - p) / ess)


def highest_unseen(model: BoltzmannMachine, beta: float, ess: float) -> float:
    """How far above the others the energy of a state lies that is just too rare to be seen in `ess` samples.

    Its probability is about 1 / (ess + 2) of theirs; no two energies of the machine are further apart than all its
    couplings and biases allow.
    """
    with np.errstate(over="ignore"):
        half = float(model.couplings.absolute_sums().sum()) / 2 + float(np.abs(model.flat_bias).sum())
    reach = min(model.convention.span * half, np.finfo(np.float64).max)
    return min(math.log(ess + 2.0) / beta, reach) if beta > 0.0 else reach
