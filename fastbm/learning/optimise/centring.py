"""Centred parameters: units count from offsets mu, so that couplings and biases are learned apart.

`Offsets` centres the gradient of steps. With D_ij the slope of W_ij and D_i that of b_i, penalties included, the
centred ones are G_ij = D_ij - mu_i D_j - D_i mu_j and G_i = D_i - sum_j G_ij mu_j. They vanish where those do, and
without penalties flipping units, or 0 and 1 for -1 and 1, leaves what is learned as it is.

`Centring` makes parameters that optimisers with curvature are given in place of plain ones: couplings W_ij times the
standard deviations of both units, and biases b + W mu, with mu the data's means; all times beta, so that learning is
one problem, of log-odds, at any beta. Centring takes away most of what couples biases to couplings, so that tens of
iterations do where plain parameters take hundreds.

Montavon and Mueller, in Neural Networks: Tricks of the Trade (2012), doi:10.1007/978-3-642-35289-8_33; Melchior,
Fischer and Wiskott, J. Mach. Learn. Res. 17(99), 1 (2016).
"""

from __future__ import annotations

import numpy as np

from ...machine.machine import BoltzmannMachine
from ..moments import Parameters

RATE = 0.01  # of hidden units' offsets, a mini-batch
NARROWEST = 0.01  # a unit's standard deviation is taken to be at least this part of its span


class Offsets:
    """Offsets of the units: the data's means, and for hidden units a sliding mean of the clamped phase.

    Attributes
    ----------
    values : (n_units,) array
    """

    def __init__(self, like: BoltzmannMachine, visible_means: np.ndarray) -> None:
        units = like.convention
        self._couplings, self._n_visible = like.couplings, like.n_visible
        self.values = np.full(like.n_units, (units.lo + units.hi) / 2)
        self.values[: like.n_visible] = visible_means

    def follow(self, hidden_means: np.ndarray) -> None:
        """Move the hidden units' offsets towards their means of one clamped phase."""
        hidden = self.values[self._n_visible :]
        hidden += RATE * (hidden_means - hidden)

    def slope(self, slope: Parameters) -> Parameters:
        """Return the centred gradient."""
        mu = self.values
        sums = (self._couplings.pair_sums(x[None]) for x in (mu + slope.bias, mu, slope.bias))
        weights = tuple(d - (both - one - other) for d, both, one, other in zip(slope.weights, *sums, strict=True))
        if weights[0].shape == (mu.size, mu.size):
            np.fill_diagonal(weights[0], 0.0)
        pull = self._couplings.with_arrays([np.array(w) for w in weights]).field(mu[None])[0]
        return Parameters(weights, slope.bias - pull)


class Centring:
    """The map between parameters and the vector that the optimiser sees.

    `means` and `spread` are the visible units' means and standard deviations, and `least` what these are taken to be at
    least; the attributes `means` are those of all units, `scale` the factors of couplings and biases, but for `beta`.
    """

    def __init__(
        self, model: BoltzmannMachine, means: np.ndarray, spread: np.ndarray, beta: float = 1.0, least: float = 0.0
    ) -> None:
        units, self._beta = model.convention, beta
        self._couplings = model.couplings
        self.means = np.full(model.n_units, (units.lo + units.hi) / 2)
        width = np.full(model.n_units, units.span / 2)
        self.means[: model.n_visible] = means
        width[: model.n_visible] = np.maximum(spread, max(NARROWEST * units.span, least))
        self.scale = np.concatenate([self._pairs(width), width])
        self.n_pairs = len(self.scale) - model.n_units
        self._products = self._pairs(self.means)

    def _pairs(self, x: np.ndarray) -> np.ndarray:
        """Return x_i x_j of all coupled pairs."""
        return self._couplings.to_vector(self._couplings.pair_sums(x[None]))

    def vector(self, parameters: Parameters) -> np.ndarray:
        """Return parameters as the optimiser's vector."""
        pull = self._couplings.with_arrays(parameters.weights).field(self.means[None])[0]
        plain = np.concatenate([self._couplings.to_vector(parameters.weights), parameters.bias + pull])
        return plain * self.scale * self._beta

    def parameters(self, vector: np.ndarray) -> Parameters:
        """Return the parameters of an optimiser's vector."""
        plain = vector / self.scale / self._beta
        weights = self._couplings.from_vector(plain[: self.n_pairs])
        pull = self._couplings.with_arrays(weights).field(self.means[None])[0]
        return Parameters(weights, plain[self.n_pairs :] - pull)

    def slope(self, slope: Parameters) -> np.ndarray:
        """Return the gradient by the vector: dL/dW_ij - mu_i dL/db_j - dL/db_i mu_j, and dL/db, over the scale."""
        cross = self._pairs(self.means + slope.bias) - self._products - self._pairs(slope.bias)
        plain = np.concatenate([self._couplings.to_vector(slope.weights) - cross, slope.bias])
        return plain / self.scale / self._beta
