"""Hidden units: whether their sum has a closed form, and the machine that they are among themselves."""

from __future__ import annotations

import numpy as np

from .couplings import Layered
from .machine import BoltzmannMachine


def hidden_are_independent(model: BoltzmannMachine) -> bool:
    """Whether the layout couples hidden units to visible ones only."""
    return model.n_hidden == 0 or (isinstance(model.couplings, Layered) and len(model.couplings.sizes) == 2)


def machine_of_hidden(model: BoltzmannMachine) -> BoltzmannMachine:
    """Return the machine of the hidden units with their couplings, as clamping the visible ones leaves them."""
    hidden = np.arange(model.n_visible, model.n_units)
    couplings, bias = model.couplings.restrict(hidden), model.flat_bias[hidden]
    return model.trusted(couplings, bias, model.convention, model.n_hidden, 0.0)


def has_free_energy(model: BoltzmannMachine) -> bool:
    """Whether no two hidden units are coupled, whatever the layout."""
    if hidden_are_independent(model):
        return True
    return not any(np.any(array) for array in machine_of_hidden(model).couplings.arrays)
