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

import numpy as np

from ..._base.checks import Diverged
from ...inference.conditional.completions import Alike, Gapped
from ...inference.conditional.given import How, means_given
from ...inference.conditional.layers import mean_field_layers
from ...inference.fixed_point.mean_field import MeanField, linear_response, solve
from ...machine.clamping import Clamped
from ...machine.machine import BoltzmannMachine
from ..moments import PhaseMoments, from_matrix, from_values
from .phase import Phase


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
            bias = clamped.bias.T
            solution = solve(
                clamped.couplings, bias, beta, np.zeros_like(bias), tolerance=1e-8, damping=0.0, max_sweeps=1000
            )
            means[:, clamped.free] = solution.means.T
            if any(np.any(array) for array in clamped.couplings.arrays):
                for share, arguments in zip(shares, solution.arguments.T, strict=True):
                    response = linear_response(clamped.couplings, beta, arguments)
                    if response is None:
                        raise Diverged("the clamped phase has no finite linear response.")
                    second[np.ix_(clamped.free, clamped.free)] += share * response
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
        unique, counts = np.unique(spin_rows, axis=0, return_counts=True)
        clamped = Clamped.of(spin, np.arange(model.n_visible), unique)
        beta = self.settings.beta
        solution = solve(
            clamped.couplings,
            clamped.bias.T,
            beta,
            np.zeros_like(clamped.bias.T),
            tolerance=1e-8,
            damping=0.0,
            max_sweeps=1000,
        )
        weights = counts / counts.sum()
        means = np.concatenate([unique, solution.means.T], axis=1)
        second = (means * weights[:, None]).T @ means
        hidden = slice(model.n_visible, None)
        if not model.hidden_are_independent:
            for weight, arguments in zip(weights, solution.arguments.T, strict=True):
                response = linear_response(clamped.couplings, beta, arguments)
                if response is None:
                    raise Diverged("the clamped phase has no finite linear response.")
                second[hidden, hidden] += weight * response
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
        found = MeanField(n_starts=1, tolerance=1e-8).run(model, beta=s.beta, moments=True, seed=s.seed, threads=1)
        if found.second_moment is None:
            raise Diverged("the free phase has no finite linear response.")
        return from_matrix(model.couplings, found.mean, found.second_moment)
