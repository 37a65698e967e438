"""Hidden layers given rows, by mean field with its bound; and visible units given all other visible ones.

The bound is that of the best product distribution q: log p(v) >= S(q) - beta <E(v, h)>_q - log Z. Given its neighbours
a layer's means are the best ones in closed form, so that going from layer to layer raises the bound at every step,
without damping; all rows are done by matrix products. For log-odds of visible units hidden ones are summed out.

Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448, eqs. 7-8.
"""

from __future__ import annotations

import numpy as np
from scipy.special import entr

from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.learning.conditionals import LANES, add_conditional_log_odds, sum_log_probabilities
from ...machine.clamping import fields_of_hidden
from ...machine.couplings import Layered, row_blocks
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_bias

ROWS = 64  # that are worked on together; a fixed number, so that bits do not depend on threads
MOST_SWEEPS = 200


def mean_field_layers(
    model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int, max_sweeps: int = MOST_SWEEPS
) -> np.ndarray:
    """Return means (m, n_hidden) of the hidden units of a layered machine given rows of visible values (m, n_visible).

    Layers are gone through from below until no mean changes by more than the root of the rounding of `rows`, in whose
    precision all is done.
    """
    couplings, units, dtype = model.couplings, model.convention, rows.dtype
    assert isinstance(couplings, Layered)
    scale = -beta * units.span  # of exp(-log-odds)
    blocks = [(scale * block).astype(dtype) for block in couplings.arrays]
    biases = [(scale * model.flat_bias[layer]).astype(dtype) for layer in couplings.layers[1:]]
    tolerance = units.span * float(np.finfo(dtype).eps) ** 0.5
    most = dtype.type(80.0 if dtype == np.float32 else 700.0)  # as good as infinite

    def means(argument: np.ndarray) -> np.ndarray:
        np.exp(np.minimum(argument, most, out=argument), out=argument)
        argument += 1
        np.divide(units.span, argument, out=argument)
        argument += dtype.type(units.lo)
        return argument

    def one(first: int) -> np.ndarray:
        some = rows[first : first + ROWS]
        pull = some @ blocks[0] + biases[0]
        above = [np.full((len(some), len(bias)), (units.lo + units.hi) / 2, dtype) for bias in biases]
        for _ in range(max_sweeps if len(above) > 1 else 1):
            change = 0.0
            for k, old in enumerate(above):
                argument = pull.copy() if k == 0 else above[k - 1] @ blocks[k] + biases[k]
                if k + 1 < len(above):
                    argument += above[k + 1] @ blocks[k + 1].T
                above[k] = means(argument)
                change = max(change, float(np.abs(above[k] - old).max(initial=0.0)))
            if change <= tolerance:
                break
        return np.concatenate(above, axis=1)

    with single_threaded_blas():
        return np.concatenate(fan_out(one, range(0, len(rows), ROWS), threads))


def bounds_given(model: BoltzmannMachine, rows: np.ndarray, means: np.ndarray, beta: float) -> np.ndarray:
    """Return S(q) - beta <E(v, h)>_q for every row of visible values, q independent hidden units of `means`."""
    units = model.convention
    values = np.concatenate([rows, means], axis=1, dtype=np.float64)
    energy = model.offset - ((0.5 * model.couplings.field(values) + model.flat_bias) * values).sum(axis=1)
    up = np.clip((values[:, model.n_visible :] - units.lo) / units.span, 0.0, 1.0)
    found: np.ndarray = (entr(up) + entr(1.0 - up)).sum(axis=1) - beta * energy
    return found


def lower_bounds(model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int) -> np.ndarray:
    """Return lower bounds of log Z with the visible units held at each row of values, for a layered machine."""
    found = np.empty(len(rows))
    for some in row_blocks(len(rows), 4 * model.n_units):
        values = rows[some].astype(np.float64)
        found[some] = bounds_given(model, values, mean_field_layers(model, values, beta, threads), beta)
    return found


def conditional_log_odds(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, beta: float) -> np.ndarray:
    """Return log p(v_i up | others) - log p(v_i down | others), (n_rows, len(units)).

    `rows` (n_rows, n_visible) are values of a machine that is visible, or restricted.
    """
    return _log_odds(model, rows, units, is_up(model, rows, units), beta)[0].T


def is_up(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Return where units are up in rows of values, (len(units), n_rows)."""
    return np.ascontiguousarray((rows[:, units] == model.convention.hi).T)


def log_conditionals(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, beta: float) -> np.ndarray:
    """Return log p(v_i | others), (n_rows, len(units))."""
    log_odds = conditional_log_odds(model, rows, units, beta)
    up = rows[:, units] == model.convention.hi
    against = np.where(up, -log_odds, log_odds)
    found: np.ndarray = -np.maximum(against, 0.0) - np.log1p(np.exp(-np.abs(against)))
    return found


def watch_rows(
    model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, up: np.ndarray, beta: float
) -> tuple[float, np.ndarray | None]:
    """Return the mean of `log_conditionals` over rows and units, and log sum_h exp(-beta E(v, h)) of each row.

    One pass over the fields of hidden units serves for both; without any there is no sum. `up` is what `is_up` returns.
    """
    log_odds, log_sums = _log_odds(model, rows, units, up, beta)
    room = np.zeros((2, LANES))
    room[1] = 1.0
    return float(sum_log_probabilities(np.where(up, -log_odds, log_odds), room)) / log_odds.size, log_sums


def _log_odds(
    model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, up: np.ndarray, beta: float
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return log-odds of units, (len(units), n_rows), and log sums over hidden units, (n_rows,), if there are any."""
    span, n = model.convention.span, model.n_visible
    if model.n_hidden == 0:
        return np.ascontiguousarray(beta * span * model.field(rows)[:, units].T), None
    fields, before = fields_of_hidden(model, rows), np.empty((1 + len(units), len(rows)))
    before[0] = beta * (rows @ model.flat_bias[:n] - model.offset + model.convention.hi * fields.sum(axis=1))
    before[1:] = beta * up_bias(model.couplings, model.flat_bias, model.convention)[units, None]
    weights = beta * span**2 * model.couplings.arrays[0][units]
    found = add_conditional_log_odds(fields, beta * span, weights, up, before)
    return found[1:], found[0]
