"""Hidden layers given rows, by mean field with its bound; and visible units given all other visible ones.

The bound is that of the best product distribution q: log p(v) >= S(q) - beta <E(v, h)>_q - log Z. Given its neighbours
a layer's means are the best ones in closed form, so that going from layer to layer raises the bound at every step,
without damping; all rows are done by matrix products. For log-odds of visible units hidden ones are summed out.

Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448, eqs. 7-8.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.special import entr

from ..._base.threads import fan_out, single_threaded_blas
from ...kernels.learning.conditionals import LANES, Flips, sum_log_probabilities
from ...machine.clamping import fields_of_hidden
from ...machine.couplings import Layered
from ...machine.machine import BoltzmannMachine
from ...machine.up_form import up_bias

ROWS = 64  # that are worked on together; a fixed number, so that bits do not depend on threads
BOUNDED = 4 * ROWS  # whose bounds are told by a thread
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
    couplings, units = model.couplings, model.convention
    assert isinstance(couplings, Layered)
    values = np.concatenate([rows, means], axis=1, dtype=np.float64)
    energy = model.offset - values @ model.flat_bias
    for (above, below), block in zip(pairwise(couplings.layers), couplings.arrays, strict=True):
        energy -= np.einsum("ij,ij->i", values[:, above] @ block, values[:, below])
    up = np.clip((values[:, model.n_visible :] - units.lo) / units.span, 0.0, 1.0)
    found: np.ndarray = (entr(up) + entr(1.0 - up)).sum(axis=1) - beta * energy
    return found


def lower_bounds(model: BoltzmannMachine, rows: np.ndarray, beta: float, threads: int) -> np.ndarray:
    """Return lower bounds of log Z with the visible units held at each row of values, for a layered machine."""

    def one(first: int) -> np.ndarray:
        values = rows[first : first + BOUNDED].astype(np.float64)
        return bounds_given(model, values, mean_field_layers(model, values, beta, 1), beta)

    with single_threaded_blas():
        return np.concatenate(fan_out(one, range(0, len(rows), BOUNDED), threads))


class Conditionals:
    """Single visible units given all others in the same rows, for one machine after the other.

    Parameters
    ----------
    like : BoltzmannMachine
        Visible, or of two layers; its parameters do not matter.
    rows : (n_rows, n_visible) float64 array
        Values.
    units : (k,) int array
    """

    def __init__(self, like: BoltzmannMachine, rows: np.ndarray, units: np.ndarray) -> None:
        self._rows, self._units = rows, units
        up = (rows[:, units] == like.convention.hi).T
        self._signs = np.where(up, -1.0, 1.0)
        self._flips = Flips(up, like.n_hidden) if like.n_hidden else None
        self._room = np.empty((2, LANES))

    def look(self, model: BoltzmannMachine, beta: float) -> tuple[float, np.ndarray | None]:
        """Return the mean of log p(v_i | others) over rows and units, and log sum_h exp(-beta E(v, h)) of each row.

        One pass over the fields of hidden units serves for both; without any there is no sum.
        """
        against, log_sums = self.log_odds(model, beta)
        self._room[0], self._room[1] = 0.0, 1.0
        total = float(sum_log_probabilities(np.ascontiguousarray(against), self._room))
        return total / against.size, None if log_sums is None else log_sums.copy()

    def log_odds(self, model: BoltzmannMachine, beta: float) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log-odds of what units are not, (k, n_rows), and the log sums; both until the next call."""
        span, n, rows, units = model.convention.span, model.n_visible, self._rows, self._units
        if self._flips is None:
            return self._signs * (beta * span * model.field(rows)[:, units].T), None
        fields = fields_of_hidden(model, rows, self._flips.fields[: len(rows)])
        found = self._flips.found[:, : len(rows)]
        found[0] = beta * (rows @ model.flat_bias[:n] - model.offset + model.convention.hi * fields.sum(axis=1))
        bias = beta * up_bias(model.couplings, model.flat_bias, model.convention)[units]
        np.multiply(self._signs, bias[:, None], out=found[1:])
        self._flips.add(beta * span, beta * span**2 * model.couplings.arrays[0][units])
        return found[1:], found[0]


def log_conditionals(model: BoltzmannMachine, rows: np.ndarray, units: np.ndarray, beta: float) -> np.ndarray:
    """Return log p(v_i | others), (n_rows, len(units))."""
    against = Conditionals(model, rows, units).log_odds(model, beta)[0].T
    found: np.ndarray = -np.maximum(against, 0.0) - np.log1p(np.exp(-np.abs(against)))
    return found
