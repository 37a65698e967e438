"""Phases by mean field: with linear response, the deterministic machine, or as a variational bound.

`ClampedVariational` has hidden units as independent as mean field has them. With q the product distribution that mean
field finds for a row, the slope of log p(v) >= S(q) - beta <E>_q - log Z at this q is that of the likelihood with <s_i
s_j>_clamped replaced by the product of means. Linear response would give correlations too, at the price of one inverse
a row, but no bound whose slope that is.

`GapsMeanField` holds the known units of a row, and the correlations of the missing and the hidden ones come by linear
response.

Salakhutdinov and Hinton, AISTATS (2009), PMLR 5, 448.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._base import checks
from ..._base.arrays import unlike_rows
from ..._base.checks import Diverged
from ...inference.conditional.completions import Alike, Gapped
from ...inference.conditional.given import How, means_given
from ...inference.conditional.layers import mean_field_layers
from ...inference.fixed_point.mean_field import MeanField, respond
from ...machine.clamping import Clamped
from ...machine.machine import BoltzmannMachine
from ..moments import PhaseMoments, from_matrix, from_values
from .phase import Phase

TOLERANCE = 1e-8  # of means
STARTS = 8  # of the free phase, where the one from means of 0 has no response


class GapsMeanField(Phase):
    """Clamped phase of incomplete rows by mean field; rows whose missing entries are the same are solved together."""

    name = "mean-field"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows`, missing entries and hidden units by mean field."""
        spin = model.to_units("spin")
        gapped = Gapped(spin, rows if model.units == "spin" else 2 * rows - 1)
        mean, second = np.zeros(model.n_units), np.zeros((model.n_units,) * 2)
        for alike in gapped.alike():
            self._add(spin, alike, gapped.shares[alike.rows], mean, second)
        if model.units == "binary":
            second = (second + mean[:, None] + mean[None, :] + 1) / 4
            mean = (1 + mean) / 2
        return from_matrix(model.couplings, mean, second)

    def _add(
        self, spin: BoltzmannMachine, alike: Alike, shares: np.ndarray, mean: np.ndarray, second: np.ndarray
    ) -> None:
        """Add the moments of some rows to `mean` and `second`."""
        clamped, beta = Clamped.of(spin, alike.known, alike.values), self.settings.beta
        means = np.empty((len(alike.rows), spin.n_units))
        means[:, alike.known] = alike.values
        if clamped.free.size:
            means[:, clamped.free], response = _hidden(clamped, beta, shares)
            second[np.ix_(clamped.free, clamped.free)] += response
        mean += shares @ means
        second += (means * shares[:, None]).T @ means


class ClampedVariational(Phase):
    """Clamped phase, hidden units by mean field, their correlations by products of means."""

    name = "variational"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows`, hidden units by mean field."""
        s = self.settings
        if model.n_hidden == 0:
            return from_values(model.couplings, rows)
        if model.is_layered:
            means = mean_field_layers(model, rows, s.beta, s.threads)
        else:
            how = How("mean-field", s.beta, 1, 0, s.seed, s.threads)
            clamped = Clamped.of(model, np.arange(model.n_visible), rows)
            means = means_given(clamped, how, np.arange(len(rows)))
        return from_values(model.couplings, np.concatenate([rows, means], axis=1))


class ClampedMeanField(Phase):
    """Clamped phase, hidden units by mean field, their correlations by linear response."""

    name = "mean-field"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments averaged over `rows`, hidden units by mean field with linear response."""
        if model.n_hidden == 0:
            return from_values(model.couplings, rows)
        spin = model.to_units("spin")
        spin_rows = rows if model.units == "spin" else 2 * rows - 1
        first, which = unlike_rows(spin_rows)
        unique, weights = spin_rows[first], np.bincount(which) / len(spin_rows)
        clamped = Clamped.of(spin, np.arange(model.n_visible), unique)
        beta = self.settings.beta
        hidden, response = _hidden(clamped, beta, weights)
        means = np.concatenate([unique, hidden], axis=1)
        second = (means * weights[:, None]).T @ means
        second[model.n_visible :, model.n_visible :] += response
        mean = weights @ means
        if model.units == "binary":
            second = (second + mean[:, None] + mean[None, :] + 1) / 4
            mean = (1 + mean) / 2
        return from_matrix(model.couplings, mean, second)


class FreeMeanField(Phase):
    """Free phase by mean field with linear response: the deterministic machine.

    Peterson and Anderson, Complex Systems 1, 995 (1987); Kappen and Rodriguez, Neural Comput. 10, 1137 (1998),
    doi:10.1162/089976698300017386.
    """

    name = "mean-field"

    def moments(self, model: BoltzmannMachine, rows: np.ndarray) -> PhaseMoments:
        """Return moments by mean field with linear response; `rows` are ignored."""
        s = self.settings
        about: dict[str, Any] = {"beta": s.beta, "moments": True, "seed": s.seed, "threads": 1}
        with checks.keeping_warnings() as told:
            found = MeanField(n_starts=1, tolerance=TOLERANCE).run(model, **about)
        if found.second_moment is None:  # means of 0 are a saddle where nothing breaks the symmetry
            found, told = MeanField(n_starts=STARTS, tolerance=TOLERANCE).run(model, **about), []
        for text, category in told:
            checks.warn(text, category)
        if found.second_moment is None:
            raise Diverged("the free phase has no finite linear response.")
        return from_matrix(model.couplings, found.mean, found.second_moment)


def _hidden(clamped: Clamped[BoltzmannMachine], beta: float, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means (m, n_free) of free spins given each pattern, and their covariance averaged by `shares`.

    It has no diagonal where none of them are coupled.
    """
    if not any(np.any(array) for array in clamped.couplings.arrays):
        return np.tanh(beta * clamped.bias), np.zeros((clamped.free.size,) * 2)
    means, response = respond(clamped.couplings, clamped.bias.T, beta, shares, tolerance=TOLERANCE, max_sweeps=1000)
    if response is None:
        raise Diverged("the clamped phase has no finite linear response.")
    return means.T, response
