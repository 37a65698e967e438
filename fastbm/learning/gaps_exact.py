"""The clamped phase where rows lack entries, summed exactly: only what is known of a row is held."""

from __future__ import annotations

import numpy as np

from ..inference.completions import Alike, Filled, Gapped, log_sum, log_weights, sum_alike
from ..model import BoltzmannMachine
from ..rows import Rows
from ..threads import single_threaded_blas
from .distinct import distinct
from .gaps import values_of
from .moments import PhaseMoments, from_patterns, hidden_means, learned_pairs, without_diagonal
from .phase import Phase


class GapsExact(Phase):
    """Averages over rows of moments given what is known of a row, which are the gradient of log p(known).

    Louis, J. R. Stat. Soc. B 44, 226 (1982), eq. 3.1, doi:10.1111/j.2517-6161.1982.tb01203.x.
    """

    name = "exact"

    _held: Gapped | None = None

    def hold(self, model: BoltzmannMachine, rows: Rows, weights: np.ndarray | None) -> None:
        """Take all rows once; the rows that `moments` is told are then not looked at."""
        rows, shares = distinct(rows, weights)
        self._held = Gapped(model, values_of(model.convention, rows, slice(None)), shares)

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        gapped = Gapped(model, rows) if self._held is None else self._held
        mean, log_z = np.zeros(model.n_units), 0.0
        pairs = [np.zeros_like(array) for array in model.couplings.arrays]
        with single_threaded_blas():
            parts = [self._listed(model, some, gapped.shares[some.rows]) for some in gapped.filled()]
        parts += [self._summed(model, some, gapped.shares[some.rows]) for some in gapped.summed()]
        for part in parts:
            assert part.log_z is not None
            mean, log_z = mean + part.mean, log_z + part.log_z
            for total, one in zip(pairs, part.pairs, strict=True):
                total += one
        return without_diagonal(PhaseMoments(mean, tuple(pairs), log_z))

    def _listed(self, model: BoltzmannMachine, filled: Filled, shares: np.ndarray) -> PhaseMoments:
        """Sums over rows, and over their fillings by probability."""
        beta = self.settings.beta
        log_f = log_weights(model, filled, beta)
        log_z = log_sum(log_f)
        weights = (shares[:, None] * np.exp(log_f - log_z[:, None])).ravel()
        values = filled.values
        if model.n_hidden:
            values = np.concatenate([values, hidden_means(model, values, beta)], axis=1)
        pairs = model.couplings.pair_sums(values * np.sqrt(weights)[:, None])
        return PhaseMoments(weights @ values, pairs, float(shares @ log_z))

    def _summed(self, model: BoltzmannMachine, alike: Alike, shares: np.ndarray) -> PhaseMoments:
        """Sums over rows that lack the same entries."""
        found = sum_alike(
            model, alike, self.settings.beta, self.settings.threads, moments=True, energy_variance=False,
            pairs=learned_pairs(model.couplings),
        )  # fmt: skip
        return from_patterns(model.couplings, found, shares)
