"""Log-odds of visible units given all other visible ones, hidden units summed out."""

from __future__ import annotations

import numpy as np

from ..couplings.up import up_form
from ..kernels.conditionals import add_conditional_log_odds
from ..model import BoltzmannMachine


def conditional_log_odds(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, beta: float) -> np.ndarray:
    """Return log p(v_i up | others) - log p(v_i down | others), (n_rows, len(units)).

    `rows` (n_rows, n_visible) are values of a machine that is visible, or restricted.
    """
    if model.n_hidden == 0:
        return beta * model.convention.span * model.field(rows)[:, units]
    return _without_hidden(model, rows, units, beta)


def log_conditionals(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, beta: float) -> np.ndarray:
    """Return log p(v_i | others), (n_rows, len(units))."""
    log_odds = conditional_log_odds(model, rows, units, beta)
    up = rows[:, units] == model.convention.hi
    return -np.logaddexp(0.0, np.where(up, -log_odds, log_odds))


def _without_hidden(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, beta: float) -> np.ndarray:
    """The difference of two free energies."""
    form, field = up_form(model.couplings, model.flat_bias, model.convention)
    block, visible, hidden = form.arrays[0], field[: model.n_visible], field[model.n_visible :]
    up = rows == model.convention.hi
    fields = beta * (up.astype(np.float64) @ block + hidden).T
    log_odds = np.empty((len(units), len(rows)))
    log_odds[:] = beta * visible[units, None]
    own = np.ascontiguousarray(up[:, units].T)
    add_conditional_log_odds(np.ascontiguousarray(fields), beta * block[units], own, log_odds)
    return log_odds.T
