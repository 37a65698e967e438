"""What is measured as learning goes on: pseudo-likelihood, moment error, and the exact likelihood where it is cheap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import rng
from ..couplings import Couplings
from ..couplings.up import up_form
from ..inference.exact import forecast_seconds
from ..inference.methods import run_method
from ..kernels.layered import sum_softplus_layer
from ..model import BoltzmannMachine
from .clamped import hidden_are_independent, machine_of_hidden

MOST_ROWS = 256
MOST_UNITS = 64
EXACT_SECONDS = 0.1
CALL_SECONDS = 3e-4  # of one exact sum, however small


def root_mean_square(couplings: Couplings, arrays: Sequence[np.ndarray]) -> float:
    """Root mean square over the coupled pairs of numbers in the shape of the couplings' arrays."""
    pairs = couplings.to_vector(arrays)
    return float(np.sqrt(pairs @ pairs / max(pairs.size, 1)))


class PseudoLikelihood:
    """sum_i log p(v_i | other visible units), averaged over at most 256 rows, which are the same at every look.

    Of more than 64 units as many are drawn once and stand for all. Hidden units are summed out, which needs them
    independent. Besag, J. R. Stat. Soc. B 36, 192 (1974), doi:10.1111/j.2517-6161.1974.tb00999.x.
    """

    def __init__(self, model: BoltzmannMachine, rows: np.ndarray, beta: float, seed: int) -> None:
        generator = rng.keyed(seed, rng.MONITOR)
        chosen = generator.permutation(len(rows))[:MOST_ROWS]
        self._rows = model.convention.values(rows[np.sort(chosen)], np.float64)
        self._units = np.sort(generator.permutation(model.n_visible)[:MOST_UNITS])
        self._beta = beta

    def __call__(self, model: BoltzmannMachine) -> float:
        log_odds = self._visible_log_odds(model) if model.n_hidden == 0 else self._log_odds_without_hidden(model)
        up = self._rows[:, self._units] == model.convention.hi
        log_p = -np.logaddexp(0.0, np.where(up, -log_odds, log_odds))
        return float(log_p.mean(axis=0).sum() * model.n_visible / len(self._units))

    def _visible_log_odds(self, model: BoltzmannMachine) -> np.ndarray:
        return self._beta * model.convention.span * model.field(self._rows)[:, self._units]

    def _log_odds_without_hidden(self, model: BoltzmannMachine) -> np.ndarray:
        """log p(v_i up | rest) - log p(v_i down | rest): the difference of two free energies."""
        form, field = up_form(model.couplings, model.flat_bias, model.convention)
        block, visible, hidden = form.arrays[0], field[: model.n_visible], field[model.n_visible :]
        up = (self._rows == model.convention.hi).astype(np.float64)
        hidden_field = (up @ block + hidden).T
        scale = np.full(len(up), self._beta)
        log_odds = np.empty((len(up), len(self._units)))
        for k, i in enumerate(self._units):
            down = hidden_field - block[i][:, None] * up[:, i]
            low, high = np.zeros(len(up)), np.zeros(len(up))
            sum_softplus_layer(down, scale, low)
            sum_softplus_layer(down + block[i][:, None], scale, high)
            log_odds[:, k] = self._beta * visible[i] + high - low
        return log_odds


def has_pseudo_likelihood(model: BoltzmannMachine) -> bool:
    """Whether the visible conditionals have a closed form."""
    return hidden_are_independent(model)


def has_exact_likelihood(model: BoltzmannMachine, rows: np.ndarray) -> bool:
    """Whether log Z, and the clamped log Z of each distinct row, are so cheap that a look costs little."""
    if forecast_seconds(model, moments=False) > EXACT_SECONDS:
        return False
    if hidden_are_independent(model):
        return True
    n_patterns = len(np.unique(rows, axis=0))
    each = max(forecast_seconds(machine_of_hidden(model), moments=False), CALL_SECONDS)
    return n_patterns * each <= EXACT_SECONDS


def log_likelihood(model: BoltzmannMachine, rows: np.ndarray, log_z: float, beta: float, threads: int) -> np.ndarray:
    """log p(v) = log Z(v clamped) - log Z of every row of values."""
    if hidden_are_independent(model):
        return -np.atleast_1d(model.free_energy(rows, beta=beta)) - log_z
    unique, inverse = np.unique(rows, axis=0, return_inverse=True)
    clamp = (np.arange(model.n_visible), unique)
    clamped = run_method(model, "exact", beta=beta, clamp=clamp, moments=False, seed=0, threads=threads)
    return clamped.log_z[inverse.ravel()] - log_z
