"""The part of averages that states not sampled may add, so that no error bar is 0 where nothing seemed to vary.

Of s independent samples none has seen what has a probability of less than about 1 / s (Laplace's rule of succession).
At inverse temperature beta, g states alike that lie D above the others have the probability g exp(-beta D): those that
were just not seen lie about log(g s) / beta higher.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..diagnostics.autocorrelation import AGRESTI_COULL as AGRESTI_COULL, rarely as rarely
from ..machine.machine import BoltzmannMachine

HOTTEST = 1e-300  # inverse temperature, to divide by
WIDEST = 4.0  # standard deviations of the energy at beta = 0, above which energies are not looked for


class Unseen(NamedTuple):
    """The standard error of the probability of unseen states, and their energy above the mean."""

    chance: np.ndarray
    energy: np.ndarray


def free_spread(model: BoltzmannMachine) -> float:
    """Return the standard deviation of the energy at beta = 0."""
    spin = model.to_units("spin")
    values = [array.ravel() for array in spin.couplings.arrays] + [spin.flat_bias]
    largest = max(float(np.abs(array).max(initial=0.0)) for array in values)
    if largest == 0.0:
        return 0.0
    *couplings, bias = (float(((array / largest) ** 2).sum()) for array in values)
    twice = 2.0 if spin.couplings.kind == "dense" else 1.0  # its matrix holds every pair twice
    return largest * math.sqrt(sum(couplings) / twice + bias)


def unseen(model: BoltzmannMachine, betas: float | np.ndarray, ess: float | np.ndarray) -> Unseen:
    """Return what `ess` samples at some inverse temperatures leave unseen.

    It is any one state of `n_units` alike, or those in the tail of the energy where temperature hardly distinguishes
    states.
    """
    reach = WIDEST * free_spread(model)
    coldest = np.log(np.maximum(model.n_units * np.asarray(ess, np.float64), math.e))
    energy = np.minimum(reach, coldest / np.maximum(betas, HOTTEST))
    return Unseen(rarely(ess), energy)


def unseen_flip(model: BoltzmannMachine, beta: float, ess: float) -> Unseen:
    """Return what `ess` samples of chains leave unseen one flip away from the states that they have seen.

    The energy is no more than a flip changes, whatever the other units are: a scale that stays small where a machine of
    many units fluctuates, so that it may be added to the errors of what did vary.
    """
    spin = model.to_units("spin")
    largest = 2.0 * float((np.abs(spin.flat_bias) + spin.couplings.absolute_sums()).max(initial=0.0))
    return Unseen(rarely(ess, AGRESTI_COULL), np.minimum(unseen(model, beta, ess).energy, largest))
